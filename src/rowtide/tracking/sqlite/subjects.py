"""Tracked tables of a SQLite file as they are now: their keys, and where their stamps are stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from rowtide.databases.sqlite.catalogue import Column, Table, find_table
from rowtide.tracking.errors import TableToTrackNotFound, TrackingKeyMissing
from rowtide.tracking.options import TrackedTable, TrackingKeyType
from rowtide.tracking.sqlite.stamps import STAMPS_IN, SqliteStamps
from rowtide.tracking.sqlite.subject import SqliteSubject

ROWGUID = "rowguid"


def subject_of(connection: sqlite3.Connection, tracked: TrackedTable) -> SqliteSubject:
    """Return a tracked table as it is now; raises `TableToTrackNotFound`, `TrackingKeyMissing`."""
    table = get_table(connection, tracked.name)
    return SqliteSubject(table, _key(table, tracked.key_type), tracked.options)


def key_of(table: Table, key_type: TrackingKeyType) -> tuple[Column, ...]:
    """Return the columns of a table's tracking key; empty if it has no such key."""
    return _KEYS[key_type](table)


def stamps_of(subject: SqliteSubject, tracked: TrackedTable) -> SqliteStamps:
    """Return how a table's stamps are stored."""
    return STAMPS_IN[tracked.storage](subject)


def get_table(connection: sqlite3.Connection, name: str) -> Table:
    """Return a table by its name. Raises `TableToTrackNotFound`."""
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
    """Return the column `rowguid`, if it exists and is unique."""
    column = table.find_column(ROWGUID)
    if column is None:
        return ()
    return (column,) if table.has_unique_key(column) else ()


_KEY_WORDS = {TrackingKeyType.PRIMARY_KEY: "primary key", TrackingKeyType.ROWGUID: f"unique column {ROWGUID}"}
_KEYS: Mapping[TrackingKeyType, Callable[[Table], tuple[Column, ...]]] = {
    TrackingKeyType.PRIMARY_KEY: lambda table: table.key_columns,
    TrackingKeyType.ROWGUID: _rowguid,
}
