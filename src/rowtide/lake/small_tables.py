"""Small append-only tables: a few rows per cycle, written and read without a Spark job.

Used for the lake's system tables, whose newest rows are read repeatedly. A Spark query would first rebuild the table's
state, and a Spark write start a job, which takes as long as all the rest (docs/decisions/0006).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.statistics import Between
from rowtide.lake.commits import Committer, Range, add_file
from rowtide.lake.kernel import KernelAppend, KernelTable
from rowtide.lake.stores import locate
from rowtide.lake.tables import IDENTITY

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_CYCLE = "cycle"


class SmallTable:
    """One version of a table that has a bigint column `cycle`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @classmethod
    def open(cls, path: str) -> SmallTable | None:
        """Return the current version of a table; None if there is none. Raises `LakeReadFailed`, `TableUnreadable`."""
        snapshot = open_snapshot(locate(path))
        return cls(snapshot) if snapshot is not None else None

    def read_latest_cycle(self) -> int:
        """Return the last cycle appended under the table's identity, 0 before the first."""
        identity = self._snapshot.properties.get(IDENTITY)
        return (self._snapshot.get_transaction(identity) if identity is not None else None) or 0

    def read(self, columns: pa.Schema, *, from_cycle: int = 0) -> pa.Table:
        """Return some columns, with `cycle`, of the rows from a cycle on, unordered.

        Raises `LakeReadFailed`, `TableUnreadable`.
        """
        rows = self._snapshot.read(columns.names, [Between(_CYCLE, low=from_cycle)]).cast(columns)
        return rows.filter(pc.greater_equal(rows[_CYCLE], pa.scalar(from_cycle)))

    def stream(self, columns: pa.Schema, *ranges: Between) -> Iterator[pa.Table]:
        """Yield some columns of the rows of the files that may have rows in the ranges, in parts of bounded size.

        Raises as `read`.
        """
        for batch in self._snapshot.stream(columns.names, ranges):
            yield pa.Table.from_batches([batch]).cast(columns)


def append_small(
    committer: Committer, rows: pa.Table, path: str, *, identity: str, cycle: int, ranged: Sequence[str]
) -> bool:
    """Append a cycle's rows, in the table's columns; return False if the table already has that cycle.

    Readers skip files by the ranges of the `ranged` columns, bigints. Raises as `Committer.commit_once`.
    """

    def write(table: KernelTable, append: KernelAppend) -> None:
        ranges = {name: _range(rows[name]) for name in ranged}
        # As Spark's appends: what a crash leaves uncommitted goes with the next vacuum.
        file = _write_file(table, f"{path}/{cycle:010d}-{uuid.uuid4().hex[:12]}/part-0.parquet", rows)
        add_file(append, file, rows.num_rows, ranges)

    return committer.commit_once(path, identity=identity, cycle=cycle, write=write)


def _range(column: pa.ChunkedArray[Any]) -> Range:
    return Range(pc.min(column).as_py(), pc.max(column).as_py(), column.null_count)


def _write_file(table: KernelTable, place: str, rows: pa.Table) -> JavaObject:
    """Write a Parquet file and return its Hadoop FileStatus."""
    data = pa.BufferOutputStream()
    pq.write_table(rows, data, compression="zstd")
    return table.files.write(place, data.getvalue().to_pybytes())
