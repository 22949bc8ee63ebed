"""Change rows of segments: which records of the log's segments become rows of a cycle."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.capture.capture_instances import instance, source_table, version_of
from builders.log.log_stores import records
from rowtide.cdc.capture.change_files import SegmentReader, convert_part, divide, select_records
from rowtide.cdc.capture.planning import CyclePlan, InstanceWork, VersionRows
from rowtide.cdc.ddl.schema_changes import InstanceLifetime
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.errors import SegmentCorrupt
from rowtide.log.store.location import LocalStore
from rowtide.log.store.segments import write_segment

TABLE = source_table([("id", "text"), ("name", "text")])
WRITTEN = [[(1, 100, 1), (2, 100, 2), (1, 200, 1)], [(1, 300, 1), (2, 400, 1), (1, 400, 2)], [(1, 500, 1)]]


@pytest.mark.parametrize(
    ("begin", "from_lsn", "to_lsn", "captured"),
    [
        (50, 100, 501, [100, 200, 300, 400, 500]),
        (50, 200, 500, [200, 300, 400]),
        (50, 201, 301, [300]),
        (200, 100, 400, [300]),
    ],
)
def test_cycle_captures_its_range_after_the_instance_began(
    tmp_path: Path, begin: int, from_lsn: int, to_lsn: int, captured: list[int]
) -> None:
    store = LocalStore(str(tmp_path))
    segments = tuple(write_segment(store, records(each)) for each in WRITTEN)
    lifetime = InstanceLifetime(instance(table=TABLE), CommitLsn(begin))
    work = InstanceWork(lifetime, (VersionRows(version_of(TABLE), segments),))
    plan = CyclePlan(Position(from_lsn), Position(to_lsn), (work,))

    [part] = divide(plan.segments, select_records(plan))
    rows = convert_part(SegmentReader(store), part)["m1"]

    assert rows["__$start_lsn"].to_pylist() == captured


def test_segment_whose_rows_have_other_columns_is_corrupt(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    written = write_segment(store, records([(1, 100, 1)]))
    wider = source_table([("id", "text"), ("name", "text"), ("more", "text")])
    lifetime = InstanceLifetime(instance(table=wider), CommitLsn(50))
    plan = CyclePlan(
        Position(100), Position(200), (InstanceWork(lifetime, (VersionRows(version_of(wider), (written,)),)),)
    )
    [part] = divide(plan.segments, select_records(plan))

    with pytest.raises(SegmentCorrupt, match=f'"{written.path}" is damaged: a row image has 2 values, not 3'):
        convert_part(SegmentReader(store), part)
