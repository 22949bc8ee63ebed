"""A cycle's commit to a Delta table. Idempotent: a table that has the cycle rejects it.

The commit carries the table's transaction identifier (`txn` in Delta's protocol). It is made by Delta Kernel, not by
Spark with `txnAppId`: see docs/decisions/0006.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowtide.delta.errors import AppendNotFound, LakeWriteFailed
from rowtide.lake.java import describe
from rowtide.lake.kernel import KernelAppend, KernelTable, is_raised

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Range:
    """Lowest and highest value of an integer column, None if it has none; `type_name`: `long` or `integer`."""

    low: int | None
    high: int | None
    nulls: int
    type_name: str = "long"


class Committer:
    """Commits cycles to tables, and caches the resulting snapshots for the next commit."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tables: dict[str, KernelTable] = {}

    def commit_once(
        self, path: str, *, identity: str, cycle: int, write: Callable[[KernelTable, KernelAppend], None]
    ) -> bool:
        """Let `write` add a cycle's files, and commit them; return False if the table already has that cycle.

        May be called by several threads, one per table. Raises `AppendNotFound` if the table has a later cycle but not
        this one, and `LakeWriteFailed` if the storage failed.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        # Taken out: what a commit leaves that failed is for the next one to find out.
        table = self._tables.pop(path, None) or KernelTable(self._spark, path)
        try:
            # The transaction begins before anything is written: a cycle that the table has is refused here.
            append = table.begin_append(identity, cycle)
            write(table, append)
            append.commit()
        except Py4JJavaError as error:
            if not is_raised(error, "ConcurrentTransactionException"):
                raise LakeWriteFailed(path, describe(error)) from error
            _require_cycle(table, path, identity, cycle)
            return False
        except PySparkException as error:
            raise LakeWriteFailed(path, str(error).strip().splitlines()[0]) from error
        self._tables[path] = table
        return True

    def forget(self, path: str) -> None:
        """Discard the cached snapshot of a table that was altered by other means."""
        self._tables.pop(path, None)


def _require_cycle(table: KernelTable, path: str, identity: str, cycle: int) -> None:
    snapshot = table.read_snapshot()
    if snapshot is None or snapshot.read_latest_cycle(identity) != cycle:
        raise AppendNotFound(path, cycle)


def add_file(append: KernelAppend, file: JavaObject, rows: int, ranges: Mapping[str, Range]) -> None:
    """Add a data file (Hadoop's FileStatus) with the ranges of some of its columns, by their physical names.

    Readers skip files by these.
    """
    statistics = {
        "numRecords": rows,
        "minValues": {name: found.low for name, found in ranges.items() if found.low is not None},
        "maxValues": {name: found.high for name, found in ranges.items() if found.high is not None},
        "nullCount": {name: found.nulls for name, found in ranges.items()},
    }
    append.add(file, {name: found.type_name for name, found in ranges.items()}, statistics)
