"""Errors of change tracking: 6xxx."""

from __future__ import annotations

from rowtide.core.anchors import Anchor
from rowtide.core.errors import AlreadyExists, DataLoss, Invalid, NotFound, Retryable, RowtideError, numbered


@numbered
class TableToTrackNotFound(NotFound):
    """The table does not exist, or is of a kind that cannot be tracked."""

    number = 6101
    fact = "there is no table {table} that could be tracked"
    hint = (
        "Name an ordinary or partitioned table of this database, not a partition; views, virtual and unlogged tables "
        "and those that inherit or are inherited cannot be tracked."
    )
    table: str


@numbered
class TrackingKeyMissing(Invalid):
    """The table lacks the requested key."""

    number = 6102
    fact = "table {table} has no {key}"
    hint = "Give it one, or name the other kind of key: --key primary-key, --key rowguid."
    table: str
    key: str


@numbered
class NothingToTrack(Invalid):
    """No operation was given (SQL Server Compact: ArgumentOutOfRangeException)."""

    number = 6103
    fact = "no operation of table {table} was named to be tracked"
    hint = "Name one or more of insert, update, delete."
    table: str


@numbered
class TrackedAlready(AlreadyExists):
    """The table is already tracked."""

    number = 6104
    fact = "table {table} is tracked already"
    hint = "Disable it first, where it should be tracked in another way."
    table: str


@numbered
class NotTracked(NotFound):
    """The table is not tracked (SQL Server: 22105)."""

    number = 22105
    fact = "table {table} is not tracked"
    hint = "Run `rowtide tracking enable {table}`."
    table: str


@numbered
class NothingTracked(NotFound):
    """No table of the database is tracked."""

    number = 6111
    fact = "no table of this database is tracked"
    hint = "Run `rowtide tracking enable TABLE`."


@numbered
class UnknownConnection(Invalid):
    """The connection's driver is not supported."""

    number = 6112
    fact = "change tracking does not know connections of {driver}"
    hint = "Give it a connection of the module sqlite3 or psycopg."
    driver: str


@numbered
class StorageNotOffered(Invalid):
    """Stamps in a separate table need keys that are unique at every moment, and rows that stay in their table."""

    number = 6114
    fact = "stamps of table {table} cannot be kept in storage {storage}: {reason}"
    hint = "Leave out --storage: the stamps are columns of the table then."
    table: str
    storage: str
    reason: str


@numbered
class IndexNotOffered(Invalid):
    """The database does not have this kind of index."""

    number = 6118
    fact = "the stamps of table {table} cannot have an index of the kind {index} on this database"
    hint = "Leave out --index: SQLite's is of the kind btree."
    table: str
    index: str


@numbered
class AnchorTooOld(DataLoss):
    """Tombstones or stamps from after the anchor were removed."""

    number = 6105
    fact = (
        "anchor {anchor} is older than what is known of table {table}: its changes are there since CSN {min_valid_csn}"
    )
    hint = "Enumerate without an anchor: that is a full copy, with a new anchor of the same snapshot."
    table: str
    anchor: Anchor
    min_valid_csn: int


@numbered
class TrackingLost(DataLoss):
    """Triggers or columns of tracking were altered: changes may be missing."""

    number = 6106
    fact = "tracking of table {table} was lost, found out at {lost_time} UTC: {what}"
    hint = (
        "Run `rowtide tracking resume {table}`, then enumerate it without an anchor: "
        "changes since the last anchor may be missing."
    )
    table: str
    lost_time: str
    what: str


@numbered
class InvalidTombstoneKey(Invalid):
    """Values or text are not a key of the table (SQL Server Compact: ArgumentException)."""

    number = 6107
    fact = "{given} is no key of table {table}: {reason}"
    hint = "Give one value for each column of the key, in the key's order."
    table: str
    given: str
    reason: str


@numbered
class TrackingOutdated(RowtideError):
    """The database was tracked by another version of rowtide."""

    number = 6108
    fact = "this database is tracked in form {found}; this rowtide writes form {needed}"
    hint = "Run `rowtide tracking upgrade` if it is older; if it is newer, use a newer rowtide."
    found: int
    needed: int


@numbered
class TransactionOpen(RowtideError):
    """The connection already has an open transaction."""

    number = 6109
    fact = "the connection is in a transaction already"
    hint = "Commit it or roll it back before."


@numbered
class NoTransaction(RowtideError):
    """A transaction's BSN was requested outside a transaction."""

    number = 6110
    fact = "no transaction of this ChangeTracking is open"
    hint = "Ask within `with tracking.transaction():`."


@numbered
class NoDatabaseFound(NotFound):
    """A path or pattern matches no file, or none was given."""

    number = 6115
    fact = 'no database file is there under the name "{pattern}"'
    hint = "Name URLs, paths of SQLite files, or a pattern such as /data/devices/*.db, in a folder that is mounted."
    pattern: str


@numbered
class DevicesFailed(RowtideError):
    """Some databases could not be enumerated."""

    number = 6116
    fact = "{failed} of {devices} databases could not be enumerated: {failures}"
    hint = (
        "Mend them and repeat the call, or go on without them: with keep_going=True the changes of the others come, "
        "and `failures` says why of each; without its anchor a database is copied whole."
    )
    failed: int
    devices: int
    failures: str


@numbered
class EnumerationFailed(Retryable):
    """Spark itself failed, not a database."""

    number = 6117
    fact = "enumerating into {spool} failed in Spark: {reason}"
    hint = (
        "Check that all workers reach the spool, and that their Python is the driver's and has rowtide. "
        "No anchor was given: repeat the call."
    )
    spool: str
    reason: str
