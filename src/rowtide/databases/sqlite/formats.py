"""The formats of what rowtide keeps in a SQLite file: a view for each feature."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from rowtide.core.formats import PresentStore, StoredFormat, StoreFormat
from rowtide.databases.format_views import format_row, parse_definition
from rowtide.databases.sqlite.catalogue import has_table
from rowtide.databases.sqlite.connect import open_url, path_of
from rowtide.databases.sqlite.errors import translated
from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.urls import DatabaseUrl


def format_creation(view: str, own: StoreFormat) -> str:
    """Return the statement that records a format if the file has none of this name."""
    return f"create view if not exists {quote(view)} as {format_row(own.recorded)}"


def read_format(connection: sqlite3.Connection, view: str) -> StoredFormat | None:
    """Return the recorded format, from the catalogue; None without one."""
    statement = "select sql from main.sqlite_schema where type = 'view' and name = ?"
    row = connection.execute(statement, (view,)).fetchone()
    return parse_definition(None if row is None else row[0])


def raise_format(connection: sqlite3.Connection, view: str, recorded: StoredFormat) -> None:
    """Record a later format in the transaction of the migration's step."""
    connection.execute(f"drop view {quote(view)}")
    connection.execute(f"create view {quote(view)} as {format_row(recorded)}")


def find_store(url: str | DatabaseUrl, own: StoreFormat, view: str, table: str) -> PresentStore | None:
    """Return what a feature keeps in a file with its format, None if the file lacks a table of the feature's.

    Steps begin transactions in connections of their own. Raises `FileNotOpened`, `SqliteTooOld`.
    """
    with closing(open_url(url)) as connection, translated(path := path_of(connection)):
        if not has_table(connection, table):
            return None
        return PresentStore(own, path, read_format(connection, view), partial(_changing, url))


@contextmanager
def _changing(url: str | DatabaseUrl) -> Iterator[sqlite3.Connection]:
    """Yield a file in one transaction, which is committed at the end."""
    with closing(open_url(url)) as connection, translated(path_of(connection)):
        connection.execute("begin immediate")
        yield connection
        connection.execute("commit")
