"""Change rows of a window, or a table as of an LSN, as Arrow, for programs and for what takes Arrow: DuckDB, Polars.

Change rows of an instance with the columns of all of its table's instances, in Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.bits import EXACT, Bits
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.queries.net_changes import INSTANCE_COLUMN
from rowtide.cdc.rows.change_columns import shown_columns
from rowtide.cdc.rows.conversion import EXACT as EXACT_TYPE, as_binary, empty_masks, set_bits
from rowtide.core.extras import naming_extras
from rowtide.core.values import frozen
from rowtide.databases.lake_values.casting import arrow_schema

if TYPE_CHECKING:
    import duckdb
    import polars


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
    for place, ordinal in enumerate(ordinals, 1):
        if ordinal is not None:
            set_bits(moved, place, bits.of(ordinal))
    return as_binary(moved, masks.is_null().to_numpy(zero_copy_only=False))


def _moved_exact(maps: Any, ordinals: list[int | None], columns: int) -> Any:
    moved = np.zeros(columns + 1, np.int32)
    for place, ordinal in enumerate(ordinals, 1):
        if ordinal is not None:
            moved[ordinal] = place
    # Arrow takes a mask only for arrays that begin with their memory.
    whole = pa.concat_arrays([maps])
    is_null = pa.array(whole.is_null().to_numpy(zero_copy_only=False))
    keys = pa.array(moved[whole.keys.to_numpy()])
    arrays: Any = pa.MapArray
    return arrays.from_arrays(whole.offsets, keys, whole.items, EXACT_TYPE, mask=is_null)
