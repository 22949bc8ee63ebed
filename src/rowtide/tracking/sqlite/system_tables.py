"""Tables of tracking: tombstones, commit sequence, tracked objects."""

from __future__ import annotations

import sqlite3

from rowtide.core.errors import RowtideError
from rowtide.core.formats import FormatNewer, FormatOutdated, FormatUnnumbered, StoreFormat
from rowtide.databases.format_views import Requirement, require
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.connect import path_of
from rowtide.databases.sqlite.guarding import CHANGES, format_creation, guard, read_format, writing
from rowtide.tracking.errors import NothingTracked, NotTracked
from rowtide.tracking.options import StampIndex, Storage, TrackedTable, TrackingKeyType, TrackingOptions

TOMBSTONES = "__sysOCSDeletedRows"
COMMIT_SEQUENCE = "__sysTxCommitSequence"
TRACKED_OBJECTS = "__sysOCSTrackedObjects"
FORMAT = StoreFormat("change tracking of the file")
"""The format of the tables, and of the triggers of the tracked tables."""
FORMAT_VIEW = "__sysFormat"

# The numbers of tombstones rise with their BSN, so that a window is found without an index.
_TOMBSTONE_COLUMNS = (
    "__sysId integer primary key, __sysTN text not null, __sysDeleteTxBsn integer not null, __sysInsertTxBsn integer, "
    "__sysRK text not null, __sysDeletedTime real not null, __sysTrackingContext text"
)
# One program writes at a time, so that no transaction commits out of sequence: nothing is ever in it.
_SEQUENCE_COLUMNS = "__sysTxBsn integer primary key, __sysTxCsn integer not null, __sysCommitTime real not null"
_OBJECT_COLUMNS = (
    "__sysTN text primary key collate nocase, __sysKeyType text not null, __sysOptions integer not null, "
    "__sysStorage text not null, __sysMinValidCsn integer not null, __sysLostTime text"
)
_COLUMNS = {TOMBSTONES: _TOMBSTONE_COLUMNS, COMMIT_SEQUENCE: _SEQUENCE_COLUMNS, TRACKED_OBJECTS: _OBJECT_COLUMNS}


def create_system_tables(connection: sqlite3.Connection) -> None:
    """Create the clock and the tables that do not exist, in the caller's transaction."""
    clock.create(connection)
    for table, columns in _COLUMNS.items():
        connection.execute(f"create table if not exists {table} ({columns})")
    # Tombstones are inserted by triggers, in the statements of programs.
    guard(connection, TOMBSTONES, CHANGES)
    for table in (COMMIT_SEQUENCE, TRACKED_OBJECTS):
        guard(connection, table)
    connection.execute(format_creation(FORMAT_VIEW, FORMAT))


def drop_system_tables(connection: sqlite3.Connection) -> None:
    """Drop all of them, in the caller's transaction."""
    for table in _COLUMNS:
        connection.execute(f"drop table {table}")
    connection.execute(f"drop view if exists {FORMAT_VIEW}")
    clock.drop(connection)


def has_tracked_objects(
    connection: sqlite3.Connection, requirement: Requirement = StoreFormat.require_readable
) -> bool:
    """Whether the catalogue exists; or did, by the tombstones that were made with it: a query says what is missing.

    Raises `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` as `requirement` does for its format.
    """
    statement = "select 1 from main.sqlite_schema where name in (?, ?)"
    if connection.execute(statement, (TRACKED_OBJECTS, TOMBSTONES)).fetchone() is None:
        return False
    require(requirement, FORMAT, path_of(connection), read_format(connection, FORMAT_VIEW))
    return True


def find_refusal(connection: sqlite3.Connection) -> RowtideError | None:
    """Return why this build does not read what is tracked; None if it does."""
    try:
        has_tracked_objects(connection)
    except (FormatNewer, FormatOutdated, FormatUnnumbered) as refusal:
        return refusal
    return None


def require_tracking(connection: sqlite3.Connection) -> None:
    """Raise `NothingTracked` if no table is tracked; as `StoreFormat.require_writable` for another format."""
    if not has_tracked_objects(connection, StoreFormat.require_writable):
        raise NothingTracked


def list_tracked(
    connection: sqlite3.Connection, requirement: Requirement = StoreFormat.require_readable
) -> tuple[TrackedTable, ...]:
    """Return all tracked tables by name. Raises as `requirement` for another format."""
    if not has_tracked_objects(connection, requirement):
        return ()
    rows = connection.execute(
        "select __sysTN, __sysKeyType, __sysOptions, __sysStorage, __sysMinValidCsn, __sysLostTime "
        f"from {TRACKED_OBJECTS} order by __sysTN"
    ).fetchall()
    return tuple(_tracked(*row) for row in rows)


def find_tracked(
    connection: sqlite3.Connection, name: str, requirement: Requirement = StoreFormat.require_readable
) -> TrackedTable | None:
    """Return a tracked table by its name, in any case; None if there is none. Raises as `requirement`."""
    tracked = list_tracked(connection, requirement)
    return next((one for one in tracked if one.name.lower() == name.lower()), None)


def get_tracked(
    connection: sqlite3.Connection, name: str, requirement: Requirement = StoreFormat.require_readable
) -> TrackedTable:
    """Return a tracked table by its name, in any case. Raises `NotTracked`; as `requirement` for another format."""
    tracked = find_tracked(connection, name, requirement)
    if tracked is None:
        raise NotTracked(name)
    return tracked


def put_tracked(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    """Write a tracked table to the catalogue, in the caller's transaction."""
    values = (
        tracked.name,
        tracked.key_type,
        tracked.options.value,
        tracked.storage,
        tracked.min_valid_csn,
        tracked.lost_time,
    )
    with writing(connection):
        connection.execute(f"insert or replace into {TRACKED_OBJECTS} values (?, ?, ?, ?, ?, ?)", values)


def remove_tracked(connection: sqlite3.Connection, name: str) -> None:
    """Remove a table with its tombstones, in the caller's transaction."""
    with writing(connection):
        connection.execute(f"delete from {TRACKED_OBJECTS} where __sysTN = ?", (name,))
        connection.execute(f"delete from {TOMBSTONES} where __sysTN = ?", (name,))


def _tracked(
    name: str, key_type: str, options: int, storage: str, min_valid_csn: int, lost_time: str | None
) -> TrackedTable:
    return TrackedTable(
        name,
        TrackingKeyType(key_type),
        TrackingOptions(options),
        Storage(storage),
        StampIndex.BTREE,
        min_valid_csn,
        lost_time,
    )
