"""Rows of a SQLite node's tables, by rowguid and by the values of columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from rowtide.databases.sqlite.keys import SqliteValue
from rowtide.databases.sqlite.quoting import quote, quote_literal
from rowtide.databases.sqlite.texts import OF_ANOTHER_CLASS, from_text, reader, value_of_literal
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.sqlite.exact_numbers import read_columns
from rowtide.merge.nodes.sqlite.metadata.row_metadata import READER, read_asked, table_of
from rowtide.merge.versions.changes import Row
from rowtide.merge.versions.identity_ranges import IdentityRange

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
    last, highest = read_numbering(session, article)
    return max(last or 0, highest or 0)


def read_numbering(session: sqlite3.Connection, article: Article) -> tuple[int | None, int | None]:
    """Return the last number that AUTOINCREMENT gave, or saw, and the highest key; None for none."""
    (column,) = article.key_columns
    highest = session.execute(f"select max({quote(column.name)}) from {table_of(article)}").fetchone()[0]
    if session.execute("select 1 from main.sqlite_schema where name = 'sqlite_sequence'").fetchone() is None:
        return None, highest
    counted = f"select max(seq) from sqlite_sequence where name = {quote_literal(article.file_table)} collate nocase"
    return session.execute(counted).fetchone()[0], highest


def set_numbering(session: sqlite3.Connection, article: Article, owned: IdentityRange) -> None:
    """Let AUTOINCREMENT continue with the first number of ranges, unless it is in them."""
    name = quote_literal(article.file_table)
    last, _ = read_numbering(session, article)
    if last is None:
        session.execute(f"insert into sqlite_sequence (name, seq) values ({name}, {owned.begin - 1})")
    elif not owned.has(last):
        session.execute(f"update sqlite_sequence set seq = {owned.begin - 1} where name = {name} collate nocase")


def values_of(article: Article) -> Callable[[Row], list[SqliteValue]]:
    """Return the values of a row in the form that the file stores."""
    readers = [reader(column.type_text) for column in article.columns]
    return lambda row: [
        text if text is None else _value(text, read) if read or text[:1] == OF_ANOTHER_CLASS else text
        for read, text in zip(readers, row, strict=True)
    ]


def _value(text: str, read: Callable[[str], SqliteValue] | None) -> SqliteValue:
    if text[:1] == OF_ANOTHER_CLASS:
        return value_of_literal(text[1:])
    return text if read is None else read(text)
