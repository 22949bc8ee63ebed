"""Data files: their rows in the table's columns and types, and the statistics by which files are skipped."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowtide.core.values import frozen
from rowtide.delta.replay import AddFile
from rowtide.delta.schema import PARQUET_ID, Field, FieldType, ListOf, MapOf, Primitive, Struct

_READ_BYTES = 1024 * 1024
CALENDAR = {"org.apache.spark.version": "3.5.0"}
"""Metadata of a file by which Spark reads its dates unchanged. Otherwise a session's setting for files of other writers
could shift days before 1582.
"""


@frozen
class FileReader:
    """Reads columns from data files.

    `by_id`: columns are known by their field ids, otherwise by physical names. `empty`: physical names of columns that
    have no values in the file, which are not read. `constants`: values of columns that are the file's partition's.
    """

    columns: Struct
    by_id: bool
    empty: Collection[str] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)

    def read(
        self,
        file: pa.NativeFile,
        batch_rows: int,
        batch_bytes: int | None = None,
        row_groups: Sequence[int] | None = None,
        *,
        on_all_cores: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of all or some row groups in batches, of fewer rows where these would exceed a number of bytes.

        Pages are read as they are needed, so memory is bounded by a batch and the page of each column. `on_all_cores`:
        the columns of a batch are decoded beside one another. Raises `pa.ArrowInvalid`, `OSError`.
        """
        with pq.ParquetFile(
            # Spark and Hive may write timestamps as INT96, which pyarrow reads as nanoseconds: years before 1677 and
            # after 2262 would overflow.
            file,
            pre_buffer=False,
            buffer_size=_READ_BYTES,
            coerce_int96_timestamp_unit="us",
        ) as parquet:
            there = parquet.schema_arrow
            if batch_bytes is not None:
                batch_rows = min(batch_rows, _rows_within(parquet.metadata, batch_bytes))
            unread = {*self.empty, *self.constants}
            filled = (field for field in self.columns.fields if field.physical_name not in unread)
            indexes = [self._find(there, field) for field in filled]
            wanted = [there.field(index).name for index in indexes if index is not None]
            groups = list(range(parquet.metadata.num_row_groups)) if row_groups is None else list(row_groups)
            if not wanted:
                yield from self._unread(sum(parquet.metadata.row_group(index).num_rows for index in groups), batch_rows)
                return
            for batch in parquet.iter_batches(batch_rows, groups, columns=wanted, use_threads=on_all_cores):
                yield self._conform(batch)

    def has_other_types(self, file: pa.NativeFile) -> bool:
        """Return whether a file has one of the columns in another type; its end is read. Raises as `read`."""
        with pq.ParquetFile(file, pre_buffer=False, coerce_int96_timestamp_unit="us") as parquet:
            there = parquet.schema_arrow
            indexes = ((field, self._find(there, field)) for field in self.columns.fields)
            return any(index is not None and there.field(index).type != field.in_files.type for field, index in indexes)

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = self._conform_fields(self.columns.fields, batch.schema, batch.columns, batch.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns.schema)

    def _conform_fields(
        self, fields: Sequence[Field], there: Iterable[pa.Field[Any]], arrays: Sequence[pa.Array[Any]], rows: int
    ) -> list[pa.Array[Any]]:
        indexes = [self._find(there, field) for field in fields]
        return [
            self._conform_values(arrays[index], field.type) if index is not None else self._repeat(field, rows)
            for index, field in zip(indexes, fields, strict=True)
        ]

    def _conform_values(self, values: Any, wanted: FieldType) -> Any:
        if values.type == wanted.arrow:
            return values
        match wanted:
            case Primitive():
                return values.cast(wanted.arrow)
            case Struct():
                parts = [values.field(index) for index in range(values.type.num_fields)]
                conformed = self._conform_fields(wanted.fields, list(values.type), parts, len(values))
                names = [field.arrow for field in wanted.fields]
                return pa.StructArray.from_arrays(conformed, fields=names, mask=values.is_null())
            case ListOf():
                whole = _from_the_first(values)
                elements = self._conform_values(whole.values, wanted.element.type)
                return pa.ListArray.from_arrays(whole.offsets, elements, type=wanted.arrow, mask=whole.is_null())
            case MapOf():
                whole = _from_the_first(values)
                keys = self._conform_values(whole.keys, wanted.key.type)
                items = self._conform_values(whole.items, wanted.value.type)
                arrays: Any = pa.MapArray
                return arrays.from_arrays(whole.offsets, keys, items, type=wanted.arrow, mask=whole.is_null())

    def _unread(self, rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, batch_rows):
            size = min(batch_rows, rows - start)
            arrays = [self._repeat(field, size) for field in self.columns.fields]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.columns.schema)

    def _repeat(self, field: Field, rows: int) -> Any:
        """Return the values of a column that is not read from the file."""
        constant = self.constants.get(field.physical_name)
        return pa.repeat(constant, rows) if constant is not None else pa.nulls(rows, field.arrow.type)

    def _find(self, there: Iterable[pa.Field[Any]], field: Field) -> int | None:
        """Return the index of a field in a file; None if it has no such column, or its partition has the value."""
        if field.physical_name in self.constants:
            return None
        # With column mapping by id, names in files need not be those of the schema (Delta's protocol, "Column
        # Mapping").
        if self.by_id and field.field_id is not None:
            wanted = str(field.field_id).encode()
            found = (
                index for index, each in enumerate(there) if (each.metadata or {}).get(PARQUET_ID.encode()) == wanted
            )
        else:
            found = (index for index, each in enumerate(there) if each.name == field.physical_name)
        return next(found, None)


def _from_the_first(values: Any) -> Any:
    """Return an array whose memory begins with its first value: Arrow takes a null mask only for such an array."""
    return values if values.offset == 0 else pc.take(values, pa.array(range(len(values))))


@frozen
class RowGroup:
    """A row group of a data file: its size without compression, and bounds of a column; None: not known."""

    size: int
    least: int | None
    most: int | None


def list_row_groups(file: pa.NativeFile, column: str) -> list[RowGroup]:
    """Return a file's row groups, with the bounds of an integer column of a physical name. Raises as `FileReader`."""
    with pq.ParquetFile(file, pre_buffer=False, buffer_size=_READ_BYTES) as parquet:
        found = parquet.metadata
        indexes = [index for index in range(found.num_columns) if found.schema.column(index).path == column]
        return [_describe_group(found.row_group(group), indexes) for group in range(found.num_row_groups)]


def _describe_group(group: pq.RowGroupMetaData, indexes: Sequence[int]) -> RowGroup:
    statistics = group.column(indexes[0]).statistics if indexes else None
    if statistics is None or not statistics.has_min_max:
        return RowGroup(group.total_byte_size, None, None)
    return RowGroup(group.total_byte_size, statistics.min, statistics.max)


def _rows_within(file: pq.FileMetaData, wanted_bytes: int) -> int:
    """Return how many rows of a file have about a number of bytes; at least one."""
    total = sum(file.row_group(index).total_byte_size for index in range(file.num_row_groups))
    return max(1, wanted_bytes * file.num_rows // max(total, 1))


_PREFIX_CHARACTERS = 32
"""The bounds of longer texts are computed from prefixes of this length."""
_LAST_ASCII, _LAST_CHARACTER = "\x7f", "\U0010ffff"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - counts from it, in whatever zone
_MILLI = 1000


@frozen
class Between:
    """Rows in which a column, by its name in files, is in [low, high]; None: no bound.

    Bounds have the form of statistics: integers or strings.
    """

    column: str
    low: int | str | None = None
    high: int | str | None = None

    def may_be_in(self, file: AddFile) -> bool:
        """Return whether a file may have such rows, according to its statistics; True without statistics."""
        statistics = file.statistics
        if self.column in file.partition_values:
            return self._may_be_text(file.partition_values[self.column])
        if self._is_all_null(file):
            return False
        least = (statistics.get("minValues") or {}).get(self.column)
        most = (statistics.get("maxValues") or {}).get(self.column)
        return not _is_less(most, self.low) and not _is_less(self.high, least)

    def _may_be_text(self, text: str | None) -> bool:
        """Return whether the value of a file's partition, which all its rows have, is in the range."""
        if not text:
            return False
        is_number = isinstance(self.low, int) or isinstance(self.high, int)
        value = int(text) if is_number else text
        return not _is_less(value, self.low) and not _is_less(self.high, value)

    def _is_all_null(self, file: AddFile) -> bool:
        rows = file.statistics.get("numRecords")
        nulls = (file.statistics.get("nullCount") or {}).get(self.column)
        # Counts are usable only if no deletion vector hides rows of the file.
        return rows is not None and nulls == rows


def _is_less(one: object, other: object) -> bool:
    """Return whether a value is less than another; False where that is unknown."""
    if isinstance(one, int) and isinstance(other, int):
        return one < other
    return isinstance(one, str) and isinstance(other, str) and one < other


def prune(files: Iterable[AddFile], ranges: Iterable[Between]) -> Iterator[AddFile]:
    """Yield the files that may have rows in all ranges."""
    wanted = tuple(ranges)
    return (file for file in files if all(each.may_be_in(file) for each in wanted))


def find_empty_columns(file: AddFile) -> frozenset[str]:
    """Return the physical names of columns that, by the file's statistics, are null in all its rows."""
    found = file.statistics
    rows, nulls = found.get("numRecords"), found.get("nullCount") or {}
    return frozenset(name for name, count in nulls.items() if rows is not None and count == rows)


def find_bounds(file: AddFile, column: str) -> tuple[int, int] | None:
    """Return the least and the greatest value of an integer column of a physical name; None if they are not known."""
    found = file.statistics
    least, most = ((found.get(which) or {}).get(column) for which in ("minValues", "maxValues"))
    return (least, most) if isinstance(least, int) and isinstance(most, int) else None


class FileStatistics:
    """Sums up the rows of a data file: their number, and bounds and nulls of some of their columns.

    There are bounds of integers, dates, timestamps and texts; those of timestamps are in milliseconds and include the
    values, those of texts are of at most 33 characters.
    """

    def __init__(self, fields: Iterable[Field]) -> None:
        self._rows = 0
        self._columns = {field.name: _ColumnStatistics(field.physical_name) for field in fields}

    def add(self, rows: pa.Table) -> None:
        """Add rows of the file, in the table's columns."""
        self._rows += rows.num_rows
        for name, column in self._columns.items():
            column.add(rows[name])

    def format(self) -> str:
        """Return the statistics in JSON, with the columns' names in files."""
        columns = self._columns.values()
        statistics = {
            "numRecords": self._rows,
            "minValues": {column.name: column.least for column in columns if column.least is not None},
            "maxValues": {column.name: column.most for column in columns if column.most is not None},
            "nullCount": {column.name: column.nulls for column in columns},
        }
        return json.dumps(statistics, separators=(",", ":"), ensure_ascii=False)


class _ColumnStatistics:
    """Bounds are compared in the form of statistics: ISO texts of one format, and strings by their characters."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nulls = 0
        self._least: list[Any] = []
        self._most: list[Any] = []

    def add(self, values: pa.ChunkedArray[Any]) -> None:
        self.nulls += values.null_count
        if values.null_count < len(values):
            least, most = bounds_of(values)
            self._least = [_outer(min, [*self._least, least])]
            self._most = [_outer(max, [*self._most, most])]

    @property
    def least(self) -> object:
        return self._least[0] if self._least else None

    @property
    def most(self) -> object:
        return self._most[0] if self._most else None


def _outer(choose: Callable[[Sequence[Any]], object], bounds: Sequence[Any]) -> object:
    """Return the outermost bound; None if one is unknown."""
    return None if None in bounds else choose(bounds)


def bounds_of(values: pa.ChunkedArray[Any]) -> tuple[object, object]:
    """Return bounds of values in the form of statistics; None if there is no bound."""
    kind: Any = values.type
    if pa.types.is_integer(kind):
        return _min_max(values)
    if pa.types.is_date32(kind):
        least, most = _min_max(values.cast(pa.int32()))
        return _day(least), _day(most)
    if pa.types.is_timestamp(kind):
        zone = "Z" if kind.tz is not None else ""
        # Statistics have milliseconds: the upper bound is rounded up, so that it includes the greatest value.
        least, most = _min_max(values.cast(pa.int64()))
        return _moment(least, zone), _moment(-(-most // _MILLI) * _MILLI if most is not None else None, zone)
    if pa.types.is_string(kind):
        least, most = _min_max(values)
        return least[:_PREFIX_CHARACTERS] if least is not None else None, _above(most)
    return None, None


def _min_max(values: pa.ChunkedArray[Any]) -> tuple[Any, Any]:
    found: Any = pc.min_max(values).as_py()
    return found["min"], found["max"]


def _day(days: int | None) -> str | None:
    """Return a date as text; None for one beyond year 9999."""
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat() if days is not None else None
    except OverflowError:
        return None


def _moment(micros: int | None, zone: str) -> str | None:
    try:
        moment = _EPOCH + timedelta(microseconds=micros) if micros is not None else None
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds") + zone if moment is not None else None


def _above(text: str | None) -> str | None:
    """Return a text of at most 33 characters that sorts, by its bytes, at or above one; None if there is none."""
    if text is None or len(text) <= _PREFIX_CHARACTERS:
        return text
    following = text[_PREFIX_CHARACTERS]
    if following >= _LAST_CHARACTER:
        return None
    # Delta's own writer ends a truncated upper bound in the same way.
    return text[:_PREFIX_CHARACTERS] + (_LAST_ASCII if following < _LAST_ASCII else _LAST_CHARACTER)
