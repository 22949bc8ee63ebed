"""Rows of data files in the table's columns and types, whatever names and narrower types the files have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowtide.delta.schema import PARQUET_ID, Field, FieldType, ListOf, MapOf, Primitive, Struct

_READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads columns from data files; `by_id`: columns are known by their field ids, otherwise by physical names."""

    columns: Struct
    by_id: bool

    def read(self, file: pa.NativeFile, batch_rows: int, batch_bytes: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield a file's rows in batches, with fewer rows where so many would be more than so many bytes.

        Pages are read as they are needed, so memory is bounded by a batch and the page of each column.
        Raises `pa.ArrowInvalid`, `OSError`.
        """
        with pq.ParquetFile(
            file, pre_buffer=False, buffer_size=_READ_BYTES, coerce_int96_timestamp_unit="us"
        ) as parquet:
            there = parquet.schema_arrow
            if batch_bytes is not None:
                batch_rows = min(batch_rows, _rows_within(parquet.metadata, batch_bytes))
            places = [self._find(there, field) for field in self.columns.fields]
            wanted = [there.field(place).name for place in places if place is not None]
            if not wanted:
                yield from self._nulls(parquet.metadata.num_rows, batch_rows)
                return
            for batch in parquet.iter_batches(batch_rows, columns=wanted, use_threads=False):
                yield self._conform(batch)

    def _conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = self._conform_fields(self.columns.fields, batch.schema, batch.columns, batch.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns.schema)

    def _conform_fields(
        self, fields: Sequence[Field], there: Iterable[pa.Field[Any]], arrays: Sequence[pa.Array[Any]], rows: int
    ) -> list[pa.Array[Any]]:
        places = [self._find(there, field) for field in fields]
        return [
            self._conform_values(arrays[place], field.type) if place is not None else pa.nulls(rows, field.arrow.type)
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

    def _nulls(self, rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, batch_rows):
            size = min(batch_rows, rows - start)
            arrays = [pa.nulls(size, field.type) for field in self.columns.schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.columns.schema)

    def _find(self, there: Iterable[pa.Field[Any]], field: Field) -> int | None:
        """Return the place of a field in a file; None if the file has no such column."""
        if self.by_id and field.field_id is not None:
            wanted = str(field.field_id).encode()
            found = (
                place for place, each in enumerate(there) if (each.metadata or {}).get(PARQUET_ID.encode()) == wanted
            )
        else:
            found = (place for place, each in enumerate(there) if each.name == field.physical_name)
        return next(found, None)


def _from_the_first(values: Any) -> Any:
    """Return an array whose memory begins with its first value: a null mask goes only with such."""
    return values if values.offset == 0 else pc.take(values, pa.array(range(len(values))))


def _rows_within(file: pq.FileMetaData, wanted_bytes: int) -> int:
    """Return how many rows of a file have about so many bytes; at least one."""
    total = sum(file.row_group(place).total_byte_size for place in range(file.num_row_groups))
    return max(1, wanted_bytes * file.num_rows // max(total, 1))
