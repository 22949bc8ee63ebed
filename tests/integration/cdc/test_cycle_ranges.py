"""Which records of the log's segments a cycle captures: those in its range, behind the start of the instance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from builders.capture_instances import instance, source_table, version_of
from builders.log_stores import records
from rowtide.cdc.capture.change_rows import changes
from rowtide.cdc.capture.instance_lifetimes import InstanceLifetime
from rowtide.cdc.capture.planning import InstanceWork, Slice
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.segments import write_segment
from rowtide.log.store import LocalStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = source_table([("id", "text"), ("name", "text")])


RANGES = [
    (50, 100, 501, [100, 200, 300, 400, 500]),
    (50, 200, 500, [200, 300, 400]),
    (50, 201, 301, [300]),
    (200, 100, 400, [300]),
]
"""Where the instance begins, the range, and what is captured."""


def test_cycle_captures_its_range_after_the_instance_began(spark: SparkSession, tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    written = [[(1, 100, 1), (2, 100, 2), (1, 200, 1)], [(1, 300, 1), (2, 400, 1), (1, 400, 2)], [(1, 500, 1)]]
    segments = tuple(write_segment(store, records(each)) for each in written)
    for begin, from_lsn, to_lsn, captured in RANGES:
        lifetime = InstanceLifetime(instance(table=TABLE), CommitLsn(begin))
        work = InstanceWork(lifetime, (Slice(version_of(TABLE), segments),))
        rows = changes(spark, store, work, Position(from_lsn), Position(to_lsn))
        assert sorted(row["__$start_lsn"] for row in rows.collect()) == captured
