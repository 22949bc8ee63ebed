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

    `type_code` and `type_modifier` are the database's own (PostgreSQL: type oid and typmod).
    """

    name: str
    type_code: int
    type_modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class TableShape:
    """What rows of a table look like in the log from some LSN on.

    `columns` are only those that some member needs, in the table's order: row images in log records have
    exactly these, at these places. `identity` is what the database was told to log of old rows.
    """

    source_id: int
    schema: str
    name: str
    identity: ImageKind
    columns: tuple[ColumnShape, ...]

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table shape under the number that log records carry; numbers are never reused."""

    table_id: int
    shape: TableShape
