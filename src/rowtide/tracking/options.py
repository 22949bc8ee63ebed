"""How a table is tracked: by which key, which operations, and where its stamps are kept."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, StrEnum


class TrackingKeyType(StrEnum):
    """What identifies the rows of a tracked table (SQL Server Compact: TrackingKeyType)."""

    PRIMARY_KEY = "primary-key"
    ROWGUID = "rowguid"


class TrackingOptions(Flag):
    """Which operations are tracked, in any combination (SQL Server Compact: TrackingOptions)."""

    INSERT = 1
    UPDATE = 2
    DELETE = 4
    ALL = 7


class PurgeType(Enum):
    """What the value of a purge is (SQL Server Compact: PurgeType)."""

    TIME_BASED = "days"
    """A number of days: what is older goes."""
    CSN_BASED = "csn"
    """A commit sequence number: what committed up to it goes."""


class Storage(StrEnum):
    """Where the stamps of a table's rows are."""

    ROW = "row"
    """In the row: three columns more."""
    SIDE = "side"
    """In a table beside it, by key: for clients that an added column would break."""


class StampIndex(StrEnum):
    """By what rows are found that were written since an anchor."""

    BRIN = "brin"
    """Ranges of pages: next to nothing for writers; an enumeration reads each range in which a row was written."""
    BTREE = "btree"
    """Each row: writers pay for it, an enumeration reads what was written, however scattered it is."""


@dataclass(frozen=True, slots=True)
class Enabling:
    """What is asked for: a table, and how it is to be tracked; without an index: by the one that its database has."""

    table: str
    key_type: TrackingKeyType
    options: TrackingOptions
    storage: Storage
    index: StampIndex | None


@dataclass(frozen=True, slots=True)
class TrackedTable:
    """A table as the catalogue of tracking has it.

    An anchor below `min_valid_csn` is refused. `lost_time` is when it was found that the table's triggers or columns
    are not as they were made; None while they are.
    """

    name: str
    key_type: TrackingKeyType
    options: TrackingOptions
    storage: Storage
    index: StampIndex
    min_valid_csn: int
    lost_time: str | None = None
