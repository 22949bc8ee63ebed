"""A table as of each LSN is what the source had then, through snapshots and cleanups that may be cut anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builders.capture.capture_processes import CaptureProcess
from builders.commands.command_lines import rowtide, rowtide_process
from builders.faults.cuts import Cut, cut_at
from builders.faults.failpoints import ROLLING_FAILPOINTS
from builders.lakes.base_tables import base_rows, read_rows, snapshots_of
from rowtide.cdc.cleanup import cleanup as cleanup_module, rolling
from rowtide.cdc.ddl import retyping
from rowtide.cdc.errors.capturing import CleanupIncomplete
from rowtide.cdc.errors.querying import OutsideInterval, RewrittenSinceSnapshot, TypesDiffer
from rowtide.cdc.published import base_table_path, change_table_path
from rowtide.cdc.requests import CleanupOrder
from rowtide.cdc.snapshots.chunk_copies import CopyLimits
from rowtide.core.lsn import CommitLsn
from rowtide.delta.errors import LakeWriteFailed
from rowtide.handle import open_lake
from rowtide.lake.tables import is_table

if TYPE_CHECKING:
    from builders.capture.captured_databases import CapturedDatabase

pytestmark = pytest.mark.usefixtures("vacuumed")

SMALL = CopyLimits(chunk_bytes=2 * 1024, workers=1)
TABLES = ("orders", "notes")
CHANGES = (
    "update orders set total = total + 1 where id % 3 = 0",
    "delete from orders where id between 5 and 9",
    "update orders set id = id + 1000 where id < 4",
    "insert into notes values ('again', 1), ('again', 1), (null, 'nan')",
    "delete from notes where word = 'again'",
    "update notes set amount = 2 where word is null",
    "insert into orders values (5, 'five', 'NaN')",
    "truncate notes",
    "insert into notes values ('new', 0)",
    "update orders set customer = 'all'",
)

State = dict[str, list[str]]


@pytest.fixture
def states(copied: CapturedDatabase) -> dict[CommitLsn, State]:
    """Two tables, one without a key, copied and then changed: what they had at each LSN."""
    copied.execute(
        "create table orders (id int primary key, customer text, total numeric(10, 2))",
        "insert into orders select i, 'customer ' || i, i / 4.0 from generate_series(1, 60) i",
        "create table notes (word text, amount float8)",
        "insert into notes select 'word ' || i % 7, i % 3 from generate_series(1, 40) i",
    )
    copied.enable(*TABLES, snapshot=True)
    copied.copy_tables(SMALL)
    return change(copied, *CHANGES)


def change(copied: CapturedDatabase, *statements: str) -> dict[CommitLsn, State]:
    states = {}
    for statement in statements:
        copied.execute(statement)
        copied.capture()
        states[published(copied)] = {table: select(copied, table) for table in TABLES}
    return states


def published(copied: CapturedDatabase) -> CommitLsn:
    lsn = copied.cdc.get_max_lsn()
    assert lsn is not None
    return lsn


def select(copied: CapturedDatabase, table: str) -> list[str]:
    return sorted(text for (text,) in copied.execute(f"select row(t.*)::text from {table} t"))


def read(copied: CapturedDatabase, table: str, lsn: CommitLsn) -> list[str]:
    """Return a table's rows as of an LSN, as the server prints rows."""
    ended = rowtide("cdc", "as-of", f"public_{table}", "--at", str(lsn), "--format", "jsonl", "--db", copied.url)
    assert ended.code == 0, ended.errors
    return sorted(as_text(json.loads(line)) for line in ended.output.splitlines())


def as_text(row: Mapping[str, object]) -> str:
    texts = ("" if value is None else _as_text(value) for value in row.values())
    return f"({','.join(texts)})"


def _as_text(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f'"{text}"' if " " in text else text


def assert_as_recorded(copied: CapturedDatabase, states: Mapping[CommitLsn, State], low: CommitLsn) -> None:
    for lsn, state in states.items():
        if lsn >= low:
            assert {table: read(copied, table, lsn) for table in TABLES} == state, lsn


def test_tables_are_what_they_were_at_each_lsn(copied: CapturedDatabase, states: dict[CommitLsn, State]) -> None:
    assert_as_recorded(copied, states, next(iter(states)))
    lsns = list(states)
    for low in (lsns[4], lsns[8]):
        copied.cdc.cleanup(CleanupOrder(low_water_mark=low))
        assert_as_recorded(copied, states, low)
    assert rows_below(copied, lsns[8]) == 0
    with pytest.raises(OutsideInterval):
        copied.cdc.stream_table_as_of("public_orders", lsns[3])


def rows_below(copied: CapturedDatabase, low: CommitLsn) -> int:
    rows = read_rows(change_table_path(str(copied.lake), "public_orders"))
    return sum(row["__$start_lsn"] < low.value for row in rows)


@pytest.mark.exhaustive
@pytest.mark.parametrize("place", [*ROLLING_FAILPOINTS, "rows_removal.before", "rows_removal.after"])
def test_a_cleanup_that_was_cut_loses_no_lsn(
    copied: CapturedDatabase, states: dict[CommitLsn, State], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    low = list(states)[7]
    with monkeypatch.context() as patched:
        for module in (rolling, cleanup_module):
            patched.setattr(module, "failpoint", cut_at(place))
        with pytest.raises(Cut):
            copied.cdc.cleanup(CleanupOrder(low_water_mark=low))
    assert_as_recorded(copied, states, low)
    copied.cdc.cleanup(CleanupOrder(low_water_mark=list(states)[8]))
    assert_as_recorded(copied, states, list(states)[8])


@pytest.mark.exhaustive
def test_rows_stay_while_their_base_cannot_be_written(
    copied: CapturedDatabase, states: dict[CommitLsn, State], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(base: rolling.Base, _before_commit: Callable[[], None]) -> None:
        raise LakeWriteFailed(base.path, "the storage is full")

    low = list(states)[7]
    with monkeypatch.context() as patched:
        patched.setattr(rolling.Base, "roll", fail)
        with pytest.raises(CleanupIncomplete, match="the storage is full"):
            copied.cdc.cleanup(CleanupOrder(low_water_mark=low))
    assert rows_below(copied, low) > 0
    assert_as_recorded(copied, states, low)
    copied.cdc.cleanup(CleanupOrder(low_water_mark=low))
    assert rows_below(copied, low) == 0
    assert_as_recorded(copied, states, low)


@pytest.mark.exhaustive
def test_a_running_capture_rolls_bases_forward(
    copied: CapturedDatabase, states: dict[CommitLsn, State], tmp_path: Path
) -> None:
    low = list(states)[7]
    with CaptureProcess(copied.url, tmp_path) as process:
        process.wait_published(copied)
        copied.cdc.cleanup(CleanupOrder(low_water_mark=low))
        assert process.interrupt() == 0
    assert rows_below(copied, low) == 0
    assert_as_recorded(copied, states, low)


@pytest.mark.soak
@pytest.mark.parametrize("place", ROLLING_FAILPOINTS)
def test_a_cleanup_that_is_killed_loses_no_lsn(
    copied: CapturedDatabase, states: dict[CommitLsn, State], place: str
) -> None:
    low = list(states)[7]
    command = ("cdc", "cleanup", "--low-water-mark", str(low), "--db", copied.url)
    assert rowtide_process(*command, environment={"ROWTIDE_FAILPOINT": place}).code == -9
    assert_as_recorded(copied, states, low)
    assert rowtide_process(*command).code == 0
    assert_as_recorded(copied, states, low)


@pytest.mark.exhaustive
def test_cleanup_drops_layers_below_a_newer_snapshot(
    copied: CapturedDatabase, states: dict[CommitLsn, State], vacuumed: list[str]
) -> None:
    copied.cdc.resnapshot("public_orders")
    copied.copy_tables(SMALL)
    later = change(copied, "update orders set customer = 'later' where id = 10", "delete from orders where id = 11")
    assert_as_recorded(copied, states | later, next(iter(states)))
    low = list(later)[1]
    copied.cdc.cleanup(CleanupOrder(low_water_mark=low))
    assert base_table_path(str(copied.lake), "public_orders") in vacuumed
    newest = snapshots_of(copied, "public_orders")[-1]
    assert min(base_rows(copied, "public_orders", "__$start_lsn")) >= (newest.begin.value,)
    assert_as_recorded(copied, later, low)


@pytest.mark.exhaustive
def test_rewritten_values_need_a_new_snapshot(copied: CapturedDatabase) -> None:
    copied.execute(
        "create table orders (id int primary key, total int, price numeric(4, 1))",
        "insert into orders values (1, 2, 1.5), (2, 3, 2.5)",
    )
    copied.enable("orders", snapshot=True)
    copied.copy_tables()
    copied.execute("alter table orders alter price type numeric(9, 1)", "insert into orders values (3, 4, 12345.5)")
    copied.capture()
    before = published(copied)
    copied.execute("alter table orders alter total type bigint using total * 10", "insert into orders values (4, 5, 1)")
    copied.capture()
    with pytest.raises(RewrittenSinceSnapshot) as refused:
        copied.cdc.stream_table_as_of("public_orders")
    assert "using total * 10" in str(refused.value)
    assert read(copied, "orders", before) == ["(1,2,1.5)", "(2,3,2.5)", "(3,4,12345.5)"]
    copied.cdc.resnapshot("public_orders")
    copied.copy_tables()
    assert read(copied, "orders", published(copied)) == ["(1,20,1.5)", "(2,30,2.5)", "(3,40,12345.5)", "(4,5,1.0)"]


def carry_half(copied: CapturedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut capture off where the change table has new types, and the base not yet."""
    copied.read_log()
    with monkeypatch.context() as patched:
        patched.setattr(retyping, "failpoint", cut_at("types_carried.after"))
        with pytest.raises(Cut):
            copied.capture_log()


@pytest.mark.parametrize("key", ["primary key", ""], ids=["keyed", "without key"])
def test_a_rewrite_that_only_widens_needs_no_new_snapshot(
    copied: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    copied.execute(
        f"create table orders (id int {key}, total smallint, price real, tax numeric(4, 1))",
        "insert into orders values (1, 2, 0.1, 1.5), (2, -3, 1e30, 'NaN'), (3, null, -0.3, 99.9)",
    )
    copied.enable("orders", snapshot=True)
    copied.copy_tables()
    copied.execute("update orders set total = 4 where id = 2")
    copied.capture()
    before = published(copied)

    def rows() -> list[str]:
        return sorted(text for (text,) in copied.execute("select row(id, total, price::real, tax)::text from orders"))

    copied.execute(
        "alter table orders alter id type bigint, alter total type int, alter price type double precision, "
        "alter tax type numeric(9, 3)"
    )
    expected = {before: rows()}
    carry_half(copied, monkeypatch)
    assert read(copied, "orders", before) == expected[before]
    with pytest.raises(CleanupIncomplete, match="RT-2217.* types of id, total, price, tax"):
        copied.cdc.cleanup(CleanupOrder(low_water_mark=before))
    assert read(copied, "orders", before) == expected[before]
    copied.execute("insert into orders values (5000000000, 70000, 0.1, 1.125)", "delete from orders where id = 1")
    copied.capture()
    expected[published(copied)] = rows()

    copied.cdc.cleanup(CleanupOrder(low_water_mark=before))

    assert [change.rewrites_values for change in copied.cdc.get_ddl_history("public_orders")] == [False]
    assert {lsn: read(copied, "orders", lsn) for lsn in expected} == expected


@pytest.mark.exhaustive
@pytest.mark.parametrize("retyped", ["orders alter total type text", "notes alter amount type real"])
def test_a_table_with_half_carried_types_is_not_read(
    copied: CapturedDatabase, states: dict[CommitLsn, State], monkeypatch: pytest.MonkeyPatch, retyped: str
) -> None:
    last, table = list(states)[-1], retyped.partition(" ")[0]
    copied.execute(f"alter table {retyped}")
    carry_half(copied, monkeypatch)
    with pytest.raises(TypesDiffer, match=f"the change table of public_{table} and its base"):
        open_lake(str(copied.lake)).get_table_as_of(f"public_{table}", last)
    copied.capture()
    assert read(copied, table, last) == states[last][table]


@pytest.mark.exhaustive
def test_cleanup_makes_no_base_without_a_snapshot(copied: CapturedDatabase) -> None:
    copied.execute("create table orders (id int primary key)")
    copied.enable("orders")
    for number in range(3):
        copied.execute(f"insert into orders values ({number})")
        copied.capture()
    copied.cdc.cleanup(CleanupOrder(low_water_mark=published(copied)))
    assert rows_below(copied, published(copied)) == 0
    assert not is_table(base_table_path(str(copied.lake), "public_orders"))


@pytest.mark.exhaustive
def test_a_dropped_column_of_rows_without_a_key_ends_a_copy(copied: CapturedDatabase) -> None:
    """Rows that are told apart by all of their values are not found by those that are left."""
    copied.execute(
        "create table notes (word text, amount float8)",
        "insert into notes values ('one', 1), ('one', 2), ('two', 2), ('three', 3)",
    )
    copied.enable("notes", snapshot=True)
    copied.copy_tables()
    before = published(copied)
    copied.execute("alter table notes drop column amount", "delete from notes where word = 'two'")
    copied.capture()
    with pytest.raises(RewrittenSinceSnapshot):
        copied.cdc.stream_table_as_of("public_notes")
    assert words_of(copied, before) == ["one", "one", "three", "two"]
    copied.cdc.resnapshot("public_notes")
    copied.copy_tables()
    copied.execute(
        "alter table notes add column later int",
        "delete from notes where ctid = (select ctid from notes where word = 'one' limit 1)",
        "update notes set word = 'five' where word = 'three'",
    )
    copied.capture()
    assert words_of(copied, None) == ["five", "one"]


def words_of(copied: CapturedDatabase, lsn: CommitLsn | None) -> list[str]:
    found = copied.cdc.stream_table_as_of("public_notes", lsn).to_arrow().read_all()
    return sorted(str(word) for word in found.column("word").to_pylist())
