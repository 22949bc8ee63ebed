"""A capture instance's definition, as the enable message and the lake carry it; its change table's columns. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from rowtide.core.json_records import JsonOf
from rowtide.core.tables import BeforeImages, TableShape
from rowtide.core.values import frozen
from rowtide.databases.lake_types import LakeType
from rowtide.databases.postgres import values as postgres_values

_ENCODED = re.compile(r"[ ,;{}()\n\t=]|%(?=[0-9A-Fa-f]{2})")


@frozen
class CapturedColumn:
    """A captured column; its place in `Instance.columns`, from 1, is its ordinal and its bit in update masks.

    `lake_name` is its column in the change table. `reader_name` is its column to readers of the lake: the source's name
    as of enabling, with a suffix if two names differ only in case; None: as `lake_name`.
    `base_type_text` is the type under a domain, None if the type is not a domain. `dropped_at` is the LSN of the
    transaction that dropped the column, None while it is there.
    """

    name: str
    column_id: int
    type_text: str
    type_code: int
    type_modifier: int
    lake_name: str
    is_computed: bool
    index_ordinal: int | None
    base_type_text: str | None = None
    reader_name: str | None = None
    dropped_at: int | None = None

    @property
    def value_type_text(self) -> str:
        """The type that determines how its values are written."""
        return self.base_type_text or self.type_text


def name_for_readers(names: Iterable[str]) -> list[str]:
    """Name columns for readers, which may not distinguish upper and lower case: later ones get a suffix."""
    taken: set[str] = set()
    reader_names = []
    for name in names:
        candidate, number = name, 1
        while candidate.lower() in taken:
            number += 1
            candidate = f"{name}_{number}"
        taken.add(candidate.lower())
        reader_names.append(candidate)
    return reader_names


def name_in_lake(reader_name: str) -> str:
    """Return the name of a column in a change table; decoding `%XX` gives the reader's name back.

    Delta has the characters that are encoded, as in URLs, only with column mapping, which few readers know. A `%` is
    encoded where it would be decoded.
    """
    return _ENCODED.sub(lambda found: f"%{ord(found[0]):02X}", reader_name)


@frozen
class SeenColumn:
    """A column of the source table, captured or not, as of the last description of the table."""

    name: str
    type_code: int
    type_modifier: int
    is_generated: bool = False


@frozen
class Instance:
    """A capture instance's whole definition, as the enable message carries it.

    Types, the table's name and `seen_columns` follow the table; the captured columns never change.
    """

    capture_instance: str
    member_id: str
    database_kind: str
    source_id: int
    source_schema: str
    source_table: str
    supports_net_changes: bool
    index_name: str | None
    columns: tuple[CapturedColumn, ...]
    refuses_truncate: bool = False
    before_images: BeforeImages = BeforeImages.FULL
    is_partitioned: bool = False
    role_name: str | None = None
    seen_columns: tuple[SeenColumn, ...] = ()
    key_lost_at: int | None = None
    """The LSN from which on no index of the table guarantees that rows differ in the key; None: one does."""

    @property
    def may_lack_values(self) -> bool:
        """The log may carry its rows in part; change rows then mark absent values.

        A later partition has its own replica identity.
        """
        return self.is_partitioned or self.before_images is BeforeImages.KEY

    @property
    def index_columns(self) -> tuple[CapturedColumn, ...]:
        """The columns of the unique index that identifies rows, in the index's order."""
        in_index = [column for column in self.columns if column.index_ordinal is not None]
        return tuple(sorted(in_index, key=lambda column: column.index_ordinal or 0))

    def list_dropped(self, at: int) -> list[int]:
        """Return the ordinals of the columns that the source's table has not any more as of an LSN: all are null."""
        columns = enumerate(self.columns, 1)
        return [place for place, column in columns if column.dropped_at is not None and column.dropped_at <= at]

    @property
    def reader_names(self) -> Mapping[str, str]:
        """The columns of the change table that readers know by another name, and that name."""
        return {
            column.lake_name: column.reader_name
            for column in self.columns
            if column.reader_name not in (None, column.lake_name)
        }

    def for_readers(self) -> Instance:
        """Return the instance as of rows whose columns have the readers' names."""
        columns = (
            replace(column, lake_name=column.reader_name or column.lake_name, reader_name=None)
            for column in self.columns
        )
        return replace(self, columns=tuple(columns))


_INSTANCE = JsonOf[Instance](Instance)


def encode_instance(instance: Instance) -> str:
    """Return the definition as JSON, for the enable message and the lake."""
    return _INSTANCE.encode(instance)


@lru_cache(maxsize=16_384)
def decode_instance(definition: str) -> Instance:
    """Read a definition written by `encode_instance`.

    The log store and the lake have the same ones, which a monitor reads again at every poll.
    """
    return _INSTANCE.decode(definition)


# The columns of a change table, and their indexes in row images. `__$operation` in change tables, and which
# operations queries for all changes return.

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


# The update mask: one bit per captured column, in SQL Server's byte order. Ordinal 1 is the least significant bit of
# the *last* byte, so nine captured columns that all changed read 0x01FF. Inserts and deletes carry all ones; updates
# the columns that changed.


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
