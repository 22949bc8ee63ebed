"""The shape of a source table as logged, and its versions."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from rowtide.core.values import frozen


class ImageKind(IntEnum):
    """How much of the old row the log carries; the `image` column of a log record."""

    NONE = 0
    KEY = 1
    FULL = 2


class BeforeImages(StrEnum):
    """What a member needs of the old row: the whole row, or its key."""

    FULL = "full"
    KEY = "key"


class Widened(StrEnum):
    """How a lake table gets wider column types.

    A rewritten table can be read by any reader; one that is marked with Delta's type widening needs readers that
    support it. `AUTO` rewrites tables up to a certain size.
    """

    AUTO = "auto"
    REWRITE = "rewrite"
    MARK = "mark"


@frozen
class ColumnShape:
    """A column as the log describes it.

    `type_code` and `type_modifier` are the database's own (PostgreSQL: type oid and typmod). `number` is the database's
    number of the column, which a rename does not change (attnum); None if the log reader does not know it.
    """

    name: str
    type_code: int
    type_modifier: int
    is_key: bool
    number: int | None = None


@frozen
class TableShape:
    """The columns of a table's rows in the log from some LSN on.

    `columns` are only those that some member needs, in the table's order: row images in log records have exactly these,
    in this order. `identity` is the replica identity. `others` are the columns that no member needs, None if they were
    not recorded.
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


@frozen
class LoggedTable:
    """A table shape with the number that log records carry; numbers are never reused."""

    table_id: int
    shape: TableShape
