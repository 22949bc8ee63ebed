"""Rows of data files in the table's columns and types, whatever names and narrower types the files have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowtide.core.values import frozen
from rowtide.delta.schema import PARQUET_ID, Field, FieldType, ListOf, MapOf, Primitive, Struct

_READ_BYTES = 1024 * 1024
CALENDAR = {"org.apache.spark.version": "3.5.0"}
"""What a file says of itself: Spark takes its dates as they are, whatever calendar a session says that files of others
have, which would move days before 1582.
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
            file, pre_buffer=False, buffer_size=_READ_BYTES, coerce_int96_timestamp_unit="us"
        ) as parquet:
            there = parquet.schema_arrow
            if batch_bytes is not None:
                batch_rows = min(batch_rows, _rows_within(parquet.metadata, batch_bytes))
            unread = {*self.empty, *self.constants}
            filled = (field for field in self.columns.fields if field.physical_name not in unread)
            places = [self._find(there, field) for field in filled]
            wanted = [there.field(place).name for place in places if place is not None]
            groups = list(range(parquet.metadata.num_row_groups)) if row_groups is None else list(row_groups)
            if not wanted:
                yield from self._unread(sum(parquet.metadata.row_group(place).num_rows for place in groups), batch_rows)
                return
            for batch in parquet.iter_batches(batch_rows, groups, columns=wanted, use_threads=on_all_cores):
                yield self._conform(batch)

    def has_other_types(self, file: pa.NativeFile) -> bool:
        """Return whether a file has one of the columns in another type; its end is read. Raises as `read`."""
        with pq.ParquetFile(file, pre_buffer=False, coerce_int96_timestamp_unit="us") as parquet:
            there = parquet.schema_arrow
            places = ((field, self._find(there, field)) for field in self.columns.fields)
            return any(place is not None and there.field(place).type != field.in_files.type for field, place in places)

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = self._conform_fields(self.columns.fields, batch.schema, batch.columns, batch.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns.schema)

    def _conform_fields(
        self, fields: Sequence[Field], there: Iterable[pa.Field[Any]], arrays: Sequence[pa.Array[Any]], rows: int
    ) -> list[pa.Array[Any]]:
        places = [self._find(there, field) for field in fields]
        return [
            self._conform_values(arrays[place], field.type) if place is not None else self._repeat(field, rows)
            for place, field in zip(places, fields, strict=True)
        ]

    def _conform_values(self, values: Any, wanted: FieldType) -> Any:
        if values.type == wanted.arrow:
            return values
        match wanted:
            case Primitive():
                return values.cast(wanted.arrow)
            case Struct():
                parts = [values.field(place) for place in range(values.type.num_fields)]
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
        """Return the place of a field in a file; None if it has no such column, or its partition has the value."""
        if field.physical_name in self.constants:
            return None
        if self.by_id and field.field_id is not None:
            wanted = str(field.field_id).encode()
            found = (
                place for place, each in enumerate(there) if (each.metadata or {}).get(PARQUET_ID.encode()) == wanted
            )
        else:
            found = (place for place, each in enumerate(there) if each.name == field.physical_name)
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
        places = [place for place in range(found.num_columns) if found.schema.column(place).path == column]
        return [_describe_group(found.row_group(group), places) for group in range(found.num_row_groups)]


def _describe_group(group: pq.RowGroupMetaData, places: Sequence[int]) -> RowGroup:
    statistics = group.column(places[0]).statistics if places else None
    if statistics is None or not statistics.has_min_max:
        return RowGroup(group.total_byte_size, None, None)
    return RowGroup(group.total_byte_size, statistics.min, statistics.max)


def _rows_within(file: pq.FileMetaData, wanted_bytes: int) -> int:
    """Return how many rows of a file have about a number of bytes; at least one."""
    total = sum(file.row_group(place).total_byte_size for place in range(file.num_row_groups))
    return max(1, wanted_bytes * file.num_rows // max(total, 1))
