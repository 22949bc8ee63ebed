from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders.capture.capture_instances import source_table
from builders.commands.check_facts import capture, captured_instance, database, table
from rowtide.databases.source_table import SourceTable, TableKind
from rowtide.diagnosis.postgres.table_facts import PartitionFacts
from rowtide.diagnosis.postgres.tables import check_table, check_tables
from rowtide.diagnosis.result import Advice, CheckResult, State

FULL = replace(source_table(), identity="f")


def only(made: SourceTable | None = None, **changes: Any) -> CheckResult:
    (result,) = check_table(table(made, **changes))
    return result


def with_virtual(made: SourceTable, name: str) -> SourceTable:
    """Let a column be computed when it is read."""
    columns = (replace(column, is_generated=True, is_virtual=column.name == name) for column in made.columns)
    return replace(made, columns=tuple(columns))


def test_an_ordinary_table_has_no_findings_of_its_own() -> None:
    assert list(check_table(table())) == []


def test_unlogged_table_has_set_logged_as_its_only_finding() -> None:
    result = only(source_table([("id", "json")], key=(), kind=TableKind.UNLOGGED))
    assert result.message == "table public.t1 cannot be captured: it is unlogged"
    assert str(result.remediation).startswith('alter table "public"."t1" set logged;')


def test_a_temporary_table_is_refused() -> None:
    result = only(source_table(kind=TableKind.TEMPORARY))
    assert result.message == "table public.t1 cannot be captured: it is temporary"
    assert isinstance(result.remediation, Advice)


@pytest.mark.parametrize(("is_wanted", "severity"), [(True, State.FAILING), (False, State.WARNING)])
def test_what_nobody_asked_for_stops_nothing(*, is_wanted: bool, severity: State) -> None:
    assert only(source_table(kind=TableKind.UNLOGGED), is_wanted=is_wanted).state is severity


def test_virtual_column_is_reported_with_sql_that_stores_it() -> None:
    made = with_virtual(source_table([("id", "integer"), ("twice", "integer")]), "twice")
    result = only(made, is_wanted=True, expressions={"twice": "(id * 2)"})
    assert result.state is State.FAILING
    assert str(result.remediation) == (
        'alter table "public"."t1" drop column "twice"; '
        'alter table "public"."t1" add column "twice" integer generated always as ((id * 2)) stored; '
        "-- as the table's owner; it becomes the last column"
    )


def test_reserved_column_is_left_out_of_a_requested_table() -> None:
    result = only(source_table([("id", "integer"), ("__$Seqval", "integer"), ("n", "text")]), is_wanted=True)
    assert result.state is State.WARNING
    assert str(result.remediation) == """rowtide cdc enable-table '"public"."t1"' --columns id,n"""


def test_printed_command_has_every_option_the_table_needs() -> None:
    made = source_table([("id", "integer"), ("__$exact", "integer"), ("__$seqval", "integer")], name="odd; name")
    assert {str(result.remediation) for result in check_table(table(made))} == {
        """rowtide cdc enable-table '"public"."odd; name"' --capture-instance public_odd_name --columns id"""
    }


def test_a_reserved_name_that_cannot_be_left_out_is_renamed() -> None:
    made = source_table([("__$exact", "integer"), ("n", "text")], key=("__$exact",))
    expected = 'alter table "public"."t1" rename column "__$exact" to "__$exact_"; -- as the table\'s owner'
    assert str(only(made).remediation) == expected


def test_the_printed_command_has_names_with_commas_in_brackets() -> None:
    made = source_table([("id", "integer"), ("__$exact", "integer"), ("a,b", "text")])
    assert str(only(made).remediation) == """rowtide cdc enable-table '"public"."t1"' --columns 'id,[a,b]'"""


@pytest.mark.parametrize(
    ("name", "instance"), [('Odd "1"', "public_Odd_1_"), ("n" * 200, ("public_" + "n" * 200)[:100])]
)
def test_table_with_an_unusable_name_gets_an_instance_name(name: str, instance: str) -> None:
    result = only(source_table(name=name))
    assert result.state is State.WARNING
    assert str(result.remediation).endswith(f"--capture-instance {instance}")


def test_tables_with_equal_instance_names_get_distinct_ones() -> None:
    tables = (
        table(source_table(schema="a", name="b_c", source_id=1)),
        table(source_table(schema="a_b", name="C", source_id=2)),
        table(source_table(schema="a", name="d", source_id=3)),
    )
    (result,) = [found for found in check_tables(database(tables=tables)) if found.state is State.WARNING]
    assert result.message == "its capture instance would be called a_b_C, as that of a.b_c"
    assert str(result.remediation) == """rowtide cdc enable-table '"a_b"."C"' --capture-instance a_b_C_2"""


def test_a_name_that_an_instance_has_already_is_numbered_on() -> None:
    instances = tuple(captured_instance(name=name) for name in ("public_T1", "public_t1_2"))
    facts = database(tables=(table(source_table(schema="public", name="t1")),), capture=capture(instances=instances))
    assert [f for f in check_tables(facts) if f.state is State.WARNING] == []
    other = replace(facts, tables=(table(source_table(schema="public", name="T1")),))
    (result,) = [found for found in check_tables(other) if found.state is State.WARNING]
    assert str(result.remediation).endswith("--capture-instance public_T1_3")


def test_the_cost_of_out_of_line_values_is_warned_of() -> None:
    result = only(row_width=120, row_count=1000, out_of_line_bytes=2_048_000)
    assert result.state is State.WARNING
    assert "the whole old row, 2.1 KiB on average, and" in result.message
    assert result.message.endswith("2 MiB are stored out of line")
    assert list(check_table(table(FULL, out_of_line_bytes=2_048_000))) == []


def test_full_replica_identity_is_noted_once_for_all_tables() -> None:
    tables = (
        table(source_table(name="a"), row_width=40),
        table(source_table(name="b"), row_width=3000),
        table(replace(FULL, name="c")),
        table(source_table(name="d"), is_captured=True),
        table(source_table(name="e"), out_of_line_bytes=1),
        table(source_table(name="f", kind=TableKind.UNLOGGED)),
    )
    (result,) = [found for found in check_tables(database(tables=tables)) if found.subject == "tables"]
    assert result.message == (
        "enabling sets replica identity full for public.a, public.b: updates and deletes then log the whole old row, "
        "40 bytes to 2.9 KiB on average"
    )


def test_partition_of_captured_root_without_full_identity_warns() -> None:
    partitions = (PartitionFacts("public", "p1", "f"), PartitionFacts("Sales", "p2", "d"))
    result = only(FULL, is_captured=True, partitions=partitions)
    assert result.state is State.WARNING
    assert result.message.startswith("the replica identity of partition Sales.p2 is not full: change rows ")
    assert str(result.remediation) == 'alter table "Sales"."p2" replica identity full; -- as the table\'s owner'
    assert list(check_table(table(FULL, partitions=partitions))) == []
    of_keys = replace(FULL, identity="d")
    assert not [
        found for found in check_table(table(of_keys, is_captured=True, partitions=partitions)) if found.remediation
    ]


def test_without_a_key_there_are_no_net_changes() -> None:
    result = only(source_table(key=()))
    assert result.state is State.HEALTHY
    assert isinstance(result.remediation, Advice)
    unique = only(source_table(key=()), unique_key=("id", "Name"))
    assert (
        str(unique.remediation) == 'alter table "public"."t1" add primary key ("id", "Name"); -- as the table\'s owner'
    )
    captured = only(source_table(key=()), unique_key=("id",), is_captured=True)
    assert str(captured.remediation).endswith("; then disable its instances and enable them again")


def test_names_differing_only_in_case_are_noted_with_lake_names() -> None:
    result = only(source_table([("id", "integer"), ("ID", "integer"), ("Id", "integer")]))
    assert result.message == "names that differ only in case: in the lake ID is ID_2, Id is Id_3"


def test_types_that_the_lake_holds_as_text_are_reported() -> None:
    exact = ["text", "character varying(9)", "uuid", "numeric(9,2)", "date"]
    columns = [(f"c{number}", made) for number, made in enumerate([*exact, "numeric", "json", "text[]", "interval"])]
    result = only(source_table([("id", "integer"), *columns]))
    assert result.message.endswith("prints: c5 (numeric), c6 (json), c7 (text[]), c8 (interval)")


def test_captured_table_has_no_findings_about_enabling() -> None:
    made = source_table([("id", "integer"), ("__$exact", "integer")], name="a b", kind=TableKind.UNLOGGED)
    assert list(check_table(table(made, is_captured=True, out_of_line_bytes=9))) == []


def test_foreign_tables_are_reported() -> None:
    (result,) = check_tables(database(foreign_tables=("public.a", "public.b")))
    assert result.state is State.HEALTHY
    assert "public.a, public.b are on another server" in result.message


def test_a_domain_is_text_in_the_lake_where_what_it_is_over_is() -> None:
    made = source_table([("id", "integer"), ("size", "public.size"), ("places", "public.places")])
    bases = (None, "smallint", "text[]")
    columns = (replace(column, base_type_text=base) for column, base in zip(made.columns, bases, strict=True))
    assert only(replace(made, columns=tuple(columns))).message.endswith("prints: places (public.places)")
