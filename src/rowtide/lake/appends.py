"""Idempotent appends of Spark rows to Delta tables: Spark writes the data files, `commits` commits them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from rowtide.delta.errors import LakeWriteFailed
from rowtide.lake.commits import Committer, Range, add_file
from rowtide.lake.kernel import KernelAppend, KernelTable

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_USUAL_FOOTER_BYTES = 32 * 1024
_PHYSICAL_NAME = "delta.columnMapping.physicalName"


def append_once(
    committer: Committer, rows: DataFrame, path: str, *, identity: str, cycle: int, ranged: Sequence[str]
) -> bool:
    """Append the rows of a cycle under the table's identity; return False if the table already has that cycle.

    The rows have columns of the table, in its types. Readers skip files by the ranges of the `ranged` columns, of type
    bigint or int. Raises as `Committer.commit_once`.
    """
    append = _Append(rows, path, cycle, ranged)
    return committer.commit_once(path, identity=identity, cycle=cycle, write=append.write)


class _Append:
    """A single append."""

    def __init__(self, rows: DataFrame, path: str, cycle: int, ranged: Sequence[str]) -> None:
        self._rows = rows
        self._path = path
        self._cycle = cycle
        self._ranged = {rows.columns.index(name): rows.schema[name].dataType.typeName() for name in ranged}

    def write(self, table: KernelTable, append: KernelAppend) -> None:
        """Write the files and add them to the commit."""
        physical_names = self._match_columns(append.read_schema())
        for file in self._write(table, physical_names):
            self._add(append, file, _read_metadata(table, file), physical_names)

    def _write(self, table: KernelTable, physical_names: Sequence[str]) -> list[JavaObject]:
        # Files that a crash leaves uncommitted go with the next vacuum: the folder is not a hidden one.
        folder = f"{self._path}/{self._cycle:010d}-{uuid.uuid4().hex[:12]}"
        renamed = self._rows if physical_names == self._rows.columns else self._rows.toDF(*physical_names)
        renamed.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(folder)
        return table.files.list(folder)

    def _match_columns(self, schema: StructType) -> list[str]:
        """Return the physical names of the rows' columns. Raises `LakeWriteFailed` for a column that does not fit."""
        fields = {field.name: field for field in schema.fields}
        for field in self._rows.schema.fields:
            if field.name not in fields or fields[field.name].dataType != field.dataType:
                raise LakeWriteFailed(self._path, f"it has no column {field.name} of type {field.dataType.typeName()}")
        return [str(fields[name].metadata.get(_PHYSICAL_NAME, name)) for name in self._rows.columns]

    def _add(
        self, append: KernelAppend, file: JavaObject, footer: pq.FileMetaData, physical_names: Sequence[str]
    ) -> None:
        blocks = [footer.row_group(number) for number in range(footer.num_row_groups)]
        ranges = {physical_names[place]: _range_of(blocks, place, kind) for place, kind in self._ranged.items()}
        add_file(append, file, footer.num_rows, ranges)


def _read_metadata(table: KernelTable, file: JavaObject) -> pq.FileMetaData:
    """Read a Parquet file's footer, its length in four bytes, and the magic number."""
    tail = table.files.read_tail(file, _USUAL_FOOTER_BYTES)
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed > len(tail):
        tail = table.files.read_tail(file, needed)
    return pq.read_metadata(pa.BufferReader(tail))


def _range_of(blocks: Iterable[pq.RowGroupMetaData], place: int, type_name: str) -> Range:
    """Return the range of a column over a file's row groups."""
    ranges = (_range(block.column(place).statistics) for block in blocks)
    return reduce(_joined, ranges, Range(None, None, 0, type_name))


def _range(statistics: pq.Statistics | None) -> Range:
    if statistics is None or not statistics.has_min_max:
        return Range(None, None, (statistics.null_count if statistics is not None else None) or 0)
    return Range(statistics.min, statistics.max, statistics.null_count or 0)


def _joined(one: Range, other: Range) -> Range:
    lows = [value for value in (one.low, other.low) if value is not None]
    highs = [value for value in (one.high, other.high) if value is not None]
    return replace(one, low=min(lows, default=None), high=max(highs, default=None), nulls=one.nulls + other.nulls)
