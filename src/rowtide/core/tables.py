"""The shape of a source table as the log shows it, and its versions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class ImageKind(IntEnum):
    """What the log carries of a row before its change; the `image` column of a log record."""

    NONE = 0
    KEY = 1
    FULL = 2


class BeforeImages(StrEnum):
    """What a member wants of a row before its change: the whole row, or its key."""

    FULL = "full"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """A column as the log describes it.

    `type_code` and `type_modifier` are the database's own (PostgreSQL: type oid and typmod). `number` is what the
    database knows the column by, whatever it is called; None where the log's reader was not told.
    """

    name: str
    type_code: int
    type_modifier: int
    is_key: bool
    number: int | None = None


@dataclass(frozen=True, slots=True)
class TableShape:
    """What rows of a table look like in the log from some LSN on.

    `columns` are only those that some member needs, in the table's order: row images in log records have
    exactly these, at these places. `identity` is what the database was told to log of old rows. `others` are the
    columns that nobody needs, None where they were not noted.
    """

    source_id: int
    schema: str
    name: str
    identity: ImageKind
    columns: tuple[ColumnShape, ...]
    others: tuple[ColumnShape, ...] | None = None

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table shape under the number that log records carry; numbers are never reused."""

    table_id: int
    shape: TableShape
