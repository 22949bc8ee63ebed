"""Small tables that are only appended to, cycle by cycle: their rows read without a Spark job.

For the lake's own account of itself, of which the newest rows are asked again and again. A Spark query would first
rebuild the table's state, which takes as long as all the rest (docs/decisions/0006).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowtide.lake.errors import LakeReadFailed
from rowtide.lake.kernel import KernelSnapshot, KernelTable, describe
from rowtide.lake.tables import IDENTITY

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

_CYCLE = "cycle"


class AppendedTable:
    """One version of a table that has a bigint column `cycle`, and neither deletion vectors nor mapped columns."""

    def __init__(self, path: str, table: KernelTable, snapshot: KernelSnapshot) -> None:
        self._path = path
        self._table = table
        self._snapshot = snapshot

    @classmethod
    def open(cls, spark: SparkSession, path: str) -> AppendedTable | None:
        """Return the table as of now, None where there is none. Raises `LakeReadFailed`."""
        with _reading(path):
            table = KernelTable(spark, path)
            snapshot = table.read_snapshot()
        return cls(path, table, snapshot) if snapshot is not None else None

    def read_latest_cycle(self) -> int:
        """Return the last cycle appended under the table's identity, 0 before the first. Raises `LakeReadFailed`."""
        with _reading(self._path):
            identity = self._snapshot.read_properties().get(IDENTITY)
            return (self._snapshot.read_latest_cycle(identity) if identity is not None else None) or 0

    def read(self, columns: pa.Schema, *, from_cycle: int = 0) -> pa.Table:
        """Return some columns, with `cycle`, of the rows from a cycle on, in no order. Raises `LakeReadFailed`."""
        with _reading(self._path):
            files = self._snapshot.list_files(_CYCLE, from_cycle)
            parts = [pq.read_table(pa.BufferReader(self._read_bytes(file)), columns=columns.names) for file in files]
        rows = pa.concat_tables([columns.empty_table(), *(part.cast(columns) for part in parts)])
        return rows.filter(pc.greater_equal(rows[_CYCLE], pa.scalar(from_cycle)))

    def _read_bytes(self, file: str) -> bytes:
        path: JavaObject = self._table.jvm.org.apache.hadoop.fs.Path(file)
        stream = path.getFileSystem(self._table.hadoop).open(path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()


@contextmanager
def _reading(path: str) -> Iterator[None]:
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        raise LakeReadFailed(path, describe(error)) from error
    except pa.ArrowInvalid as error:
        raise LakeReadFailed(path, str(error)) from error
