"""Tracking of a SQLite table is enabled, disabled, resumed; each in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace

from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.catalogue import Column, Table, find_table
from rowtide.databases.sqlite.connect import write_transaction
from rowtide.databases.sqlite.quoting import quote
from rowtide.tracking.errors import (
    IndexNotOffered,
    NothingToTrack,
    TableToTrackNotFound,
    TrackedAlready,
    TrackingKeyMissing,
    TrackingOutdated,
)
from rowtide.tracking.options import Enabling, StampIndex, TrackedTable, TrackingKeyType
from rowtide.tracking.sqlite.stamps import STAMPS_IN, Stamps, removals_of_dropped
from rowtide.tracking.sqlite.subject import Subject
from rowtide.tracking.sqlite.system_tables import (
    FORM,
    create_system_tables,
    drop_system_tables,
    find_tracked,
    get_tracked,
    list_forms,
    list_tracked,
    put_tracked,
    remove_tracked,
    set_form,
)
from rowtide.tracking.sqlite.triggers import trigger_names, trigger_statements

ROWGUID = "rowguid"
_SYSTEM = "__sys"
"""What the names of tracking's own tables begin with."""


def enable(connection: sqlite3.Connection, asked: Enabling) -> TrackedTable:
    """Track a table from now on.

    Raises `NothingToTrack`, `IndexNotOffered`, `TableToTrackNotFound`, `TrackingKeyMissing`, `TrackedAlready`,
    `FileBusy`.
    """
    name, index = asked.table, asked.index or StampIndex.BTREE
    if not asked.options:
        raise NothingToTrack(name)
    if index is not StampIndex.BTREE:
        raise IndexNotOffered(name, index)
    with write_transaction(connection):
        if is_system_name(name):
            raise TableToTrackNotFound(name)
        create_system_tables(connection)
        if find_tracked(connection, name) is not None:
            raise TrackedAlready(name)
        table = _table(connection, name)
        csn = clock.read(connection)
        tracked = TrackedTable(table.name, asked.key_type, asked.options, asked.storage, index, csn)
        _set_up(connection, tracked)
    return tracked


def disable(connection: sqlite3.Connection, name: str) -> None:
    """End the tracking of a table and remove what it left; with the last table, all of tracking.

    Raises `NotTracked`.
    """
    with write_transaction(connection):
        tracked = get_tracked(connection, name)
        _take_down(connection, tracked)
        remove_tracked(connection, tracked.name)
        if not list_tracked(connection):
            drop_system_tables(connection)


def resume(connection: sqlite3.Connection, name: str) -> TrackedTable:
    """Track a table again whose tracking was lost: anchors from before are refused. Raises as `enable` does."""
    with write_transaction(connection):
        tracked = replace(get_tracked(connection, name), min_valid_csn=clock.read(connection), lost_time=None)
        _table(connection, tracked.name)
        _drop_triggers(connection, tracked)
        _set_up(connection, tracked)
    return tracked


def upgrade(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Write the triggers of older versions anew, in one transaction; anchors stay valid. Return the tables' names.

    Raises `TrackingOutdated` where a table is of a newer version.
    """
    with write_transaction(connection):
        older = [name for name, form in list_forms(connection).items() if form != FORM]
        for name, form in list_forms(connection).items():
            if form > FORM:
                raise TrackingOutdated(form, FORM)
            set_form(connection, name)
        for tracked in [get_tracked(connection, name) for name in older]:
            _drop_triggers(connection, tracked)
            _create_triggers(connection, tracked)
    return tuple(older)


def subject_of(connection: sqlite3.Connection, tracked: TrackedTable) -> Subject:
    """Return a tracked table as it is now; raises `TableToTrackNotFound`, `TrackingKeyMissing`."""
    table = _table(connection, tracked.name)
    return Subject(table, _key(table, tracked.key_type), tracked.options)


def is_system_name(name: str) -> bool:
    """Whether a table of this name is, or could be, tracking's own."""
    return name.lower().startswith(_SYSTEM)


def key_of(table: Table, key_type: TrackingKeyType) -> tuple[Column, ...]:
    """Return the columns that a table is tracked by; empty where it has none for that."""
    return _KEYS[key_type](table)


def stamps_of(subject: Subject, tracked: TrackedTable) -> Stamps:
    """Return where its stamps are."""
    return STAMPS_IN[tracked.storage](subject)


def _set_up(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    """Make columns and triggers, and end the epoch: what comes after it is tracked."""
    for statement in stamps_of(subject_of(connection, tracked), tracked).creations():
        connection.execute(statement)
    _create_triggers(connection, tracked)
    put_tracked(connection, tracked)
    clock.end_epoch(connection)


def _create_triggers(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    subject = subject_of(connection, tracked)
    for statement in trigger_statements(subject, stamps_of(subject, tracked)).values():
        connection.execute(statement)


def _take_down(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    _drop_triggers(connection, tracked)
    table = find_table(connection, tracked.name)
    if table is None:
        removals = removals_of_dropped(tracked.name)
    else:
        removals = stamps_of(Subject(table, (), tracked.options), tracked).removals()
    for statement in removals:
        connection.execute(statement)


def _drop_triggers(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    # By their names: a table that was renamed has taken them along.
    for name in trigger_names(tracked.name):
        connection.execute(f"drop trigger if exists {quote(name)}")


def _table(connection: sqlite3.Connection, name: str) -> Table:
    table = find_table(connection, name)
    if table is None:
        raise TableToTrackNotFound(name)
    return table


def _key(table: Table, key_type: TrackingKeyType) -> tuple[Column, ...]:
    key = key_of(table, key_type)
    if not key:
        raise TrackingKeyMissing(table.name, _KEY_WORDS[key_type])
    return key


def _rowguid(table: Table) -> tuple[Column, ...]:
    """Return the column `rowguid`, if it is there and no two rows can have one value."""
    column = table.find_column(ROWGUID)
    if column is None:
        return ()
    return (column,) if table.has_unique_key(column) else ()


_KEY_WORDS = {TrackingKeyType.PRIMARY_KEY: "primary key", TrackingKeyType.ROWGUID: f"unique column {ROWGUID}"}
_KEYS: Mapping[TrackingKeyType, Callable[[Table], tuple[Column, ...]]] = {
    TrackingKeyType.PRIMARY_KEY: lambda table: table.key_columns,
    TrackingKeyType.ROWGUID: _rowguid,
}
