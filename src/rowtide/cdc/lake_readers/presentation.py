"""Change rows for programs: as Arrow, and as exact text where numbers or times would not be exact.

Also as JSON, a column at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rowtide.cdc.change_columns import shown_columns
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.bits import EXACT, Bits, ExactTexts, as_texts, kernels, read_exact_texts
from rowtide.cdc.lake_readers.ordering import BATCH_ROWS, ORDER, gather
from rowtide.cdc.queries.united_instances import INSTANCE_COLUMN
from rowtide.cdc.rows.conversion import EXACT as EXACT_TYPE, as_binary, empty_masks, set_bits
from rowtide.core.exports import naming_extras
from rowtide.core.values import frozen
from rowtide.databases.lake_values.casting import arrow_schema
from rowtide.delta.data_files import CALENDAR

if TYPE_CHECKING:
    import duckdb
    import polars


# Change rows of a window, or a table as of an LSN, as Arrow: for programs, DuckDB and Polars; also with the columns of
# all instances of the table.


@frozen(slots=False)
class ArrowChanges:
    """Change rows in order, or a table's rows; `schema` has their columns, `instance` what these are in the source.

    Rows are read as often as they are asked for, each time from the same version of the change table, as a stream in
    bounded memory. Reading raises `LakeReadFailed`, also when a vacuum removed the version's files.
    """

    schema: pa.Schema
    instance: Instance
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def to_arrow(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of record batches of a few megabytes."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return the rows as a relation of a DuckDB connection, by default of DuckDB's own.

        Each query on the relation reads the lake. Raises `ExtraMissing`.
        """
        with naming_extras():
            import duckdb
        return duckdb.from_arrow(self, connection=connection or duckdb.default_connection())

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a data frame of Polars, which holds all of them. Raises `ExtraMissing`."""
        with naming_extras():
            import polars
        return polars.DataFrame(self)

    def without_rows(self) -> ArrowChanges:
        """Return the same columns without rows."""
        return replace(self, batches=lambda: iter(()))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as Arrow's C stream: DuckDB, Polars and others take this object as it is."""
        rows: Any = self.to_arrow()
        stream: object = rows.__arrow_c_stream__(requested_schema)
        return stream


_MASKS = ("__$update_mask", "__$absent_mask")


def united_schema(united: Instance) -> pa.Schema:
    """Return the columns of the united changes of a table."""
    return arrow_schema([*shown_columns(united), (INSTANCE_COLUMN, "string")])


def as_united(rows: pa.RecordBatch, instance: Instance, united: Instance) -> pa.RecordBatch:
    """Return all changes of an instance as those of the united one; ordinals are the united columns'."""
    own = {column.column_id: ordinal for ordinal, column in enumerate(instance.columns, 1)}
    ordinals = [own.get(column.column_id) for column in united.columns]
    schema = united_schema(united)
    values = {name: rows.column(name) for name in rows.schema.names if name in ORDER}
    for column, ordinal in zip(united.columns, ordinals, strict=True):
        values[column.lake_name] = (
            pa.nulls(rows.num_rows) if ordinal is None else rows.column(instance.columns[ordinal - 1].lake_name)
        )
    values |= {name: _moved_mask(rows.column(name), ordinals, len(instance.columns)) for name in _MASKS}
    values[EXACT] = _moved_exact(rows.column(EXACT), ordinals, len(instance.columns))
    values[INSTANCE_COLUMN] = pa.repeat(instance.capture_instance, rows.num_rows)
    return pa.RecordBatch.from_arrays([values[field.name].cast(field.type) for field in schema], schema=schema)


def _moved_mask(masks: Any, ordinals: list[int | None], columns: int) -> Any:
    bits = Bits(masks, columns)
    moved = empty_masks(len(masks), len(ordinals))
    for index, ordinal in enumerate(ordinals, 1):
        if ordinal is not None:
            set_bits(moved, index, bits.of(ordinal))
    return as_binary(moved, masks.is_null().to_numpy(zero_copy_only=False))


def _moved_exact(maps: Any, ordinals: list[int | None], columns: int) -> Any:
    moved = np.zeros(columns + 1, np.int32)
    for index, ordinal in enumerate(ordinals, 1):
        if ordinal is not None:
            moved[ordinal] = index
    # Arrow takes a mask only for arrays that begin with their memory.
    whole = pa.concat_arrays([maps])
    is_null = pa.array(whole.is_null().to_numpy(zero_copy_only=False))
    keys = pa.array(moved[whole.keys.to_numpy()])
    arrays: Any = pa.MapArray
    return arrays.from_arrays(whole.offsets, keys, whole.items, EXACT_TYPE, mask=is_null)


_INTEGER = "^(0|-?[1-9][0-9]*)$"
_METADATA = (
    "__$start_lsn",
    "__$seqval",
    "__$operation",
    "__$update_mask",
    "__$absent_mask",
    INSTANCE_COLUMN,
)
_PRESENTED_ROWS = 8 * 1024
_GROUP_BYTES = 32 * 1024 * 1024

Row = tuple[object, ...]


class JsonKind(Enum):
    """What a column's values are to a program that reads JSON."""

    NUMBER = "number"
    FLAG = "flag"
    TEXT = "text"


@frozen
class PresentedColumn:
    """A column's values as texts, null where they are null; `is_text` marks those that are not of the column's kind.

    None: no value is marked. Marked are infinities and NaN, which JSON lacks, and exact texts that are no integers.
    """

    name: str
    kind: JsonKind
    texts: Any
    is_text: Any

    def values(self) -> list[object]:
        """Return the values: numbers, flags, and texts."""
        texts = self.texts.to_pylist()
        if self.kind is JsonKind.TEXT:
            return list(texts)
        marks = self.is_text.to_pylist() if self.is_text is not None else repeat(object=False, times=len(texts))
        return [text if marked or text is None else json.loads(text) for text, marked in zip(texts, marks, strict=True)]


@frozen
class PresentedChanges:
    """Change rows as texts: the columns' names, by their names in the source, and batches of rows, read once."""

    names: Sequence[str]
    batches: Iterator[Sequence[PresentedColumn]]

    def rows(self) -> Iterator[Row]:
        """Return the values row by row."""
        return rows_of(self.batches)


def rows_of(batches: Iterable[Sequence[PresentedColumn]]) -> Iterator[Row]:
    """Yield the values of batches row by row."""
    for columns in batches:
        yield from zip(*(column.values() for column in columns), strict=True)


def present(changes: ArrowChanges) -> PresentedChanges:
    """Return all or net changes, or a table as of an LSN, for programs outside Arrow, in their order.

    Masks and binary values are hexadecimal text, times, decimals, infinities and NaN the source's text, a value that
    its type in the lake cannot hold its exact text. Integers are numbers, whatever their size: what a column's values
    are in JSON follows from its type. `__$absent_mask` is there for instances whose log may leave values out.
    """
    instance = changes.instance
    there = set(changes.schema.names)
    metadata = [name for name in _METADATA if name in there and (name != "__$absent_mask" or instance.may_lack_values)]
    indexes = {column.lake_name: index for index, column in enumerate(instance.columns)}
    captured = [indexes[name] for name in changes.schema.names if name in indexes]
    batches = (_present(piece, instance, metadata, captured) for batch in changes.batches() for piece in pieces(batch))
    return PresentedChanges([*metadata, *(instance.columns[index].name for index in captured)], batches)


def present_values(rows: pa.RecordBatch, instance: Instance) -> Sequence[PresentedColumn]:
    """Present the captured columns of some change rows, as `present` does."""
    return _present(rows, instance, (), range(len(instance.columns)))


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch: texts of narrow rows take several times its memory."""
    for begin in range(0, batch.num_rows, _PRESENTED_ROWS):
        yield batch.slice(begin, _PRESENTED_ROWS)


def write_parquet(changes: ArrowChanges, file: Path) -> None:
    """Write all or net changes to one local Parquet file, typed, in their order; captured columns as in the source."""
    names = {column.lake_name: column.name for column in changes.instance.columns}
    schema = pa.schema([field.with_name(names.get(field.name, field.name)) for field in changes.schema])
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        writer.add_key_value_metadata(CALENDAR)
        for batch in gather(changes.batches(), _GROUP_BYTES, most_rows=8 * BATCH_ROWS):
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))


def _present(
    rows: pa.RecordBatch, instance: Instance, metadata: Sequence[str], captured: Sequence[int]
) -> Sequence[PresentedColumn]:
    """Present columns of rows: some before the captured ones, and the captured ones at some indexes."""
    exact = read_exact_texts(rows.column(EXACT))
    columns = ((index + 1, instance.columns[index]) for index in captured)
    return [
        *(_present_column(name, rows.column(name), None) for name in metadata),
        *(_present_column(one.name, rows.column(one.lake_name), exact.get(ordinal)) for ordinal, one in columns),
    ]


def _present_column(name: str, values: Any, exact: ExactTexts | None) -> PresentedColumn:
    kind, texts = _kind(values.type), as_texts(values)
    is_text = _find_endless(values) if pa.types.is_floating(values.type) else None
    if exact is not None:
        texts = exact.put_into(texts)
        is_text = exact.is_there if is_text is None else kernels.or_(is_text, exact.is_there)
        if pa.types.is_integer(values.type):
            is_integer = kernels.fill_null(kernels.match_substring_regex(texts, _INTEGER), False)  # noqa: FBT003 - Arrow's
            is_text = kernels.and_(is_text, kernels.invert(is_integer))
    return PresentedColumn(name, kind, texts, is_text if kind is not JsonKind.TEXT else None)


def _kind(values: pa.DataType) -> JsonKind:
    if pa.types.is_boolean(values):
        return JsonKind.FLAG
    return JsonKind.NUMBER if pa.types.is_integer(values) or pa.types.is_floating(values) else JsonKind.TEXT


def _find_endless(values: Any) -> Any:
    """Return which numbers are infinite or none, which JSON lacks; None if all are finite."""
    is_endless = kernels.fill_null(kernels.invert(kernels.is_finite(values)), False)  # noqa: FBT003 - Arrow's own order
    return is_endless if kernels.any(is_endless).as_py() else None


_ESCAPED = r'["\\\x00-\x1f]'


def as_json(column: PresentedColumn) -> Any:
    """Return a column's values as JSON: numbers and flags as they are, other values quoted, `null` where it is null."""
    texts = column.texts
    if column.kind is JsonKind.TEXT:
        texts = quoted(texts)
    elif column.is_text is not None:
        texts = kernels.if_else(column.is_text, quoted(texts), texts)
    return kernels.fill_null(texts, "null")


def quoted(texts: Any) -> Any:
    """Return texts as JSON strings; null stays null."""
    escaped = kernels.fill_null(kernels.match_substring_regex(texts, _ESCAPED), False)  # noqa: FBT003
    found = kernels.binary_join_element_wise('"', texts, '"', "")
    if not kernels.any(escaped).as_py():
        return found
    odd = [json.dumps(text, ensure_ascii=False) for text in texts.filter(escaped).to_pylist()]
    return kernels.replace_with_mask(found, escaped, pa.array(odd, pa.string()))


def joined(texts: Any) -> str:
    """Return texts, none of them null, one after the other: they are so in memory."""
    _, offsets, data = texts.buffers()
    ends = memoryview(offsets).cast("i")
    begin, end = ends[texts.offset], ends[texts.offset + len(texts)]
    return str(memoryview(data)[begin:end], "utf-8") if data is not None else ""
