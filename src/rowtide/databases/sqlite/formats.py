"""The formats of what rowtide keeps in a SQLite file: a view for each feature."""

from __future__ import annotations

import sqlite3

from rowtide.core.formats import Format, StoredFormat
from rowtide.databases.format_views import format_row, parse_definition
from rowtide.databases.sqlite.quoting import quote


def format_creation(view: str, own: Format) -> str:
    """Return the statement that records a format if the file has none of this name."""
    return f"create view if not exists {quote(view)} as {format_row(own)}"


def read_format(connection: sqlite3.Connection, view: str) -> StoredFormat | None:
    """Return the recorded format, from the catalogue; None without one."""
    statement = "select sql from main.sqlite_schema where type = 'view' and name = ?"
    row = connection.execute(statement, (view,)).fetchone()
    return parse_definition(None if row is None else row[0])
