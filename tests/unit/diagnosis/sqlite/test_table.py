from __future__ import annotations

from builders.commands.check_facts import TRACKED
from rowtide.databases.sqlite.catalogue import Column, Table, UniqueKey, UniqueTerm
from rowtide.diagnosis.result import Advice, CheckResult, State
from rowtide.diagnosis.sqlite.schema_copy import ColumnEffects
from rowtide.diagnosis.sqlite.views import SqliteTableFacts, check_table
from rowtide.tracking.options import TrackedTable

NONE = ColumnEffects()
ASKED = ColumnEffects(asked=("touch",))


def table(*columns: Column, unique: tuple[str, ...] = ()) -> Table:
    keys = tuple(UniqueKey((UniqueTerm(f'"{name}"', "binary"),)) for name in unique)
    return Table("t", columns, "rowid", is_rowid_key=False, is_strict=False, unique_keys=keys)


def column(name: str, *, is_nullable: bool = False, key_ordinal: int | None = None) -> Column:
    return Column(name, "text", is_nullable, None, key_ordinal, is_generated=False)


def find(made: Table, effects: ColumnEffects = NONE, tracked: TrackedTable | None = None) -> list[CheckResult]:
    return list(check_table(SqliteTableFacts(made, tracked, effects)))


KEYED = table(column("id", key_ordinal=1), column("name", is_nullable=True))


def test_an_ordinary_table_has_no_findings() -> None:
    assert find(KEYED) == []


def test_without_a_key_nothing_else_is_said() -> None:
    (result,) = find(table(column("name")), ASKED)
    assert (result.state, type(result.remediation)) == (State.WARNING, Advice)


def test_a_command_has_all_that_a_table_needs() -> None:
    made = table(column("rowguid"), unique=("rowguid",))
    assert [str(result.remediation) for result in find(made)] == ["rowtide tracking enable t --key rowguid"]
    assert {str(result.remediation) for result in find(made, ASKED)} == {
        "rowtide tracking enable t --key rowguid --storage side"
    }


def test_what_is_tracked_keeps_its_key_and_moves_its_stamps() -> None:
    (result,) = find(KEYED, ASKED, TRACKED)
    assert str(result.remediation) == "rowtide tracking disable public.t1 && rowtide tracking enable t --storage side"


def test_each_effect_is_reported_in_one_finding() -> None:
    (result,) = find(KEYED, ColumnEffects(broken=("keep",), widened=("v",), asked=("touch", "log")))
    assert result.message == (
        "the columns that tracking adds to a table are felt here: "
        "SQLite refuses statements of keep, which rely on the number of its columns; "
        "v would show them, with select *; "
        "touch, log, a trigger of every update, is asked when a row is stamped too"
    )
