"""The columns of a change table and their indexes in row images, its operations, and the update mask.

The update mask has one bit per captured column, in SQL Server's byte order. Ordinal 1 is the least significant bit of
the *last* byte, so nine captured columns that all changed read 0x01FF. Inserts and deletes carry all ones; updates the
columns that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
"""The index of a column that the log does not have."""


def find_indexes(instance: Instance, shape: TableShape) -> dict[str, int]:
    """Return the indexes of captured columns, by their captured names.

    A dropped column has none, nor has a generated one, whatever the log carries of it. A column whose number the log
    reader does not know is the captured one of its name.
    """
    numbered = {column.number: index for index, column in enumerate(shape.columns) if column.number is not None}
    named = {column.name: index for index, column in enumerate(shape.columns) if column.number is None}
    found = {
        column.name: numbered.get(column.column_id, named.get(column.name))
        for column in instance.columns
        if not column.is_computed
    }
    return {name: index for name, index in found.items() if index is not None}


def column_indexes(instance: Instance, shape: TableShape) -> list[int]:
    """Return the indexes of the captured columns, by ordinal; `NO_INDEX` for columns that the log lacks."""
    indexes = find_indexes(instance, shape)
    return [indexes.get(column.name, NO_INDEX) for column in instance.columns]


def key_indexes(instance: Instance, shape: TableShape) -> list[int]:
    """Return the indexes of the key's columns."""
    indexes = find_indexes(instance, shape)
    return [indexes[column.name] for column in instance.index_columns if column.name in indexes]


def mask_length(columns: int) -> int:
    """Return the mask's length in bytes for a number of captured columns."""
    return (columns + 7) // 8


def full_mask(columns: int) -> bytes:
    """Return the mask with every captured column's bit set."""
    return pack_mask(range(1, columns + 1), columns)


def pack_mask(ordinals: Iterable[int], columns: int) -> bytes:
    """Set the bits of the given 1-based ordinals."""
    bits = 0
    for ordinal in ordinals:
        bits |= 1 << (ordinal - 1)
    return bits.to_bytes(mask_length(columns), "big")


def is_bit_set(position: int, mask: bytes) -> bool:
    """Return whether the column with a 1-based ordinal changed (SQL Server: fn_cdc_is_bit_set)."""
    byte, bit = divmod(position - 1, 8)
    return 0 <= byte < len(mask) and bool(mask[-1 - byte] >> bit & 1)
