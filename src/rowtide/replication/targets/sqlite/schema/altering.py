"""Bring a table of a SQLite file through a schema change, in the caller's transaction."""

from __future__ import annotations

import sqlite3

from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.types import affinity, stored_type
from rowtide.replication.articles.schema_changes import ColumnAdded, Followed, SchemaChange, TableRenamed
from rowtide.replication.targets.sqlite import progress
from rowtide.replication.targets.sqlite.schema import alterations


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
    columns = () if table is None else table.columns
    is_strict = table is not None and table.is_strict
    present = {column.name.lower(): affinity(column.type_text, is_strict=is_strict) for column in columns}
    if isinstance(change, ColumnAdded):
        own = present.get(change.column.name.lower())
        if own is not None and own not in stored_type(change.column.value_type_text).keeping:
            raise sqlite3.IntegrityError(f"the file has its own column {change.column.name}, which would alter values")
    for statement in alterations.alter(name, present, change):
        connection.execute(statement)
