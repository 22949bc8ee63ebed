"""Appends of Spark's rows to Delta tables, each exactly once: Spark writes the data files, `commits` commits them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from rowtide.lake.commits import Appended, Committer, Range, add_file
from rowtide.lake.errors import LakeWriteFailed
from rowtide.lake.kernel import KernelAppend, KernelTable

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_USUAL_FOOTER_BYTES = 32 * 1024
_PHYSICAL_NAME = "delta.columnMapping.physicalName"


def append_once(
    committer: Committer, rows: DataFrame, path: str, *, identity: str, cycle: int, ranged: Sequence[str]
) -> Appended | None:
    """Append the rows of a cycle under the table's identity; return None where the table has that cycle already.

    The rows have columns of the table, in its types. Of the `ranged` ones, bigints, the ranges are returned, and
    readers skip files by them. Raises as `Committer.commit_once`.
    """
    append = _Append(rows, path, cycle, ranged)
    return committer.commit_once(path, identity=identity, cycle=cycle, write=append.write)


class _Append:
    """One append; used once."""

    def __init__(self, rows: DataFrame, path: str, cycle: int, ranged: Sequence[str]) -> None:
        self._rows = rows
        self._path = path
        self._cycle = cycle
        self._ranged = {name: rows.columns.index(name) for name in ranged}

    def write(self, table: KernelTable, append: KernelAppend) -> Appended:
        """Write the files and add them to the commit."""
        physical_names = self._match_columns(append.read_schema())
        files = self._write(table, physical_names)
        written = [self._read_footer(table, file) for file in files]
        for file, part in zip(files, written, strict=True):
            self._add(append, file, part, physical_names)
        return Appended(sum(part.rows for part in written), _merged([part.ranges for part in written], self._ranged))

    def _write(self, table: KernelTable, physical_names: Sequence[str]) -> list[JavaObject]:
        # Files that a crash leaves uncommitted go with the next vacuum: the folder is not a hidden one.
        folder = f"{self._path}/{self._cycle:010d}-{uuid.uuid4().hex[:12]}"
        renamed = self._rows if physical_names == self._rows.columns else self._rows.toDF(*physical_names)
        renamed.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(folder)
        return table.files.list(folder)

    def _match_columns(self, schema: StructType) -> list[str]:
        """Return the names in data files of the rows' columns. Raises `LakeWriteFailed` where one does not fit."""
        fields = {field.name: field for field in schema.fields}
        for field in self._rows.schema.fields:
            if field.name not in fields or fields[field.name].dataType != field.dataType:
                raise LakeWriteFailed(self._path, f"it has no column {field.name} of type {field.dataType.typeName()}")
        return [str(fields[name].metadata.get(_PHYSICAL_NAME, name)) for name in self._rows.columns]

    def _read_footer(self, table: KernelTable, file: JavaObject) -> Appended:
        """Return what a data file's footer says of it."""
        footer = _read_metadata(table, file)
        blocks = [self._ranges(footer.row_group(place)) for place in range(footer.num_row_groups)]
        return Appended(footer.num_rows, _merged(blocks, self._ranged))

    def _ranges(self, block: pq.RowGroupMetaData) -> dict[str, Range]:
        return {name: _range(block.column(place).statistics) for name, place in self._ranged.items()}

    def _add(self, append: KernelAppend, file: JavaObject, written: Appended, physical_names: Sequence[str]) -> None:
        bigints = {physical_names[place]: written.ranges[name] for name, place in self._ranged.items()}
        add_file(append, file, written.rows, bigints)


def _read_metadata(table: KernelTable, file: JavaObject) -> pq.FileMetaData:
    """Read a Parquet file's end: the footer, its length in four bytes, and four more."""
    tail = table.files.read_tail(file, _USUAL_FOOTER_BYTES)
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed > len(tail):
        tail = table.files.read_tail(file, needed)
    return pq.read_metadata(pa.BufferReader(tail))


def _range(statistics: pq.Statistics | None) -> Range:
    if statistics is None or not statistics.has_min_max:
        return Range(None, None, (statistics.null_count if statistics is not None else None) or 0)
    return Range(statistics.min, statistics.max, statistics.null_count or 0)


def _merged(parts: Sequence[Mapping[str, Range]], names: Iterable[str]) -> dict[str, Range]:
    return {name: reduce(_joined, (part[name] for part in parts), Range(None, None, 0)) for name in names}


def _joined(one: Range, other: Range) -> Range:
    lows = [value for value in (one.low, other.low) if value is not None]
    highs = [value for value in (one.high, other.high) if value is not None]
    return Range(min(lows, default=None), max(highs, default=None), one.nulls + other.nulls)
