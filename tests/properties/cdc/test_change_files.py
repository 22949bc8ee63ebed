"""What a cycle's segments become: as many change rows as are counted, and those of each table alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from builders.log.log_records import log_records
from builders.log.random_records import Logged, random_change, random_records, random_table
from builders.values.arrow_rows import assert_same_rows
from rowtide.cdc.capture import change_files
from rowtide.cdc.capture.change_files import (
    SegmentReader,
    Selection,
    convert_part,
    convert_segment,
    divide,
    read_captured,
    select_records,
)
from rowtide.cdc.capture.planning import CyclePlan, InstanceWork, VersionRows
from rowtide.cdc.change_columns import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, UPDATE_BEFORE
from rowtide.cdc.ddl.schema_changes import InstanceLifetime
from rowtide.cdc.rows.conversion import LsnRange, convert_records
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import LoggedTable
from rowtide.log.store.entries import Segment
from rowtide.log.store.location import LocalStore
from rowtide.log.store.segments import write_segment
from rowtide.storage.store import Store

LONG = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 60)]
SEGMENTS, TABLES, LSNS = 6, 4, 10
"""Each segment has so many LSNs."""


@pytest.mark.parametrize("seed", [0, *LONG])
def test_as_many_change_rows_are_counted_as_are_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(change_files, "PART_ROWS", 150)
    chosen, store = random.Random(seed), LocalStore(str(tmp_path))
    logged = [random_table(chosen, f"m{number}") for number in range(TABLES)]
    segments = list(write_history(chosen, store, logged))
    operations: set[int] = set()
    for plan in random_plans(chosen, logged, segments):
        selections = select_records(plan)
        parts = [convert_part(SegmentReader(store), part) for part in divide(plan.segments, selections)]

        counted = change_files.count_change_rows(read_captured(SegmentReader(store), plan), selections)

        converted = concatenate(parts)
        assert {member_id: rows.num_rows for member_id, rows in converted.items()} == {
            member_id: count for member_id, count in counted.items() if count
        }
        for member_id, rows in converted.items():
            begin = next(work.lifetime.begin for work in plan.work if work.lifetime.instance.member_id == member_id)
            lsns = rows["__$start_lsn"].to_numpy()
            assert max(begin.value + 1, plan.from_position.value) <= lsns.min()
            assert lsns.max() < plan.to_position.value
            operations.update(rows["__$operation"].to_numpy().tolist())
    assert operations == {DELETE, INSERT, UPDATE_BEFORE, UPDATE_AFTER, TRUNCATE}


def write_history(chosen: random.Random, store: Store, logged: Sequence[Logged]) -> Iterator[Segment]:
    """Write segments; every table's second version follows in the middle of the third one."""
    for number in range(SEGMENTS):
        records = []
        for version in range(2 * TABLES):
            if version // TABLES in ({0}, {0}, {0, 1}, {1}, {1}, {1})[number]:
                lsns = sorted(chosen.choices(range(LSNS * number, LSNS * (number + 1)), k=chosen.randrange(1, 40)))
                changes = [random_change(chosen, logged[version % TABLES]) for _ in lsns]
                records.append(log_records(changes, table_id=version, lsns=[100 + lsn for lsn in lsns]))
        yield write_segment(store, pa.concat_tables(records))


def random_plans(chosen: random.Random, logged: Sequence[Logged], segments: Sequence[Segment]) -> Iterator[CyclePlan]:
    """Yield plans of ranges that begin and end inside segments, or have everything, for instances that began inside.

    Two instances of each table; now and then one leaves a segment out.
    """
    ends = 100, 100 + SEGMENTS * LSNS
    for low, high in (ends, *(sorted(chosen.sample(range(*ends), 2)) for _ in range(4))):
        work = []
        for number, one in enumerate(logged):
            for member_id in (one.instance.member_id, f"other {number}"):
                begin = CommitLsn(chosen.choice([50, chosen.randrange(*ends)]))
                taken = [
                    segment
                    for segment in segments
                    if segment.last > begin
                    and segment.last.value >= low
                    and segment.first.value < high
                    and chosen.random() < 0.9
                ]
                slices = (
                    VersionRows(
                        LoggedTable(version, one.shape), tuple(part for part in taken if version in part.tables)
                    )
                    for version in (number, number + TABLES)
                )
                lifetime = InstanceLifetime(replace(one.instance, member_id=member_id), begin)
                work.append(InstanceWork(lifetime, tuple(piece for piece in slices if piece.segments)))
        yield CyclePlan(Position(low), Position(high), tuple(piece for piece in work if piece.slices))


@pytest.mark.parametrize("seed", [0, *LONG[:5]])
def test_segment_is_converted_as_its_tables_are(seed: int) -> None:
    chosen = random.Random(seed)
    logged = [random_table(chosen, f"m{number}") for number in range(8)]
    parts = [random_records(chosen, one, 120, table_id=number) for number, one in enumerate(logged)]
    lsns = LsnRange(101, 102)
    selections = [
        Selection(one.instance, LoggedTable(number, one.shape), lsns, frozenset()) for number, one in enumerate(logged)
    ]
    in_order = pa.concat_tables(parts)
    mixed = in_order.sort_by([("commit_lsn", "ascending"), ("seqval", "ascending")])

    for records in (in_order, mixed):
        found = dict(convert_segment(records, selections[1:]))
        assert list(found) == [f"m{number}" for number in range(1, 8)]
        for one, part in zip(logged[1:], parts[1:], strict=True):
            alone = convert_records(part, one.instance, one.shape, lsns)
            assert set(alone["__$start_lsn"].to_pylist()) == {101}
            assert_same_rows(found[one.instance.member_id], alone)


def concatenate(parts: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    found: dict[str, list[pa.Table]] = {}
    for part in parts:
        for member_id, rows in part.items():
            found.setdefault(member_id, []).append(rows)
    return {member_id: pa.concat_tables(rows) for member_id, rows in found.items()}
