"""The transactions of a cycle, read from segments: those with captured changes, those of enabling, no others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from builders.capture.capture_instances import instance, source_table, version_of
from builders.log.log_stores import NOW, records
from rowtide.cdc.capture.change_files import (
    TRANSACTION,
    InstanceChanges,
    SegmentReader,
    count_by_instance,
    count_changes,
    find_end,
    list_transactions,
    read_captured,
)
from rowtide.cdc.capture.planning import CyclePlan, InstanceWork, VersionRows
from rowtide.cdc.ddl.schema_changes import InstanceLifetime
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import NO_TABLE, Operation
from rowtide.log.store.entries import Segment
from rowtide.log.store.location import LocalStore
from rowtide.log.store.segments import write_segment

TABLE = source_table()
LIFETIME = InstanceLifetime(instance("m1", table=TABLE), CommitLsn(5))


def plan_of(segments: Sequence[Segment], begun: Sequence[InstanceLifetime] = ()) -> CyclePlan:
    """A cycle over [10, 100) that captures table 1."""
    work = InstanceWork(LIFETIME, (VersionRows(version_of(TABLE, 1), tuple(segments)),))
    return CyclePlan(Position(10), Position(100), (work,), begun=tuple(begun), event_segments=tuple(segments))


def read_transactions(store: LocalStore, plan: CyclePlan, last_time: datetime | None) -> pa.Table:
    return list_transactions(read_captured(SegmentReader(store), plan), last_time)


def lsns(found: pa.Table) -> list[object]:
    return list(found["start_lsn"].to_pylist())


def test_transaction_is_listed_once_if_it_has_captured_changes(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    first = write_segment(store, records([(1, 9, 1), (1, 20, 1), (1, 20, 2), (2, 30, 1)]))
    second = write_segment(store, records([(1, 99, 1), (2, 99, 2), (1, 100, 1)]))
    found = read_transactions(store, plan_of([second, first]), None)
    assert found.schema == TRANSACTION
    assert lsns(found) == [20, 99]
    assert found["tran_id"].to_pylist() == [140, 693]


def test_a_transaction_in_which_an_instance_begins_is_listed(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    segment = write_segment(store, records([(NO_TABLE, 40, 0), (NO_TABLE, 50, 0), (1, 60, 1)]))
    begun = InstanceLifetime(instance("m2", table=TABLE, name="second"), CommitLsn(40))
    plan = plan_of([segment], [begun])
    assert lsns(read_transactions(store, plan, None)) == [40, 60]
    assert count_changes(read_captured(SegmentReader(store), plan)) == 1


def test_changes_are_counted_by_instance_and_operation(tmp_path: Path) -> None:
    """A table that two instances capture counts for both; what is not in the cycle's range counts for none."""
    store = LocalStore(str(tmp_path))
    changes = [(1, 20, 1), (1, 30, 1), (1, 40, 1), (2, 50, 1), (1, 60, 1), (1, 100, 1), (3, 70, 1)]
    inserts, truncates = [Operation.INSERT] * 2, [Operation.TRUNCATE] * 2
    operations = (*inserts, Operation.UPDATE, Operation.DELETE, Operation.INSERT, *truncates)
    found = records(changes).sort_by("commit_lsn")
    place = found.schema.get_field_index("operation")
    column = pa.array([int(operation) for operation in operations], found.schema.field("operation").type)
    segment = write_segment(store, found.set_column(place, found.schema.field("operation"), column))
    works = [
        InstanceWork(
            InstanceLifetime(instance(f"m{number}", table=TABLE, name=name), CommitLsn(5)),
            tuple(VersionRows(version_of(TABLE, table), (segment,)) for table in tables),
        )
        for number, (name, tables) in enumerate({"one": (1,), "again": (1, 2), "none": (9,)}.items())
    ]
    plan = CyclePlan(Position(10), Position(100), tuple(works), event_segments=(segment,))
    counted = list(count_by_instance(read_captured(SegmentReader(store), plan), plan))
    assert counted == [InstanceChanges("one", 3, 1, 0), InstanceChanges("again", 3, 1, 1)]


def test_end_times_never_decrease_within_or_across_cycles(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    changed = records([(1, 20, 1), (1, 30, 1), (1, 40, 1), (1, 50, 1)])
    times = [NOW + timedelta(seconds=seconds) for seconds in (1, 5, 3, 9)]
    changed = changed.set_column(1, changed.schema.field("commit_time"), [pa.array(times, changed["commit_time"].type)])
    plan = plan_of([write_segment(store, changed)])
    floor = NOW + timedelta(seconds=4)
    found = read_transactions(store, plan, floor)
    assert found["tran_commit_time"].to_pylist() == times
    assert found["tran_end_time"].to_pylist() == [floor, times[1], times[1], times[3]]


def test_cycle_that_captured_nothing_has_no_transactions(tmp_path: Path) -> None:
    assert read_transactions(LocalStore(str(tmp_path)), plan_of([]), NOW).equals(TRANSACTION.empty_table())


def test_range_ends_after_maxtrans_even_within_a_segment(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    first = write_segment(store, records([(1, 20, 1), (1, 20, 2), (2, 25, 1), (1, 30, 1), (1, 40, 1)]))
    part = write_segment(store, records([(1, 50, 1)]))
    rest = write_segment(store, records([(1, 50, 2)]))
    plan = plan_of([first, part, rest])
    assert [find_end(SegmentReader(store), plan, maxtrans) for maxtrans in (1, 2, 3)] == [
        Position(21),
        Position(31),
        Position(41),
    ]
    assert find_end(SegmentReader(store), plan, 4) == plan.to_position


def test_segments_behind_the_end_of_a_range_are_not_read(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    first, last = (write_segment(store, records([(1, lsn, 1), (1, lsn + 1, 1)])) for lsn in (20, 30))
    store.delete(last.path)
    assert find_end(SegmentReader(store), plan_of([first, last]), 1) == Position(21)
