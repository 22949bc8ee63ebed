"""Small append-only Delta tables: a few rows per cycle, written and read without Spark.

Used for the lake's system tables, whose newest rows are read repeatedly.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.delta.data_files import Between
from rowtide.delta.formats import IDENTITY
from rowtide.delta.replay import AddFile
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.writing.appends import name_data_file, write_rows
from rowtide.delta.writing.commits import Committer, PriorVersion
from rowtide.lake.stores import locate

_CYCLE = "cycle"
_LEAST = -(1 << 63)


class SmallTable:
    """One version of a table that has a bigint column `cycle`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @classmethod
    def open(cls, path: str) -> SmallTable | None:
        """Return the current version of a table; None if there is none. Raises `LakeReadFailed`, `TableUnreadable`."""
        snapshot = open_snapshot(locate(path))
        return cls(snapshot) if snapshot is not None else None

    @property
    def identity(self) -> str | None:
        """The identity under which cycles are appended."""
        return self._snapshot.properties.get(IDENTITY)

    @property
    def version(self) -> int:
        """The version that is read."""
        return self._snapshot.version

    def read_latest_cycle(self) -> int:
        """Return the last cycle appended under the table's identity, 0 before the first."""
        identity = self.identity
        return (self._snapshot.get_transaction(identity) if identity is not None else None) or 0

    def read(self, columns: pa.Schema, *, from_cycle: int = 0) -> pa.Table:
        """Return some columns, with `cycle`, of the rows from a cycle on, unordered.

        Raises `LakeReadFailed`, `TableUnreadable`.
        """
        rows = self._snapshot.read(columns.names, [Between(_CYCLE, low=from_cycle)]).cast(columns)
        return rows.filter(pc.greater_equal(rows[_CYCLE], pa.scalar(from_cycle)))

    def find_end(self, column: str, low: int, most_rows: int) -> int | None:
        """Return an upper bound in an integer column that leaves about `most_rows` rows from `low` on; None for all.

        Only the files' statistics are read. Raises `LakeReadFailed`, `TableUnreadable`.
        """
        files = [(_least(file, column), file) for file in self._snapshot.list_files(Between(column, low))]
        rows = 0
        for least, file in sorted(files, key=lambda found: found[0]):
            if rows >= most_rows and least > low:
                return least - 1
            rows += file.statistics.get("numRecords") or 0
        return None

    def stream(self, columns: pa.Schema, *ranges: Between) -> Iterator[pa.Table]:
        """Yield some columns of the rows of the files that may have rows in the ranges, in parts of bounded size.

        Raises as `read`.
        """
        for batch in self._snapshot.stream(columns.names, ranges):
            yield pa.Table.from_batches([batch]).cast(columns)


def append_small(committer: Committer, rows: pa.Table, path: str, *, identity: str, cycle: int) -> bool:
    """Append a cycle's rows, in the table's columns; return False if the table already has that cycle.

    Raises as `Committer.commit_once`.
    """
    location = locate(path)

    def write(state: PriorVersion) -> list[AddFile]:
        # A commit without files: the version of the application says that the cycle has no rows here.
        if not rows.num_rows:
            return []
        return [write_rows(location, state.columns, state.metadata, rows, name_data_file(cycle))]

    return committer.commit_once(location, identity=identity, cycle=cycle, write=write)


def _least(file: AddFile, column: str) -> int:
    least = (file.statistics.get("minValues") or {}).get(column)
    return least if isinstance(least, int) else _LEAST
