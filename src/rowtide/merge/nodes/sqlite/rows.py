"""Rows of a SQLite node's tables, by rowguid and by the values of columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from rowtide.databases.sqlite.quoting import quote, quote_literal
from rowtide.databases.sqlite.texts import from_text
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.sqlite.exact_numbers import read_columns
from rowtide.merge.nodes.sqlite.row_metadata import READER, read_asked, table_of
from rowtide.merge.versions.changes import Row

_CHUNK = 200
"""How many keys one query has, each with all its columns' values as parameters."""


def read_rows(session: sqlite3.Connection, article: Article, rowguids: Sequence[str]) -> dict[str, Row]:
    """Return those of the rows that exist, by rowguid."""
    names = ", ".join([ROWGUID, *read_columns(article, "t")])
    query = f"select {names} from {table_of(article)} t where {ROWGUID} in (select value from json_each(?))"
    return {row[0]: READER.values(article, row[1:]) for row in read_asked(session, query, rowguids)}


def find_key_holder(session: sqlite3.Connection, article: Article, row: Row) -> str | None:
    """Return the local row with the same primary key as a received row; see `Node.find_key_holder`."""
    values = {column.name: value for column, value in zip(article.columns, row, strict=True)}
    same = " and ".join(f"{quote(column.name)} = ?" for column in article.key_columns)
    statement = f"select {ROWGUID} from {quote(article.file_table)} where {same}"
    key = [from_text(values[column.name], column.type_text) for column in article.key_columns]
    found = session.execute(statement, key).fetchone()
    return None if found is None else str(found[0])


def read_referencing(
    session: sqlite3.Connection, article: Article, columns: Sequence[str], keys: Sequence[Row]
) -> dict[str, Row]:
    """Return an article's rows with one of some keys; see `Node.read_referencing`."""
    types = {column.name: column.type_text for column in article.columns}
    names = ", ".join([ROWGUID, *read_columns(article, "t")])
    same = " and ".join(f"t.{quote(name)} = ?" for name in columns)
    found: dict[str, Row] = {}
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start : start + _CHUNK]
        condition = " or ".join(f"({same})" for _ in chunk)
        values = [from_text(text, types[name]) for key in chunk for name, text in zip(columns, key, strict=True)]
        query = f"select {names} from {table_of(article)} t where {condition}"
        found |= {row[0]: READER.values(article, row[1:]) for row in session.execute(query, values).fetchall()}
    return found


def highest_key(session: sqlite3.Connection, article: Article) -> int:
    """Return the highest number that the one column of a primary key has, or had with AUTOINCREMENT."""
    (column,) = article.key_columns
    query = f"select coalesce(max({quote(column.name)}), 0) from {table_of(article)}"
    highest = int(session.execute(query).fetchone()[0])
    if session.execute("select 1 from main.sqlite_schema where name = 'sqlite_sequence'").fetchone() is None:
        return highest
    counted = f"select seq from sqlite_sequence where name = {quote_literal(article.file_table)}"
    return max([highest, *(int(seq) for (seq,) in session.execute(counted))])
