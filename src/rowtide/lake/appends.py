"""Appends to Delta tables, each exactly once: Spark writes the data files, Delta's kernel commits them.

The commit carries the table's transaction identifier (`txn` in Delta's protocol), so that a repeat of a cycle is
refused, whoever repeats it and whenever. Why not by Spark's own `txnAppId`: docs/decisions/0006.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from rowtide.lake.errors import AppendNotFound, LakeWriteFailed
from rowtide.lake.kernel import KernelAppend, KernelTable, describe, is_raised

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PHYSICAL_NAME = "delta.columnMapping.physicalName"


@dataclass(frozen=True, slots=True)
class Range:
    """Lowest and highest value of a column, None without any: integers, timestamps in microseconds since 1970."""

    low: int | None
    high: int | None
    nulls: int


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append added: rows, and the ranges of the columns that were asked for."""

    rows: int
    ranges: Mapping[str, Range]


class Appender:
    """Appends to tables, and remembers how it left each: the next append need not find that out."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tables: dict[str, KernelTable] = {}

    def append_once(
        self, rows: DataFrame, path: str, *, identity: str, cycle: int, ranged: Sequence[str]
    ) -> Appended | None:
        """Append the rows of a cycle under the table's identity; return None where the table has that cycle already.

        The rows have columns of the table, in its types. Of the `ranged` ones, bigints and timestamps, the ranges are
        returned; readers skip files by those of the bigints. For several threads, with a table each. Raises
        `AppendNotFound` where the table knows a later cycle but not this one, and `LakeWriteFailed` where the storage
        failed.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        # Taken out: what an append leaves that failed is for the next one to find out.
        table = self._tables.pop(path, None) or KernelTable(self._spark, path)
        try:
            appended = _Append(rows, path, table, cycle, ranged).run(identity)
        except Py4JJavaError as error:
            if not is_raised(error, "ConcurrentTransactionException"):
                raise LakeWriteFailed(path, describe(error)) from error
            _require_cycle(table, path, identity, cycle)
            return None
        except PySparkException as error:
            raise LakeWriteFailed(path, str(error).strip().splitlines()[0]) from error
        self._tables[path] = table
        return appended

    def forget(self, path: str) -> None:
        """Look at a table anew: it was altered by other means."""
        self._tables.pop(path, None)


def _require_cycle(table: KernelTable, path: str, identity: str, cycle: int) -> None:
    snapshot = table.read_snapshot()
    if snapshot is None or snapshot.read_latest_cycle(identity) != cycle:
        raise AppendNotFound(path, cycle)


class _Append:
    """One append; used once."""

    def __init__(self, rows: DataFrame, path: str, table: KernelTable, cycle: int, ranged: Sequence[str]) -> None:
        self._rows = rows
        self._path = path
        self._table = table
        self._cycle = cycle
        self._ranged = {name: rows.columns.index(name) for name in ranged}

    def run(self, identity: str) -> Appended:
        """Write the files and commit them."""
        # The transaction begins before anything is written: a cycle that the table has is refused here.
        append = self._table.begin_append(identity, self._cycle)
        physical_names = self._match_columns(append.read_schema())
        files = self._write(physical_names)
        written = [self._read_footer(file) for file in files]
        for file, part in zip(files, written, strict=True):
            self._add(append, file, part, physical_names)
        append.commit()
        return Appended(sum(part.rows for part in written), _merged([part.ranges for part in written], self._ranged))

    def _write(self, physical_names: Sequence[str]) -> list[JavaObject]:
        # Files that a crash leaves uncommitted go with the next vacuum: the folder is not a hidden one.
        folder = f"{self._path}/{self._cycle:010d}-{uuid.uuid4().hex[:12]}"
        renamed = self._rows.toDF(*physical_names)
        renamed.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(folder)
        place = self._table.jvm.org.apache.hadoop.fs.Path(folder)
        return list(place.getFileSystem(self._table.hadoop).listStatus(place))

    def _match_columns(self, schema: StructType) -> list[str]:
        """Return the names in data files of the rows' columns. Raises `LakeWriteFailed` where one does not fit."""
        fields = {field.name: field for field in schema.fields}
        for field in self._rows.schema.fields:
            if field.name not in fields or fields[field.name].dataType != field.dataType:
                raise LakeWriteFailed(self._path, f"it has no column {field.name} of type {field.dataType.typeName()}")
        return [str(fields[name].metadata.get(_PHYSICAL_NAME, name)) for name in self._rows.columns]

    def _read_footer(self, file: JavaObject) -> Appended:
        """Return what a data file's footer says of it."""
        parquet = self._table.jvm.org.apache.parquet.hadoop
        opened = parquet.util.HadoopInputFile.fromStatus(file, self._table.hadoop)
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
        ranges = {
            physical_names[place]: written.ranges[name]
            for name, place in self._ranged.items()
            if self._rows.schema[name].dataType.typeName() == "long"
        }
        statistics = {
            "numRecords": written.rows,
            "minValues": {name: found.low for name, found in ranges.items() if found.low is not None},
            "maxValues": {name: found.high for name, found in ranges.items() if found.high is not None},
            "nullCount": {name: found.nulls for name, found in ranges.items()},
        }
        append.add(file, list(ranges), statistics)


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
