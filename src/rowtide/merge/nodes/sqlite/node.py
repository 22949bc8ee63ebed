"""A SQLite file as a node of a merge."""

from __future__ import annotations

from sqlalchemy import Connection

from rowtide.databases.sqlite.connect import FileLimits, open_connection
from rowtide.databases.urls import DatabaseUrl
from rowtide.merge.articles import DeviceLimits
from rowtide.merge.nodes.sqlite.actions import SqliteActions
from rowtide.merge.nodes.sqlite.changes import SqliteChanges
from rowtide.merge.nodes.sqlite.metadata import completing
from rowtide.merge.nodes.sqlite.numbering import SqliteKeys
from rowtide.merge.nodes.sqlite.rows import SqliteRows, SqliteVersions
from rowtide.merge.nodes.sqlite.session import SqliteSession
from rowtide.merge.nodes.sqlite.tables.rebuilt import SqliteRebuiltTables
from rowtide.merge.nodes.sqlite.tables.tables import SqliteTables
from rowtide.merge.nodes.sqlite.writer import SqliteWriter


def open_node(url: str | DatabaseUrl, limits: DeviceLimits | None = None) -> SqliteNode:
    """Open the file that a URL names. Raises `FileNotOpened`, `SqliteTooOld`."""
    of_file = None if limits is None else FileLimits(limits.statement_s, limits.row_bytes)
    return SqliteNode(open_connection(url, of_file), limits)


class SqliteNode(SqliteSession):
    """See `Node`."""

    def __init__(self, connection: Connection, limits: DeviceLimits | None = None) -> None:
        super().__init__(connection, limits)
        self.tables = SqliteTables(self)
        self.rebuilt = SqliteRebuiltTables(self.session)
        self.rows = SqliteRows(self.session)
        self.actions = SqliteActions(self.session)
        self.versions = SqliteVersions(self, self.rows)
        self.writer = SqliteWriter(self, self.rows)
        self.keys = SqliteKeys(self)
        self.changes = SqliteChanges(self)
        try:
            if completing.is_there(self.session):
                self.tables.accept()
        except BaseException:
            self.close()
            raise
