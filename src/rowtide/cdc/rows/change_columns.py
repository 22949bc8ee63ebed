"""The columns of a change table, and their indexes in row images.

`__$operation` in change tables, and which operations queries for all changes return.
"""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.cdc.instances import CapturedColumn, Instance
from rowtide.core.tables import TableShape
from rowtide.core.values import frozen
from rowtide.databases.lake_types import LakeType
from rowtide.databases.postgres import values as postgres_values

_LAKE_TYPES = {"postgres": postgres_values.lake_type}


@frozen
class ChangeColumn:
    """A column of a change table."""

    name: str
    type_name: str


def change_columns(instance: Instance) -> list[ChangeColumn]:
    """Return the change table's columns, in order: SQL Server's, the captured ones, then rowtide's own."""
    return [
        ChangeColumn("__$start_lsn", "bigint"),
        ChangeColumn("__$end_lsn", "bigint"),
        ChangeColumn("__$seqval", "bigint"),
        ChangeColumn("__$operation", "int"),
        ChangeColumn("__$update_mask", "binary"),
        *(ChangeColumn(column.lake_name, column_type(instance, column).name) for column in instance.columns),
        ChangeColumn("__$absent_mask", "binary"),
        ChangeColumn("__$exact", "map<int,string>"),
    ]


def shown_columns(instance: Instance) -> list[tuple[str, str]]:
    """Return the columns that readers of all changes see, names and types: `__$end_lsn` is always null."""
    return [(column.name, column.type_name) for column in change_columns(instance) if column.name != "__$end_lsn"]


def column_type(instance: Instance, column: CapturedColumn) -> LakeType:
    """Return a captured column's type in the lake."""
    return lake_type(instance, column.value_type_text)


def lake_type(instance: Instance, type_text: str) -> LakeType:
    """Return the type in the lake of a type of an instance's database."""
    return _LAKE_TYPES[instance.database_kind](type_text)


DELETE, INSERT, UPDATE_BEFORE, UPDATE_AFTER, TRUNCATE = 1, 2, 3, 4, 6
"""SQL Server's, and 6, a truncate, which SQL Server refuses."""

ROW_FILTERS: Mapping[str, tuple[int, ...]] = {
    "all": (DELETE, INSERT, UPDATE_AFTER, TRUNCATE),
    "all update old": (DELETE, INSERT, UPDATE_BEFORE, UPDATE_AFTER, TRUNCATE),
}
"""Row filter options of all changes, and the operations that they return."""


NO_INDEX = -1
"""The place of a column that the log does not have."""


def find_indexes(instance: Instance, shape: TableShape) -> dict[str, int]:
    """Return the places of captured columns, by their captured names.

    A dropped column has none, nor has a generated one, whatever the log carries of it. A column whose number the log
    reader does not know is the captured one of its name.
    """
    numbered = {column.number: place for place, column in enumerate(shape.columns) if column.number is not None}
    named = {column.name: place for place, column in enumerate(shape.columns) if column.number is None}
    found = {
        column.name: numbered.get(column.column_id, named.get(column.name))
        for column in instance.columns
        if not column.is_computed
    }
    return {name: place for name, place in found.items() if place is not None}


def column_indexes(instance: Instance, shape: TableShape) -> list[int]:
    """Return the places of the captured columns, by ordinal; `NO_INDEX` for columns that the log lacks."""
    places = find_indexes(instance, shape)
    return [places.get(column.name, NO_INDEX) for column in instance.columns]


def key_indexes(instance: Instance, shape: TableShape) -> list[int]:
    """Return the places of the key's columns."""
    places = find_indexes(instance, shape)
    return [places[column.name] for column in instance.index_columns if column.name in places]
