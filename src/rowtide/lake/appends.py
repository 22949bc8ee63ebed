"""Appends of Spark's rows to Delta tables, each exactly once: Spark writes the data files, `commits` commits them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from rowtide.lake.commits import Appended, Committer, Range, add_file
from rowtide.lake.errors import LakeWriteFailed
from rowtide.lake.kernel import KernelAppend, KernelTable

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_PHYSICAL_NAME = "delta.columnMapping.physicalName"


def append_once(
    committer: Committer, rows: DataFrame, path: str, *, identity: str, cycle: int, ranged: Sequence[str]
) -> Appended | None:
    """Append the rows of a cycle under the table's identity; return None where the table has that cycle already.

    The rows have columns of the table, in its types. Of the `ranged` ones, bigints and timestamps, the ranges are
    returned; readers skip files by those of the bigints. Raises as `Committer.commit_once`.
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
        renamed = self._rows.toDF(*physical_names)
        renamed.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(folder)
        place = table.jvm.org.apache.hadoop.fs.Path(folder)
        return list(place.getFileSystem(table.hadoop).listStatus(place))

    def _match_columns(self, schema: StructType) -> list[str]:
        """Return the names in data files of the rows' columns. Raises `LakeWriteFailed` where one does not fit."""
        fields = {field.name: field for field in schema.fields}
        for field in self._rows.schema.fields:
            if field.name not in fields or fields[field.name].dataType != field.dataType:
                raise LakeWriteFailed(self._path, f"it has no column {field.name} of type {field.dataType.typeName()}")
        return [str(fields[name].metadata.get(_PHYSICAL_NAME, name)) for name in self._rows.columns]

    def _read_footer(self, table: KernelTable, file: JavaObject) -> Appended:
        """Return what a data file's footer says of it."""
        parquet = table.jvm.org.apache.parquet.hadoop
        opened = parquet.util.HadoopInputFile.fromStatus(file, table.hadoop)
        reader = parquet.ParquetFileReader.open(opened)
        try:
            blocks = list(reader.getFooter().getBlocks())
            rows = reader.getRecordCount()
        finally:
            reader.close()
        return Appended(rows, _merged([self._ranges(block) for block in blocks], self._ranged))

    def _ranges(self, block: JavaObject) -> dict[str, Range]:
        columns = block.getColumns()
        return {name: _range(columns.get(place).getStatistics()) for name, place in self._ranged.items()}

    def _add(self, append: KernelAppend, file: JavaObject, written: Appended, physical_names: Sequence[str]) -> None:
        bigints = {
            physical_names[place]: written.ranges[name]
            for name, place in self._ranged.items()
            if self._rows.schema[name].dataType.typeName() == "long"
        }
        add_file(append, file, written.rows, bigints)


def _range(statistics: JavaObject) -> Range:
    if not statistics.hasNonNullValue():
        return Range(None, None, statistics.getNumNulls())
    return Range(statistics.genericGetMin(), statistics.genericGetMax(), statistics.getNumNulls())


def _merged(parts: Sequence[Mapping[str, Range]], names: Iterable[str]) -> dict[str, Range]:
    return {name: reduce(_joined, (part[name] for part in parts), Range(None, None, 0)) for name in names}


def _joined(one: Range, other: Range) -> Range:
    lows = [value for value in (one.low, other.low) if value is not None]
    highs = [value for value in (one.high, other.high) if value is not None]
    return Range(min(lows, default=None), max(highs, default=None), one.nulls + other.nulls)
