"""Enable, disable and resume tracking of a SQLite table, each in the caller's transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from rowtide.core.formats import StoreFormat
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.quoting import quote
from rowtide.tracking.errors import (
    IndexNotOffered,
    NothingToTrack,
    TableToTrackNotFound,
    TrackedAlready,
)
from rowtide.tracking.options import StampIndex, Storage, TrackedTable, TrackingRequest
from rowtide.tracking.sqlite.stamps import removals_of_dropped
from rowtide.tracking.sqlite.subject import SqliteSubject
from rowtide.tracking.sqlite.subjects import get_table, stamps_of, subject_of
from rowtide.tracking.sqlite.system_tables import (
    create_system_tables,
    drop_system_tables,
    find_tracked,
    get_tracked,
    has_tracked_objects,
    list_tracked,
    put_tracked,
    remove_tracked,
)
from rowtide.tracking.sqlite.triggers import find_loss, find_renamed, trigger_names, trigger_statements

_SYSTEM = "__sys"
"""Prefixes of the names of tracking's own tables."""


def enable(connection: sqlite3.Connection, asked: TrackingRequest) -> TrackedTable:
    """Track a table from now on.

    Raises `NothingToTrack`, `IndexNotOffered`, `TableToTrackNotFound`, `TrackingKeyMissing`, `TrackedAlready`,
    `TrackingLost`.
    """
    name, index = asked.table, asked.index or StampIndex.BTREE
    if not asked.options:
        raise NothingToTrack(name)
    if index is not StampIndex.BTREE:
        raise IndexNotOffered(name, index)
    if is_system_name(name):
        raise TableToTrackNotFound(name)
    has_tracked_objects(connection, StoreFormat.require_writable)
    create_system_tables(connection)
    found = find_tracked(connection, name)
    if found is not None:
        raise find_loss(connection, found) or TrackedAlready(name)
    table = get_table(connection, name)
    csn = clock.read(connection)
    tracked = TrackedTable(table.name, asked.key_type, asked.options, asked.storage, index, csn)
    _set_up(connection, tracked)
    return tracked


def disable(connection: sqlite3.Connection, name: str) -> None:
    """Stop tracking a table, and remove tracking's objects; with the last table, all of them.

    So is what was made before formats had numbers. Raises `NotTracked`.
    """
    tracked = get_tracked(connection, name)
    _take_down(connection, tracked)
    remove_tracked(connection, tracked.name)
    if not list_tracked(connection):
        drop_system_tables(connection)


def resume(connection: sqlite3.Connection, name: str) -> TrackedTable:
    """Track a table again after its tracking was lost; earlier anchors are refused. Raises as `enable`."""
    before = get_tracked(connection, name, StoreFormat.require_writable)
    tracked = replace(before, min_valid_csn=clock.read(connection), lost_time=None)
    get_table(connection, tracked.name)
    _drop_triggers(connection, tracked)
    _set_up(connection, tracked)
    return tracked


def is_system_name(name: str) -> bool:
    """Whether a table of this name is, or could be, one of tracking's own."""
    return name.lower().startswith(_SYSTEM)


def _set_up(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    """Create columns and triggers, and end the epoch: later changes are tracked."""
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
    present = find_renamed(connection, tracked)
    _drop_triggers(connection, tracked)
    if find_table(connection, tracked.name) is None:
        for statement in removals_of_dropped(tracked.name):
            connection.execute(statement)
    if present is None or (present != tracked.name and find_tracked(connection, present) is not None):
        present = tracked.name
    table = find_table(connection, present)
    if table is None or (present != tracked.name and tracked.storage is not Storage.ROW):
        return
    for statement in stamps_of(SqliteSubject(table, (), tracked.options), tracked).removals():
        connection.execute(statement)


def _drop_triggers(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    # By their names: a table that was renamed has taken them along.
    for name in trigger_names(tracked.name):
        connection.execute(f"drop trigger if exists {quote(name)}")
