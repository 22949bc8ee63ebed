"""Snapshots of captured tables: rows that were there before are copied while changes are captured."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

import rowtide
from builders.commands.command_lines import rowtide as run
from builders.faults.waiting_commits import end_waiting, waiting_commit
from builders.lakes.base_tables import base_rows, read_rows, snapshots_of, table_of
from fixtures.captured import open_copied
from fixtures.servers import fresh_database
from rowtide.cdc.errors.capturing import SnapshotConditionInvalid, SnapshotNeedsKey, SnapshotNotOpen, SnapshotOpen
from rowtide.cdc.published import base_table_path, change_table_path, system_table_path
from rowtide.cdc.recorded_snapshots import RecordedSnapshot, SnapshotState
from rowtide.cdc.rows.conversion import BaseRows
from rowtide.cdc.snapshots.chunk_copies import CopyLimits
from rowtide.cdc.snapshots.runner import SnapshotRunner
from rowtide.core import failpoints

if TYPE_CHECKING:
    from builders.capture.captured_databases import CapturedDatabase
    from builders.servers.object_servers import Bucket
    from rowtide.databases.postgres.embedded import EmbeddedServer

SMALL = CopyLimits(chunk_bytes=16 * 1024, workers=1)
ORDERS = (
    "create table orders (id int primary key, customer text, total numeric(10, 2))",
    "insert into orders select i, 'customer ' || i, i / 4.0 from generate_series(1, 1500) i",
)


def is_published(copied: CapturedDatabase, snapshot: RecordedSnapshot) -> bool:
    published = copied.cdc.get_max_lsn()
    return published is not None and snapshot.is_covered_at(published)


def copy_with(copied: CapturedDatabase, *between: Callable[[], object]) -> None:
    """Copy the requested tables in small chunks; after each chunk the next of some actions is done."""
    actions = iter(between)
    copied.capture()
    with copied.open_snapshots(SMALL) as runner:
        chunks = 0
        while runner.step():
            runner.wait(0.05)
            now = _copied_chunks(copied)
            if now > chunks:
                chunks = now
                next(actions, _nothing)()
    assert next(actions, None) is None, "there were fewer chunks than actions"
    copied.capture()


def _nothing() -> None:
    pass


def _copied_chunks(copied: CapturedDatabase) -> int:
    return sum(request.chunks for request in copied.cdc.list_snapshots()) or len(_files(copied))


def _files(copied: CapturedDatabase) -> set[str]:
    folders = (copied.lake / "cdc").glob("*_base")
    return {file.name for folder in folders for file in folder.glob("*.parquet")}


def step_until(runner: SnapshotRunner, is_met: Callable[[], bool]) -> None:
    while not is_met():
        assert runner.step()
        runner.wait(0.05)


def select(copied: CapturedDatabase, query: str) -> list[tuple[object, ...]]:
    return sorted(copied.execute(query), key=repr)


def test_rows_that_were_there_are_in_the_base_table(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)

    copied.copy_tables(SMALL)

    found = base_rows(copied, "public_orders", "id", "customer", "total")
    assert found == select(copied, "select id, customer, total from orders")
    (snapshot,) = snapshots_of(copied, "public_orders")
    assert snapshot.state is SnapshotState.COVERED
    assert snapshot.definition.of_chunks > 2
    assert {row[0] for row in base_rows(copied, "public_orders", "__$start_lsn")} == {snapshot.begin.value}
    assert set(base_rows(copied, "public_orders", "__$operation", "__$seqval")) == {(2, 0)}
    assert is_published(copied, snapshot)


def test_cdc_run_once_copies_and_ends(copied: CapturedDatabase) -> None:
    copied.execute("create table orders (id int primary key)", "insert into orders select generate_series(1, 100)")
    copied.enable("orders", snapshot=True)

    copied.cdc.run(once=True)

    assert base_rows(copied, "public_orders", "id") == sorted(((n,) for n in range(1, 101)), key=repr)
    (snapshot,) = snapshots_of(copied, "public_orders")
    assert is_published(copied, snapshot)
    (listed,) = copied.cdc.list_snapshots()
    assert (listed.state, listed.copied_rows, listed.chunks, listed.of_chunks) == ("finished", 100, 1, 1)


def test_changes_during_the_copy_are_in_the_table(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)

    copy_with(
        copied,
        lambda: copied.execute(
            "update orders set id = 5000 where id = 1",
            "update orders set id = 0 where id = 1500",
            "update orders set total = 7 where id in (3, 1400)",
        ),
        lambda: copied.execute(
            "delete from orders where id in (2, 1300)", "insert into orders values (6000, 'new', 1), (-5, 'low', 2)"
        ),
    )

    found = table_of(copied, "public_orders", "id", "customer", "total", key=("id",))
    assert found == select(copied, "select id, customer, total from orders")


@pytest.mark.exhaustive
def test_truncate_during_the_copy_removes_what_was_copied(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)

    copy_with(
        copied,
        lambda: copied.execute("truncate orders", "insert into orders values (1, 'first', 1), (1499, 'last', 2)"),
    )

    assert table_of(copied, "public_orders", "id", "customer", key=("id",)) == [(1, "first"), (1499, "last")]
    assert [one.state for one in snapshots_of(copied, "public_orders")] == [SnapshotState.COVERED]


def test_without_key_one_snapshot_decides_which_changes_count(copied: CapturedDatabase) -> None:
    copied.execute(
        "create table notes (note text)", "insert into notes select 'note ' || i % 3 from generate_series(1, 30) i"
    )
    copied.enable("notes", snapshot=True)
    copied.capture()
    with copied.transaction() as open_writer:
        open_writer.execute("insert into notes values ('written before, committed after')")
        with copied.open_snapshots() as runner:
            step_until(runner, lambda: bool(snapshots_of(copied, "public_notes")))
            copied.execute("insert into notes values ('note 1')", "delete from notes where note = 'note 2'")
            open_writer.commit()
            while runner.step():
                runner.wait(0.05)
    copied.capture()

    (snapshot,) = snapshots_of(copied, "public_notes")
    assert snapshot.definition.visible is not None
    assert table_of(copied, "public_notes", "note") == select(copied, "select note from notes")


@pytest.fixture
def with_standby(server_with_standby: EmbeddedServer, tmp_path: Path) -> Iterator[CapturedDatabase]:
    with fresh_database(server_with_standby) as url, open_copied(url, tmp_path / "lake") as opened:
        yield opened


def test_commit_that_is_logged_but_invisible_is_waited_for(with_standby: CapturedDatabase) -> None:
    with_standby.execute(*ORDERS)
    with_standby.enable("orders", snapshot=True)
    with_standby.capture()

    late = "insert into orders values (9999, 'late', 1)"
    with waiting_commit(with_standby, late), with_standby.open_snapshots(SMALL) as runner:
        for _ in range(3):
            assert runner.step()
            runner.wait(0.5)
        (listed,) = with_standby.cdc.list_snapshots()
        assert (listed.state, listed.snapshot) == ("requested", None)
        assert "waiter" in (listed.outcome or "")
        end_waiting(with_standby)
        while runner.step():
            runner.wait(0.05)
    with_standby.capture()

    (snapshot,) = snapshots_of(with_standby, "public_orders")
    (change,) = read_rows(change_table_path(str(with_standby.lake), "public_orders"))
    assert change["__$start_lsn"] < snapshot.begin.value
    found = table_of(with_standby, "public_orders", "id", key=("id",))
    assert found == select(with_standby, "select id from orders")


@pytest.mark.exhaustive
def test_ddl_before_the_first_chunk_is_below_the_snapshot(with_standby: CapturedDatabase) -> None:
    with_standby.execute(*ORDERS, "create table other (id int)")
    with_standby.enable("orders", snapshot=True)
    with_standby.capture()

    with waiting_commit(with_standby, "insert into other values (1)"), with_standby.open_snapshots(SMALL) as runner:
        step_until(runner, lambda: "waiter" in (with_standby.cdc.list_snapshots()[0].outcome or ""))
        with_standby.execute("alter table orders alter customer type text using upper(customer)")
        end_waiting(with_standby)
        while runner.step():
            runner.wait(0.05)
    with_standby.capture()

    (altered,) = read_rows(system_table_path(str(with_standby.lake), "ddl_history"))
    (snapshot,) = snapshots_of(with_standby, "public_orders")
    assert altered["ddl_lsn"] < snapshot.begin.value
    found = table_of(with_standby, "public_orders", "id", "customer", key=("id",))
    assert found == select(with_standby, "select id, customer from orders")


@pytest.mark.exhaustive
def test_a_locked_table_is_copied_later(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS, "create table bag (id int)", "insert into bag values (1)")
    copied.enable("orders", "bag", snapshot=True)
    copied.capture()
    with copied.open_snapshots(SMALL) as runner:
        with copied.transaction() as altering:
            altering.execute("lock table orders, bag in access exclusive mode")
            step_until(runner, lambda: all("4202" in (one.outcome or "") for one in copied.cdc.list_snapshots()))
        while runner.step():
            runner.wait(0.05)

    assert len(base_rows(copied, "public_orders", "id")) == 1500
    assert base_rows(copied, "public_bag", "id") == [(1,)]


@pytest.mark.exhaustive
def test_rewriting_ddl_during_the_copy_begins_it_again(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)

    copy_with(copied, lambda: copied.execute("alter table orders alter customer type text using upper(customer)"))

    first, second = snapshots_of(copied, "public_orders")
    assert (first.state, second.state) == (SnapshotState.CANCELLED, SnapshotState.COVERED)
    found = table_of(copied, "public_orders", "id", "customer", key=("id",))
    assert found == select(copied, "select id, customer from orders")
    assert len(read_rows(base_table_path(str(copied.lake), "public_orders"))) == 1500


def test_type_change_during_the_copy_reaches_the_base(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)

    copy_with(
        copied,
        lambda: copied.execute(
            "alter table orders alter total type numeric(12, 4), alter id type bigint",
            "insert into orders values (5000000000, 'far', 1.2345)",
        ),
    )

    found = table_of(copied, "public_orders", "id", "total", key=("id",))
    assert found == select(copied, "select id, total from orders")


def test_base_has_types_before_capture_publishes_them(
    copied: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)
    copied.capture()
    with copied.open_snapshots(SMALL) as runner:
        step_until(runner, lambda: _copied_chunks(copied) > 0)
    copied.execute("alter table orders alter total type numeric(14, 2), alter id type bigint")
    copied.execute("insert into orders values (5000000000, 'far', 5000000000.25)")
    copied.read_log()
    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "_find_armed", cut_after_types)
        with pytest.raises(InterruptedError):
            copied.capture_log()

    with copied.open_snapshots(SMALL) as runner:
        while runner.step():
            runner.wait(0.05)
    copied.capture()

    found = table_of(copied, "public_orders", "id", "total", key=("id",))
    assert found == select(copied, "select id, total from orders")


def cut_after_types(name: str, _directory: str | None) -> None:
    if name == "types_carried.after":
        raise InterruptedError(name)


def test_what_a_library_raises_ends_the_copy_alone(copied: CapturedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    copied.execute(*ORDERS, "create table other (id int primary key)", "insert into other values (1)")
    copied.enable("orders", "other", snapshot=True)
    copied.capture()

    def convert(rows: BaseRows, lines: bytes, lacking: Collection[str] = ()) -> pa.RecordBatch:
        if rows.instance.source_table == "orders":
            raise pa.ArrowInvalid("a fault")
        return whole(rows, lines, lacking)

    whole = BaseRows.convert
    monkeypatch.setattr(BaseRows, "convert", convert)
    copied.copy_tables()

    outcomes = {one.capture_instance: (str(one.state), one.outcome) for one in copied.cdc.list_snapshots()}
    assert outcomes["public_orders"][0] == "failed"
    assert "RT-22861" in str(outcomes["public_orders"][1])
    assert outcomes["public_other"][0] == "finished"


@pytest.mark.exhaustive
def test_type_change_after_the_copy_reaches_the_base(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)
    copied.copy_tables()

    copied.execute("alter table orders alter id type bigint, alter customer type varchar(40)")
    copied.execute("update orders set customer = 'x' where id = 1")
    copied.capture()

    found = table_of(copied, "public_orders", "id", "customer", key=("id",))
    assert found == select(copied, "select id, customer from orders")


@pytest.mark.exhaustive
def test_dropped_and_renamed_columns_are_known_by_number(copied: CapturedDatabase) -> None:
    copied.execute("create table t (id int primary key, a text, b text)", "insert into t values (1, 'a', 'b')")
    copied.enable("t", snapshot=True)
    copied.capture()
    copied.execute("alter table t drop column a", "alter table t rename b to a", "alter table t rename to s")

    copied.copy_tables()

    assert base_rows(copied, "public_t", "id", "a", "b") == [(1, None, "b")]


def test_values_are_those_of_captured_rows(copied: CapturedDatabase) -> None:
    copied.execute(
        'create table "Odd Table" (id int primary key, "a,b" text, "ü ""q""" bytea, big numeric, d date, f float8,'
        " t timestamptz, arr int[], j jsonb, b boolean, u uuid, i interval)",
    )
    copied.execute(
        """insert into "Odd Table" values
        (1, '', '\\x00ff', 1e60, '0044-03-15 BC', 'NaN', 'infinity', '{1,NULL}', '{"a": "x\\"y"}', true,
         '00000000-0000-0000-0000-000000000001', '1 month'),
        (2, null, null, null, null, null, null, null, null, null, null, null),
        (3, e'line\\nbreak, "quoted"\\r\\n\\\\.', '', 0.1, '9999-12-31', '-Infinity', '2020-01-01 00:00:00.123456+02',
         '{}', '[]', false, 'ffffffff-ffff-ffff-ffff-ffffffffffff', '-00:00:01'),
        (4, '\\.', '', 12345678901234567890.123, 'infinity', 1e308, '4713-01-01 BC', null, null, null, null, null)""",
    )
    copied.cdc.enable_db(str(copied.lake))
    copied.cdc.enable_table('"Odd Table"', capture_instance="odd")
    copied.copy_tables()
    copied.execute('update "Odd Table" set id = id + 10')
    copied.capture()

    rows = {row["id"]: row for row in read_rows(base_table_path(str(copied.lake), "odd"))}
    changed = {row["id"]: row for row in read_rows(f"{copied.lake}/cdc/odd_CT") if row["__$operation"] == 2}
    names = [name for name in rows[1] if not name.startswith("__$") and name != "id"]
    for number in (1, 2, 3, 4):
        expected = {name: str(changed[number + 10][name]) for name in [*names, "__$exact"]}
        assert {name: str(rows[number][name]) for name in [*names, "__$exact"]} == expected
    assert rows[1]["__$exact"]


@pytest.mark.exhaustive
def test_a_column_alone_keeps_nulls_and_empty_texts(copied: CapturedDatabase) -> None:
    copied.execute("create table t (v text)", "insert into t values (null), (''), ('x'), (null)")
    copied.enable("t", snapshot=True)

    copied.copy_tables()

    assert base_rows(copied, "public_t", "v") == sorted([("",), ("x",), (None,), (None,)], key=repr)


def test_partitions_are_copied_and_children_are_not(copied: CapturedDatabase) -> None:
    copied.execute(
        "create table p (id int primary key, v int) partition by range (id)",
        "create table p1 partition of p for values from (0) to (1000)",
        "create table p2 partition of p for values from (1000) to (2000)",
        "insert into p select i, i from generate_series(1, 1999) i",
        "create table parent (id int primary key)",
        "create table child () inherits (parent)",
        "insert into parent values (1)",
        "insert into child values (2)",
    )
    copied.enable("p", "parent", snapshot=True)

    copied.copy_tables(SMALL)

    assert table_of(copied, "public_p", "id", key=("id",)) == select(copied, "select id from p")
    assert snapshots_of(copied, "public_p")[0].definition.of_chunks > 1
    assert base_rows(copied, "public_parent", "id") == [(1,)]


@pytest.mark.exhaustive
def test_an_empty_table_is_covered(copied: CapturedDatabase) -> None:
    copied.execute("create table t (id int primary key)")
    copied.enable("t", snapshot=True)

    copied.copy_tables()

    assert base_rows(copied, "public_t", "id") == []
    assert [one.state for one in snapshots_of(copied, "public_t")] == [SnapshotState.COVERED]


@pytest.mark.exhaustive
def test_without_snapshot_nothing_is_copied(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders")

    copied.copy_tables()

    assert snapshots_of(copied, "public_orders") == ()
    assert copied.cdc.list_snapshots() == ()


def test_resnapshot_is_a_layer_of_its_own(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)
    copied.copy_tables()
    copied.execute("alter table orders disable trigger all")

    assert copied.cdc.resnapshot("orders") == ("public_orders",)
    copied.copy_tables()

    first, second = snapshots_of(copied, "public_orders")
    assert first.covered is not None
    assert first.covered < second.begin
    for snapshot in (first, second):
        at = snapshot.covered
        assert at is not None
        assert len(table_of(copied, "public_orders", "id", key=("id",), at=at)) == 1500


def test_resnapshot_of_some_rows_lies_on_top(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)
    copied.copy_tables()
    copied.execute("update orders set customer = 'changed' where id <= 10")

    copied.cdc.resnapshot("public_orders", where="id <= 20 and customer like '%'")
    copied.copy_tables()

    _, second = snapshots_of(copied, "public_orders")
    assert not second.is_whole
    assert len(base_rows(copied, "public_orders", "id")) == 1520
    found = table_of(copied, "public_orders", "id", "customer", key=("id",))
    assert found == select(copied, "select id, customer from orders")


def test_what_cannot_be_requested_is_refused(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS, "create table notes (note text)")
    copied.enable("orders", "notes")
    with pytest.raises(SnapshotNeedsKey):
        copied.cdc.resnapshot("notes", where="note <> ''")
    with pytest.raises(SnapshotConditionInvalid):
        copied.cdc.resnapshot("orders", where="nothing = 1")
    with pytest.raises(SnapshotNotOpen):
        copied.cdc.pause_snapshot("orders")

    copied.cdc.resnapshot("orders")

    with pytest.raises(SnapshotOpen):
        copied.cdc.resnapshot("orders")


@pytest.mark.exhaustive
def test_paused_snapshot_waits_and_is_resumed(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)
    copied.capture()
    with copied.open_snapshots(SMALL) as runner:
        step_until(runner, lambda: len(_files(copied)) >= 2)
        copied.cdc.pause_snapshot("orders")
        while runner.step():
            runner.wait(0.05)
        paused = _chunk_count(copied)
        assert not runner.step()
        assert copied.cdc.list_snapshots()[0].state == "paused"
        copied.cdc.resume_snapshot("orders")
        while runner.step():
            runner.wait(0.05)
    copied.capture()

    (snapshot,) = snapshots_of(copied, "public_orders")
    assert 0 < paused < snapshot.definition.of_chunks
    assert len(base_rows(copied, "public_orders", "id")) == 1500


def _chunk_count(copied: CapturedDatabase) -> int:
    return len({row[0] for row in base_rows(copied, "public_orders", "id")}) // 100


def test_cancelled_snapshot_leaves_no_rows(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)
    copied.capture()
    with copied.open_snapshots(SMALL) as runner:
        step_until(runner, lambda: len(_files(copied)) >= 2)
        copied.cdc.cancel_snapshot("orders")
        while runner.step():
            runner.wait(0.05)

    assert base_rows(copied, "public_orders", "id") == []
    assert [one.state for one in snapshots_of(copied, "public_orders")] == [SnapshotState.CANCELLED]
    assert copied.cdc.list_snapshots()[0].state == "cancelled"


@pytest.mark.parametrize("ending", ["drop table orders", pytest.param("disable", marks=pytest.mark.exhaustive)])
def test_an_instance_that_ends_ends_its_snapshot(copied: CapturedDatabase, ending: str) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)
    copied.capture()
    with copied.open_snapshots(SMALL) as runner:
        step_until(runner, lambda: len(_files(copied)) >= 2)
        if ending == "disable":
            copied.cdc.disable_table("orders")
        else:
            copied.execute(ending)
        while runner.step():
            runner.wait(0.05)
    copied.capture()

    assert base_rows(copied, "public_orders", "id") == []


def test_a_copy_goes_on_where_it_was_left(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)
    copied.capture()
    with copied.open_snapshots(SMALL) as runner:
        step_until(runner, lambda: len(_files(copied)) >= 3)
    copied_before = set(base_rows(copied, "public_orders", "id"))
    copied.execute("update orders set customer = 'x'")

    copied.copy_tables(SMALL)

    (snapshot,) = snapshots_of(copied, "public_orders")
    assert snapshot.state is SnapshotState.COVERED
    assert copied_before
    assert len(base_rows(copied, "public_orders", "id")) == 1500
    found = table_of(copied, "public_orders", "id", "customer", key=("id",))
    assert found == select(copied, "select id, customer from orders")


@pytest.mark.exhaustive
def test_rate_is_kept(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.cdc.enable_db(str(copied.lake))
    copied.cdc.enable_table("orders", rows_per_second=1000)
    copied.capture()
    seen: list[int] = []
    began = time.monotonic()
    with copied.open_snapshots(SMALL, on_report=lambda report: seen.append(report.rows)) as runner:
        while runner.step():
            runner.wait(0.05)
    seconds = time.monotonic() - began

    assert seconds > 1
    assert seen[-1] == 1500


@pytest.mark.exhaustive
def test_a_copied_lake_has_the_base_tables(copied: CapturedDatabase, tmp_path: Path) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)
    copied.copy_tables()

    rowtide.copy_lake(str(copied.lake), str(tmp_path / "elsewhere"))

    expected = table_of(copied, "public_orders", "id", key=("id",))
    moved = replace(copied, lake=tmp_path / "elsewhere")
    assert table_of(moved, "public_orders", "id", key=("id",)) == expected


@pytest.mark.exhaustive
def test_after_a_gap_the_table_is_copied_again(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS, "create table never (id int primary key)")
    copied.enable("orders", snapshot=True)
    copied.enable("never")
    copied.copy_tables()
    copied.drop_slot()
    copied.execute("update orders set customer = 'lost' where id = 1")

    copied.cdc.reinitialize("the slot was dropped")
    copied.copy_tables()

    found = table_of(copied, "public_orders", "id", "customer", key=("id",))
    assert found == select(copied, "select id, customer from orders")
    assert [one.begin.epoch for one in snapshots_of(copied, "public_orders")] == [0, 1]
    assert snapshots_of(copied, "public_never") == ()


@pytest.mark.exhaustive
def test_disabling_the_database_removes_copied_rows(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)
    copied.copy_tables()

    copied.cdc.disable_db()

    assert base_rows(copied, "public_orders", "id") == []
    assert read_rows(system_table_path(str(copied.lake), "snapshots")) == []


@pytest.mark.exhaustive
def test_name_that_is_used_again_has_its_own_rows_only(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    copied.enable("orders", snapshot=True)
    copied.capture()
    with copied.open_snapshots(SMALL) as runner:
        step_until(runner, lambda: len(_files(copied)) >= 2)
        copied.cdc.cancel_snapshot("orders")
        while runner.step():
            runner.wait(0.05)
    copied.cdc.disable_table("orders")
    copied.capture()
    copied.execute("truncate orders", "insert into orders values (1, 'only', 1)")
    copied.enable("orders", snapshot=True)

    copied.copy_tables()
    copied.copy_tables()

    assert base_rows(copied, "public_orders", "id", "customer") == [(1, "only")]


@pytest.mark.exhaustive
def test_text_that_is_not_utf8_is_as_in_captured_rows(server: EmbeddedServer, tmp_path: Path) -> None:
    with fresh_database(server, encoding="SQL_ASCII") as url, open_copied(url, tmp_path / "lake") as copied:
        copied.execute(
            "create table t (id int primary key, v text)", r"insert into t values (1, e'a\\377b'), (2, 'plain')"
        )
        copied.enable("t", snapshot=True)
        copied.copy_tables()
        copied.execute("update t set id = id + 10")
        copied.capture()

        changed = {row["id"]: row["v"] for row in read_rows(change_table_path(str(copied.lake), "public_t"))}
        assert base_rows(copied, "public_t", "id", "v") == [(1, changed[11]), (2, "plain")]


def test_commands_request_copy_and_list(copied: CapturedDatabase) -> None:
    copied.execute("create table t (id int primary key)", "insert into t select generate_series(1, 3)")
    db = ("--db", copied.url)
    assert run("cdc", "enable-db", *db, "--lake", str(copied.lake)).code == 0
    enabled = run("cdc", "enable-table", "t", "--rows-per-second", "1000", *db)
    assert "copies the rows that are there" in enabled.errors
    assert run("cdc", "snapshots", "--pause", "t", *db).errors == "Paused: the snapshot of public_t.\n"
    assert run("cdc", "snapshots", "--resume", "t", *db).errors == "Resumed: the snapshot of public_t.\n"
    again = run("cdc", "resnapshot", "t", *db)
    assert again.errors.startswith("RT-4210: ")

    assert "public_t: requested, 0 rows" in run("cdc", "status", *db).output
    ended = run("cdc", "run", "--once", *db)

    assert "copying public_t: 3 rows" in ended.errors
    assert "all rows are copied" in ended.errors
    (listed,) = map(json.loads, run("cdc", "snapshots", "--format", "jsonl", *db).output.splitlines())
    assert (listed["state"], listed["copied_rows"], listed["rows_per_second"]) == ("finished", 3, 1000)
    assert run("cdc", "resnapshot", "public_t", "--where", "id > 1", *db).code == 0


@pytest.mark.exhaustive
def test_tables_are_copied_into_a_bucket(copied: CapturedDatabase, bucket: Bucket) -> None:
    copied.execute(*ORDERS)
    copied.cdc.enable_db(f"{bucket.url}/lake")
    copied.cdc.enable_table("orders")

    copied.copy_tables(SMALL)

    in_bucket = replace(copied, lake=cast("Path", f"{bucket.url}/lake"))
    assert table_of(in_bucket, "public_orders", "id", key=("id",)) == select(copied, "select id from orders")
