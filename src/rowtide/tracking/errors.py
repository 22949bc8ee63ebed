"""Errors of change tracking: 6xxx."""

from __future__ import annotations

from rowtide.core.anchors import Anchor
from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError
from rowtide.core.redaction import RowKey, Said


class TableToTrackNotFound(NotFound, number=6101):
    """The table does not exist, or is of a kind that cannot be tracked."""

    fact = "there is no table {table} that can be tracked"
    hint = """Name an ordinary or partitioned table of this database. Partitions, views, virtual tables, unlogged
        tables, and tables that take part in inheritance cannot be tracked."""
    table: str


class TrackingKeyMissing(Invalid, number=6102):
    """The table lacks the requested key."""

    fact = "table {table} has no {key}"
    hint = "Add it to the table, or use the other kind of key: --key primary-key, --key rowguid."
    table: str
    key: str


class TrackingKeyShared(Invalid, number=7213):
    """Rows have one tracking key: SQLite allows nulls in a primary key, which are all distinct."""

    fact = "several rows of table {table} have the key {key}: with a null in it, SQLite permits them"
    hint = "Give them keys without nulls, or delete all but one; then enumerate again."
    table: str
    key: RowKey


class NothingToTrack(Invalid, number=6103):
    """No operation was given (SQL Server Compact: ArgumentOutOfRangeException)."""

    fact = "no operation was given to track on table {table}"
    hint = "Give one or more of insert, update, delete."
    table: str


class TrackedAlready(AlreadyExists, number=6104):
    """The table is already tracked."""

    fact = "table {table} is already tracked"
    hint = "To track it with other options, run `rowtide tracking disable {table}` first."
    table: str


class NotTracked(NotFound, number=22105):
    """The table is not tracked (SQL Server: 22105)."""

    fact = "table {table} is not tracked"
    hint = "Run `rowtide tracking enable {table}`."
    table: str


class NothingTracked(NotFound, number=6111):
    """No table of the database is tracked."""

    fact = "no table of this database is tracked"
    hint = "Run `rowtide tracking enable TABLE`."


class UnknownConnection(Invalid, number=6112):
    """The connection's driver is not supported."""

    fact = "change tracking does not support connections of {driver}"
    hint = "Use a connection of module sqlite3 or psycopg."
    driver: str


class StorageNotOffered(Invalid, number=6114):
    """Stamps in a separate table need keys that are unique at every moment, and rows that stay in their table."""

    fact = "stamps of table {table} cannot be kept in storage {storage}: {reason}"
    hint = "Omit --storage: the stamps are then columns of the table."
    table: str
    storage: str
    reason: str


class IndexNotOffered(Invalid, number=6118):
    """The database does not have this kind of index."""

    fact = "the stamps of table {table} cannot have a {index} index on this database"
    hint = "Omit --index: SQLite's index is always a btree."
    table: str
    index: str


class AnchorTooOld(DataLoss, number=6105):
    """Tombstones or stamps from after the anchor were removed."""

    fact = "anchor {anchor} is too old for table {table}, whose changes are known only since CSN {min_valid_csn}"
    hint = "Enumerate without an anchor, which returns a full copy and a new anchor of the same snapshot."
    table: str
    anchor: Anchor
    min_valid_csn: int


class TrackingLost(DataLoss, number=6106):
    """Triggers or columns of tracking were altered: changes may be missing."""

    fact = "tracking of table {table} was lost, detected at {lost_time} UTC: {what}"
    hint = """Run `rowtide tracking resume {table}`, then enumerate it without an anchor: changes since the last anchor
        may be missing."""
    table: str
    lost_time: str
    what: str


class TrackedTableGone(TrackingLost, number=6119):
    """No table has the name of a tracked one: it was dropped or renamed, and cannot be resumed."""

    fact = "tracked table {table} is gone, detected at {lost_time} UTC: {what}"
    hint = """Run `rowtide tracking disable {table}`; a renamed table is tracked under its new name: `rowtide
        tracking enable TABLE`."""


class InvalidTombstoneKey(Invalid, number=6107):
    """Values or text are not a key of the table (SQL Server Compact: ArgumentException)."""

    fact = "{given} is not a key of table {table}: {reason}"
    hint = "Give one value for each column of the key, in the key's order."
    table: str
    given: RowKey
    reason: Said


class TrackedPlanCallsCode(Denied, number=6120):
    """An index, check, statistics or partition key of a tracked table calls a function that the planner runs."""

    fact = "table {table} is not read: the planner would run {function} of another role with the rights of this one"
    hint = """Connect as the owner of the function. Or take the call out of the table's indexes, checks, statistics and
        partition keys; or give it a column, and write the function in PL/pgSQL."""
    table: str
    function: str


class TransactionOpen(RowtideError, number=6109):
    """The connection already has an open transaction."""

    fact = "the connection already has an open transaction"
    hint = "Commit it or roll it back first."


class NoTransaction(RowtideError, number=6110):
    """A transaction's BSN was requested outside a transaction."""

    fact = "no transaction of this ChangeTracking is open"
    hint = "Call this within `with tracking.transaction():`."


class NoDatabaseFound(NotFound, number=6115):
    """A path or pattern matches no file, or none was given."""

    fact = 'no database file matches "{pattern}"'
    hint = """Give URLs, paths of SQLite files, or a pattern such as /data/devices/*.db; check that the folder is
        mounted."""
    pattern: str


class DevicesFailed(RowtideError, number=6116):
    """Some databases could not be enumerated."""

    fact = "{failed} of {devices} databases could not be enumerated: {failures}"
    hint = """Fix the cause and repeat the call, or use keep_going=True: it returns the changes of the other databases,
        and `failures` has the errors. A database without its anchor is copied in full."""
    failed: int
    devices: int
    failures: str


class EnumerationFailed(Retryable, number=6117):
    """Spark itself failed, not a database."""

    fact = "enumerating into {spool} failed in Spark: {reason}"
    hint = """Check that all workers reach the spool, and have the driver's Python version with rowtide installed. No
        anchor was returned: repeat the call."""
    spool: str
    reason: str
