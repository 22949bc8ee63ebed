"""Compaction merges the small files of many cycles. Rows, and what readers see, stay the same."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rowtide.lake.kernel import KernelTable
from rowtide.lake.tables import writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPACTION_INTERVAL = 100
"""Number of cycles between two compactions of a table."""


def is_compaction_due(cycle: int, place: int) -> bool:
    """Return whether a table, by its position among all, is compacted after a cycle; tables take turns."""
    return (cycle + place) % COMPACTION_INTERVAL == 0


def compact(spark: SparkSession, path: str, *, versions: timedelta | None = None) -> None:
    """Merge a table's small files, if it has several, and remove old checksums; `session` defines what is small.

    Readers of earlier versions keep the old files until Delta's `VACUUM`. The table's log below the last checkpoint of
    age `versions` is removed too; None: as by Delta's retention. Raises `LakeWriteFailed`.
    """
    from delta.tables import DeltaTable

    with writing(path):
        DeltaTable.forPath(spark, path).optimize().executeCompaction()
        table = KernelTable(spark, path)
        table.forget_checksums()
        if versions is not None:
            table.forget_versions(versions)
