"""How a table is tracked: its key, the operations, and where its stamps are stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from enum import Enum, Flag, StrEnum
from typing import Annotated

from rowtide.core.options import Argument, Option, WordsRead
from rowtide.core.values import frozen


class TrackingKeyType(StrEnum):
    """What identifies the rows of a tracked table (SQL Server Compact: TrackingKeyType)."""

    PRIMARY_KEY = "primary-key"
    ROWGUID = "rowguid"


class TrackingOptions(Flag):
    """The tracked operations, in any combination (SQL Server Compact: TrackingOptions)."""

    INSERT = 1
    UPDATE = 2
    DELETE = 4
    ALL = 7


class PurgeType(Enum):
    """The unit of a purge's limit (SQL Server Compact: PurgeType)."""

    TIME_BASED = "days"
    """A number of days: older entries are removed."""
    CSN_BASED = "csn"
    """A commit sequence number: entries committed up to it are removed."""


class Storage(StrEnum):
    """Where the stamps of a table's rows are stored."""

    ROW = "row"
    """In the row, in three added columns."""
    SIDE = "side"
    """In a separate table, by key: for clients that an added column would break."""


class StampIndex(StrEnum):
    """The index by which rows changed since an anchor are found."""

    BRIN = "brin"
    """Page ranges: almost free for writers; an enumeration reads every range with a changed row."""
    BTREE = "btree"
    """Each row: costs writers more; an enumeration reads only changed rows, however scattered."""


@frozen
class TrackingRequest(WordsRead):
    """A table and how to track it."""

    table: Annotated[str, Argument(metavar="TABLE", help="a table of the database")]
    key_type: Annotated[
        TrackingKeyType,
        Option(
            "--key",
            help="What identifies rows: the primary key, or the unique column rowguid.",
            sql_server="trackingKeyType",
        ),
    ] = TrackingKeyType.PRIMARY_KEY
    options: Annotated[
        TrackingOptions, Option(help="Tracked operations, separated by commas.", sql_server="trackingOptions")
    ] = TrackingOptions.ALL
    _: KW_ONLY
    storage: Annotated[Storage, Option(help="Stamps in the row, three columns more; or in a table beside it.")] = (
        Storage.ROW
    )
    index: Annotated[
        StampIndex | None,
        Option(help="On the stamps; PostgreSQL: page ranges (brin) or rows (btree).", show_default="the database's"),
    ] = None
    """None: the database's default, BRIN on PostgreSQL."""
    on_progress: Callable[[str], None] = lambda _message: None


@frozen
class TrackedTable:
    """A table in the catalogue of tracking.

    Anchors below `min_valid_csn` are refused. `lost_time` is when the table's triggers or columns were found altered;
    None if they are intact.
    """

    name: str
    key_type: TrackingKeyType
    options: TrackingOptions
    storage: Storage
    index: StampIndex
    min_valid_csn: int
    lost_time: str | None = None
