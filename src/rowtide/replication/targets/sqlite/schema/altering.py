"""Bring a table of a SQLite file through a schema change, in the caller's transaction."""

from __future__ import annotations

import sqlite3

from rowtide.databases.sqlite.catalogue import Column, Table, find_table
from rowtide.databases.sqlite.types import affinity, stored_type
from rowtide.replication.articles.articles import PublishedColumn
from rowtide.replication.articles.schema_changes import (
    ColumnAdded,
    ColumnDropped,
    ColumnRetyped,
    Followed,
    NullsChanged,
    SchemaChange,
    TableRenamed,
)
from rowtide.replication.targets.sqlite import progress
from rowtide.replication.targets.sqlite.schema import alterations, rebuilding


class ChangeNotMade(Exception):
    """SQLite's error for a change; what was changed before is to be rolled back."""

    def __init__(self, change: SchemaChange, error: sqlite3.Error) -> None:
        super().__init__(str(error))
        self.change = change
        self.error = error


def follow(connection: sqlite3.Connection, guid: str, followed: Followed) -> None:
    """Make an article's changes, and record the article for a subscription. Raises `ChangeNotMade`."""
    table = followed.before.table
    for change in followed.changes:
        try:
            _make(connection, table, change)
        except sqlite3.Error as error:
            raise ChangeNotMade(change, error) from error
        table = change.table if isinstance(change, TableRenamed) else table
    progress.record_altered(connection, guid, followed.article)


def _make(connection: sqlite3.Connection, name: str, change: SchemaChange) -> None:
    table = find_table(connection, name)
    if table is None:
        raise sqlite3.OperationalError(f"no such table: {name}")
    match change:
        case ColumnAdded(column):
            own = table.find_column(column.name)
            if own is not None and not _keeps(table, own, column):
                raise sqlite3.IntegrityError(f"the file has its own column {column.name}, which would alter values")
        case ColumnDropped(column) if table.find_column(column.name) is not None:
            rebuilding.drop(connection, table.name, column)
        case ColumnRetyped(column):
            own = table.find_column(column.name)
            if own is not None and not _keeps(table, own, column):
                rebuilding.retype(connection, table.name, column)
        case NullsChanged(column) if column.is_nullable:
            rebuilding.allow_nulls(connection, table.name, column)
        case _:
            pass
    for statement in alterations.alter(table, change):
        connection.execute(statement)


def _keeps(table: Table, own: Column, column: PublishedColumn) -> bool:
    """Whether a column of a table stores a published column's values unchanged."""
    return affinity(own.type_text, is_strict=table.is_strict) in stored_type(column.value_type_text).keeping
