"""Compaction: the small files that many cycles left become few. Rows, and what readers see, stay as they are."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rowtide.lake.kernel import KernelTable
from rowtide.lake.tables import writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPACTION_INTERVAL = 100
"""Cycles from one compaction of a table to its next."""


def is_compaction_due(cycle: int, place: int) -> bool:
    """Tell whether the table at a place among all is compacted after a cycle: not all of them after the same one."""
    return (cycle + place) % COMPACTION_INTERVAL == 0


def compact(spark: SparkSession, path: str, *, versions: timedelta | None = None) -> None:
    """Merge a table's small files, where it has several, and remove old checksums; `session` says what is small.

    The old files stay for those who read an earlier version, until Delta's `VACUUM`. Of the table's log what is below
    the last checkpoint of the age `versions` goes too; None: as Delta's retention has it. Raises `LakeWriteFailed`.
    """
    from delta.tables import DeltaTable

    with writing(path):
        DeltaTable.forPath(spark, path).optimize().executeCompaction()
        table = KernelTable(spark, path)
        table.forget_checksums()
        if versions is not None:
            table.forget_versions(versions)
