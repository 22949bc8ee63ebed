"""What rows of the source look like: the columns of one instance, of a table's instances, or values as JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rowtide.cdc.following.json_images import make_partial_images
from rowtide.cdc.following.row_events import RowValues, find_absent
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.json_texts import as_json
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.lake_readers.presentation import pieces, present_values
from rowtide.cdc.lake_readers.table_changes import as_united
from rowtide.cdc.lake_readers.value_texts import kernels
from rowtide.cdc.queries.table_changes import INSTANCE_COLUMN, unite
from rowtide.cdc.rows.change_columns import shown_columns
from rowtide.cdc.rows.operations import TRUNCATE
from rowtide.cdc.spark_source.errors import StreamColumnsChanged
from rowtide.databases.lake_values.arrow_types import arrow_schema

VALUES_COLUMN = "__$values"

Columns = list[tuple[str, str]]
"""Names and types in the lake."""


class Shape(Protocol):
    """The columns of the source's rows, and how an instance's change rows come to have them."""

    @property
    def columns(self) -> Columns:
        """The columns."""
        ...

    def present(self, rows: pa.RecordBatch, instance: Instance) -> pa.RecordBatch:
        """Return an instance's change rows with these columns."""
        ...


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """An instance's own columns."""

    instance: Instance

    @property
    def columns(self) -> Columns:
        """The columns, as `get_all_changes` has them."""
        return shown_columns(self.instance)

    def present(self, rows: pa.RecordBatch, _instance: Instance) -> pa.RecordBatch:
        """Return the rows."""
        return rows


@dataclass(frozen=True, slots=True)
class UnitedColumns:
    """The columns of all instances of a table, and the instance's name."""

    united: Instance

    @property
    def columns(self) -> Columns:
        """The columns, as `get_table_changes` has them."""
        return [*shown_columns(self.united), (INSTANCE_COLUMN, "string")]

    def present(self, rows: pa.RecordBatch, instance: Instance) -> pa.RecordBatch:
        """Return the rows with the united columns."""
        return as_united(rows, instance, self.united)


@dataclass(frozen=True, slots=True)
class JsonValues:
    """One set of columns for the instances of any tables: the captured values are a JSON object."""

    @property
    def columns(self) -> Columns:
        """The columns."""
        masks = [("__$update_mask", "binary"), ("__$absent_mask", "binary")]
        position = zip(ORDER, ("bigint", "bigint", "int"), strict=True)
        return [*position, *masks, (INSTANCE_COLUMN, "string"), (VALUES_COLUMN, "string")]

    def present(self, rows: pa.RecordBatch, instance: Instance) -> pa.RecordBatch:
        """Return the rows with their values as JSON: null for a truncate; absent values are left out."""
        schema = arrow_schema(self.columns)
        values: Any = pa.chunked_array([_as_objects(piece, instance) for piece in pieces(rows)], pa.string())
        found = {
            **{name: rows.column(name) for name in schema.names if name in rows.schema.names},
            INSTANCE_COLUMN: pa.repeat(instance.capture_instance, rows.num_rows),
            VALUES_COLUMN: values.combine_chunks(),
        }
        return pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)


def choose_shape(instances: Sequence[Instance], *, are_several: bool) -> Shape:
    """Return the shape of the rows of instances, as readers know them; of one table's, the older comes first."""
    if not are_several:
        return OwnColumns(instances[0])
    if len({instance.source_id for instance in instances}) == 1:
        return UnitedColumns(unite(instances))
    return JsonValues()


def require_columns(expected: Columns, found: Columns) -> None:
    """Raise `StreamColumnsChanged` unless columns are those that a query expects."""
    if expected == found:
        return
    before, now = dict(expected), dict(found)
    said = [
        *(f"{name} ({kind}) is new" for name, kind in now.items() if name not in before),
        *(f"{name} is gone" for name in before if name not in now),
        *(f"{name} is {now[name]}, not {kind}" for name, kind in expected if now.get(name, kind) != kind),
    ]
    raise StreamColumnsChanged("; ".join(said) or "their order is another one")


def _as_objects(rows: pa.RecordBatch, instance: Instance) -> Any:
    columns = present_values(rows, instance)
    values = RowValues(columns, find_absent(rows, len(columns)))
    objects = make_partial_images([column.name for column in columns], [as_json(column) for column in columns], values)
    is_truncate = pa.array(np.asarray(rows.column(ORDER[2]).to_numpy() == TRUNCATE))
    return kernels.if_else(is_truncate, pa.scalar(None, pa.string()), objects)
