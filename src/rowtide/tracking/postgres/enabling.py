"""Tracking of a PostgreSQL table is enabled, disabled, resumed; each in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Connection

from rowtide.databases.postgres import clock
from rowtide.databases.postgres.catalogue import TableNotFound, find_table, read_table
from rowtide.databases.postgres.quoting import statement
from rowtide.databases.source_table import SourceColumn, SourceTable, TableKind
from rowtide.tracking.errors import (
    NothingToTrack,
    StorageNotOffered,
    TableToTrackNotFound,
    TrackedAlready,
    TrackingKeyMissing,
    TrackingOutdated,
)
from rowtide.tracking.options import Storage, TrackedTable, TrackingKeyType, TrackingOptions
from rowtide.tracking.postgres import system_tables
from rowtide.tracking.postgres.subject import Subject
from rowtide.tracking.postgres.system_tables import (
    FORM,
    get_tracked,
    list_forms,
    list_tracked,
    put_tracked,
    read_table_id,
    remove_tracked,
    set_form,
)
from rowtide.tracking.postgres.triggers import creations, removals, shared_functions, trigger_removals
from rowtide.tracking.postgres.verification import read_signature_now

ROWGUID = "rowguid"
_TRACKABLE = (TableKind.ORDINARY, TableKind.PARTITIONED, TableKind.UNLOGGED)


def enable(
    connection: Connection, name: str, key_type: TrackingKeyType, options: TrackingOptions, storage: Storage
) -> TrackedTable:
    """Track a table from now on, in the caller's transaction.

    Raises `NothingToTrack`, `StorageNotOffered`, `TableToTrackNotFound`, `TrackingKeyMissing`, `TrackedAlready`.
    """
    if not options:
        raise NothingToTrack(name)
    if storage is not Storage.ROW:
        raise StorageNotOffered(name, storage)
    for creation in (*system_tables.CREATIONS, *shared_functions()):
        connection.execute(statement(creation))
    table = _find_trackable(connection, name)
    if any(tracked.name == table.qualified_name for tracked in list_tracked(connection)):
        raise TrackedAlready(table.qualified_name)
    tracked = TrackedTable(table.qualified_name, key_type, options, storage, clock.stop_anchors(connection))
    _set_up(connection, tracked, table)
    return tracked


def disable(connection: Connection, name: str) -> None:
    """End the tracking of a table and remove what it left, in the caller's transaction; with the last, all of tracking.

    Raises `NotTracked`.
    """
    tracked = get_tracked(connection, name)
    _take_down(connection, tracked)
    remove_tracked(connection, tracked.name)
    if not list_tracked(connection):
        connection.execute(statement(f"drop schema {clock.SCHEMA} cascade"))


def resume(connection: Connection, name: str) -> TrackedTable:
    """Track a table again whose tracking was lost, in the caller's transaction: earlier anchors are refused for it.

    Raises as `enable` does.
    """
    tracked = get_tracked(connection, name)
    _take_down(connection, tracked)
    remove_tracked(connection, tracked.name)
    return enable(connection, tracked.name, tracked.key_type, tracked.options, tracked.storage)


def upgrade(connection: Connection) -> tuple[str, ...]:
    """Write the triggers of older versions anew, in the caller's transaction; anchors stay valid. Return the names.

    Raises `TrackingOutdated` where a table is of a newer version.
    """
    forms = list_forms(connection)
    newer = [form for form in forms.values() if form > FORM]
    if newer:
        raise TrackingOutdated(newer[0], FORM)
    older = [name for name, form in forms.items() if form < FORM]
    for name in older:
        set_form(connection, name)
        tracked = get_tracked(connection, name)
        subject = subject_of(connection, tracked)
        for alteration in (*trigger_removals(subject), *shared_functions(), *creations(subject)):
            connection.execute(statement(alteration))
        put_tracked(connection, tracked, subject.table.source_id, read_signature_now(connection, subject.table))
    return tuple(older)


def subject_of(connection: Connection, tracked: TrackedTable) -> Subject:
    """Return a tracked table as it is now; raises `TableNotFound`, `TrackingKeyMissing`."""
    return _subject(read_table(connection, read_table_id(connection, tracked.name)), tracked)


def _subject(table: SourceTable, tracked: TrackedTable) -> Subject:
    key = _KEYS[tracked.key_type](table)
    if not key:
        raise TrackingKeyMissing(table.qualified_name, _KEY_WORDS[tracked.key_type])
    return Subject(table, key, tracked.options)


def _set_up(connection: Connection, tracked: TrackedTable, table: SourceTable) -> None:
    for creation in creations(_subject(table, tracked)):
        connection.execute(statement(creation))
    put_tracked(connection, tracked, table.source_id, read_signature_now(connection, table))


def _take_down(connection: Connection, tracked: TrackedTable) -> None:
    try:
        table = read_table(connection, read_table_id(connection, tracked.name))
    except TableNotFound:
        return  # its triggers went with it
    for removal in removals(Subject(table, (), tracked.options)):
        connection.execute(statement(removal))


def _find_trackable(connection: Connection, name: str) -> SourceTable:
    try:
        table = find_table(connection, name)
    except TableNotFound as error:
        raise TableToTrackNotFound(name) from error
    if table.kind not in _TRACKABLE or table.schema == clock.SCHEMA or table.ancestors:
        raise TableToTrackNotFound(name)
    return table


def _rowguid(table: SourceTable) -> tuple[SourceColumn, ...]:
    """Return the column `rowguid`, if it is there and no two rows can have one value."""
    is_unique = any(
        index.columns == (ROWGUID,) and index.is_unique and index.is_valid and not index.is_partial
        for index in table.indexes
    )
    return tuple(column for column in table.columns if column.name == ROWGUID and is_unique and not column.is_nullable)


_KEY_WORDS = {TrackingKeyType.PRIMARY_KEY: "primary key", TrackingKeyType.ROWGUID: f"unique column {ROWGUID}, not null"}
_KEYS: Mapping[TrackingKeyType, Callable[[SourceTable], tuple[SourceColumn, ...]]] = {
    TrackingKeyType.PRIMARY_KEY: lambda table: table.key_columns,
    TrackingKeyType.ROWGUID: _rowguid,
}
