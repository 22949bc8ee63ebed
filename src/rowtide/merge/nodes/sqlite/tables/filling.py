"""Fill tables and columns of a SQLite node, without metadata."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from rowtide.databases.sqlite.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.errors.rows import NOT_UTF_8, RowsRefused
from rowtide.merge.nodes.sqlite.exact_numbers import keep_exact
from rowtide.merge.nodes.sqlite.rows import values_of
from rowtide.merge.nodes.untyped_values import untyped_places, with_classes_of
from rowtide.merge.versions.changes import Row


def fill(session: sqlite3.Connection, article: Article, rows: Sequence[tuple[str, Row]]) -> None:
    """Write values into the article's columns of rows that exist, in the caller's transaction."""
    settings = ", ".join(f"{quote(column.name)} = ?" for column in article.columns)
    values = values_of(article)
    session.executemany(
        f"update {quote(article.file_table)} set {settings} where {ROWGUID} = ?",
        ([*values(row), rowguid] for rowguid, row in rows),
    )
    keep_exact(session, article, rows)


def load(session: sqlite3.Connection, article: Article, rows: Sequence[tuple[str, Row]]) -> int:
    """Insert rows, and return how many. Raises `RowsRefused`."""
    rows = (
        [(rowguid, with_classes_of(article, row, None)) for rowguid, row in rows] if untyped_places(article) else rows
    )
    names = ", ".join([*(quote(column.name) for column in article.columns), ROWGUID])
    marks = ", ".join("?" * (len(article.columns) + 1))
    statement = f"insert into {quote(article.file_table)} ({names}) values ({marks})"
    inserted, values = _Last(""), values_of(article)
    try:
        loaded = session.executemany(statement, ([*values(row), inserted.row(rowguid)] for rowguid, row in rows))
    except UnicodeError as error:
        raise inserted.refused(article, *NOT_UTF_8) from error
    except sqlite3.IntegrityError as error:
        raise inserted.refused(article, error.sqlite_errorname, str(error)) from error
    keep_exact(session, article, rows)
    return loaded.rowcount


@dataclass(slots=True)
class _Last:
    """The last row that was given to the database, by its rowguid."""

    rowguid: str

    def row(self, rowguid: str) -> str:
        self.rowguid = rowguid
        return rowguid

    def refused(self, article: Article, code: str, reason: str) -> RowsRefused:
        return RowsRefused(article.name, code, f"{reason}; the row has the rowguid {self.rowguid}")
