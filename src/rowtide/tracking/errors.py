"""Errors of change tracking: 6xxx."""

from __future__ import annotations

from rowtide.core.anchors import Anchor
from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError, numbered
from rowtide.core.row_values import RowKey, Said


@numbered
class TableToTrackNotFound(NotFound):
    """The table does not exist, or is of a kind that cannot be tracked."""

    number = 6101
    fact = "there is no table {table} that can be tracked"
    hint = (
        "Name an ordinary or partitioned table of this database. Partitions, views, virtual tables, unlogged tables, "
        "and tables that take part in inheritance cannot be tracked."
    )
    table: str


@numbered
class TrackingKeyMissing(Invalid):
    """The table lacks the requested key."""

    number = 6102
    fact = "table {table} has no {key}"
    hint = "Add it to the table, or use the other kind of key: --key primary-key, --key rowguid."
    table: str
    key: str


@numbered
class NothingToTrack(Invalid):
    """No operation was given (SQL Server Compact: ArgumentOutOfRangeException)."""

    number = 6103
    fact = "no operation was given to track on table {table}"
    hint = "Give one or more of insert, update, delete."
    table: str


@numbered
class TrackedAlready(AlreadyExists):
    """The table is already tracked."""

    number = 6104
    fact = "table {table} is already tracked"
    hint = "To track it with other options, run `rowtide tracking disable {table}` first."
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
    fact = "change tracking does not support connections of {driver}"
    hint = "Use a connection of module sqlite3 or psycopg."
    driver: str


@numbered
class StorageNotOffered(Invalid):
    """Stamps in a separate table need keys that are unique at every moment, and rows that stay in their table."""

    number = 6114
    fact = "stamps of table {table} cannot be kept in storage {storage}: {reason}"
    hint = "Omit --storage: the stamps are then columns of the table."
    table: str
    storage: str
    reason: str


@numbered
class IndexNotOffered(Invalid):
    """The database does not have this kind of index."""

    number = 6118
    fact = "the stamps of table {table} cannot have a {index} index on this database"
    hint = "Omit --index: SQLite's index is always a btree."
    table: str
    index: str


@numbered
class AnchorTooOld(DataLoss):
    """Tombstones or stamps from after the anchor were removed."""

    number = 6105
    fact = "anchor {anchor} is too old for table {table}, whose changes are known only since CSN {min_valid_csn}"
    hint = "Enumerate without an anchor, which returns a full copy and a new anchor of the same snapshot."
    table: str
    anchor: Anchor
    min_valid_csn: int


@numbered
class TrackingLost(DataLoss):
    """Triggers or columns of tracking were altered: changes may be missing."""

    number = 6106
    fact = "tracking of table {table} was lost, detected at {lost_time} UTC: {what}"
    hint = (
        "Run `rowtide tracking resume {table}`, then enumerate it without an anchor: "
        "changes since the last anchor may be missing."
    )
    table: str
    lost_time: str
    what: str


@numbered
class TrackedTableGone(TrackingLost):
    """No table has the name of a tracked one: it was dropped or renamed, and cannot be resumed."""

    number = 6119
    fact = "tracked table {table} is gone, detected at {lost_time} UTC: {what}"
    hint = (
        "Run `rowtide tracking disable {table}`; a table that has another name now is tracked by that one: `rowtide "
        "tracking enable TABLE`."
    )


@numbered
class InvalidTombstoneKey(Invalid):
    """Values or text are not a key of the table (SQL Server Compact: ArgumentException)."""

    number = 6107
    fact = "{given} is not a key of table {table}: {reason}"
    hint = "Give one value for each column of the key, in the key's order."
    table: str
    given: RowKey
    reason: Said


@numbered
class TrackedPlanCallsCode(Denied):
    """An index, check, statistics or partition key of a tracked table calls a function that the planner runs."""

    number = 6120
    fact = "table {table} is not read: the planner would run {function} of another role with the rights of this one"
    hint = (
        "Connect as the owner of the function. Or take the call out of the table's indexes, checks, statistics and "
        "partition keys; or give it a column, and write the function in PL/pgSQL."
    )
    table: str
    function: str


@numbered
class TransactionOpen(RowtideError):
    """The connection already has an open transaction."""

    number = 6109
    fact = "the connection already has an open transaction"
    hint = "Commit it or roll it back first."


@numbered
class NoTransaction(RowtideError):
    """A transaction's BSN was requested outside a transaction."""

    number = 6110
    fact = "no transaction of this ChangeTracking is open"
    hint = "Call this within `with tracking.transaction():`."


@numbered
class NoDatabaseFound(NotFound):
    """A path or pattern matches no file, or none was given."""

    number = 6115
    fact = 'no database file matches "{pattern}"'
    hint = (
        "Give URLs, paths of SQLite files, or a pattern such as /data/devices/*.db; check that the folder is mounted."
    )
    pattern: str


@numbered
class DevicesFailed(RowtideError):
    """Some databases could not be enumerated."""

    number = 6116
    fact = "{failed} of {devices} databases could not be enumerated: {failures}"
    hint = (
        "Fix the cause and repeat the call, or use keep_going=True: it returns the changes of the other databases, "
        "and `failures` has the errors. A database without its anchor is copied in full."
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
        "Check that all workers reach the spool, and have the driver's Python version with rowtide installed. "
        "No anchor was returned: repeat the call."
    )
    spool: str
    reason: str
