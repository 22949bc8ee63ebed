"""Fill tables and columns of a SQLite node, without metadata."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from rowtide.databases.sqlite.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
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
    """Insert rows, and return how many."""
    rows = (
        [(rowguid, with_classes_of(article, row, None)) for rowguid, row in rows] if untyped_places(article) else rows
    )
    keep_exact(session, article, rows)
    names = ", ".join([*(quote(column.name) for column in article.columns), ROWGUID])
    marks = ", ".join("?" * (len(article.columns) + 1))
    statement = f"insert into {quote(article.file_table)} ({names}) values ({marks})"
    values = values_of(article)
    return session.executemany(statement, ([*values(row), rowguid] for rowguid, row in rows)).rowcount
