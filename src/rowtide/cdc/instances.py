"""A capture instance's definition, as the enable message and the lake carry it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from rowtide.core.json_records import JsonOf
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen

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

    Encoded, as in URLs, are the characters that Delta allows only with column mapping, which few readers support, and a
    `%` that would otherwise be decoded.
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

    Cached, because the log store and the lake have equal definitions, which a monitor reads again at every poll.
    """
    return _INSTANCE.decode(definition)
