"""A SQLite file as a node of a merge, and the numbers of new rows there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from rowtide.databases.sqlite.connect import FileLimits, open_connection
from rowtide.databases.sqlite.sql_text import quote, quote_literal
from rowtide.databases.urls import DatabaseUrl
from rowtide.merge.articles import Article, DeviceLimits
from rowtide.merge.identity_range_policy import IdentityRange, Numbering
from rowtide.merge.nodes.sqlite.changes import SqliteChanges
from rowtide.merge.nodes.sqlite.foreign_key_actions import SqliteActions
from rowtide.merge.nodes.sqlite.key_moves import renumber
from rowtide.merge.nodes.sqlite.metadata import node_form
from rowtide.merge.nodes.sqlite.metadata.row_metadata import table_of
from rowtide.merge.nodes.sqlite.rows import SqliteRows, SqliteVersions
from rowtide.merge.nodes.sqlite.session import SqliteSession
from rowtide.merge.nodes.sqlite.tables.rebuilt_tables import SqliteRebuiltTables
from rowtide.merge.nodes.sqlite.tables.tables import SqliteTables
from rowtide.merge.nodes.sqlite.writer import SqliteWriter


class SqliteKeys:
    """See `NumberedKeys`."""

    numbers_above_all = True

    def __init__(self, node: SqliteSession) -> None:
        self._node = node
        self._session = node.session

    def next_keys(self, article: Article, count: int) -> Sequence[str]:
        last, highest = self._read_numbering(article)
        above = max(last or 0, highest or 0)
        return [str(above + number) for number in range(1, count + 1)]

    def read_numbering(self, articles: Sequence[Article]) -> Mapping[int, Numbering]:
        found = {article.nickname: self._read_numbering(article) for article in articles}
        return {nickname: Numbering(last, highest, follows_highest=True) for nickname, (last, highest) in found.items()}

    def set_numbering(self, article: Article, owned: IdentityRange) -> None:
        name = quote_literal(article.file_table)
        last, _ = self._read_numbering(article)
        if last is None:
            self._session.execute(f"insert into sqlite_sequence (name, seq) values ({name}, {owned.begin - 1})")
        elif not owned.has(last):
            self._session.execute(
                f"update sqlite_sequence set seq = {owned.begin - 1} where name = {name} collate nocase"
            )

    def renumber(self, article: Article, keys: Mapping[str, str]) -> None:
        with self._node.refusing(article.name):
            renumber(self._session, article, keys)

    def _read_numbering(self, article: Article) -> tuple[int | None, int | None]:
        """Return the last number that AUTOINCREMENT gave, or saw, and the highest key; None for none."""
        (column,) = article.key_columns
        highest = self._session.execute(f"select max({quote(column.name)}) from {table_of(article)}").fetchone()[0]
        if self._session.execute("select 1 from main.sqlite_schema where name = 'sqlite_sequence'").fetchone() is None:
            return None, highest
        counted = (
            f"select max(seq) from sqlite_sequence where name = {quote_literal(article.file_table)} collate nocase"
        )
        return self._session.execute(counted).fetchone()[0], highest


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
            if node_form.is_there(self.session):
                self.tables.accept()
        except BaseException:
            self.close()
            raise
