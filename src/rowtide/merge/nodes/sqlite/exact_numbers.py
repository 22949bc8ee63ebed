"""Texts of numbers that SQLite's numbers cannot represent exactly: `1.10`, twenty digits, minus zero.

A column holds the number, so that the file's SQL compares and sorts it as one: stored as text, `where total > 6` would
not find 10. Its text is kept beside, and counts as long as the column still has that number: what a program writes is
its own. Texts that sort as numbers do could not be calculated with; numbers where they are exact and texts elsewhere
would sort all texts last; a second column beside each would break inserts that name no columns. Reading a numeric
column costs one look-up in an index of a small table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from rowtide.databases.sqlite.sql_text import quote, quote_literal
from rowtide.databases.types.numbers import is_number_of
from rowtide.databases.types.registry import find_type, kind_of
from rowtide.databases.types.value_type import TypeKind
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.versions.changes import Row

EXACT = "MSmerge_exact"
DEFINITION = (
    f"create table if not exists {EXACT} (tablenick integer not null, rowguid text not null, name text not null, "
    "number numeric not null, exact text not null, primary key (tablenick, rowguid, name)) without rowid"
)
_MINUS_ZERO = "-0"


def read_columns(article: Article, row: str) -> list[str]:
    """Return the expressions that read an article's columns of a row: the exact text where there is one."""
    rounded = {place for place, _ in _rounded(article)}
    return [
        _read(article, column.name, row) if index in rounded else f"{row}.{quote(column.name)}"
        for index, column in enumerate(article.columns)
    ]


def keep_exact(session: sqlite3.Connection, article: Article, rows: Iterable[tuple[str, Row]]) -> None:
    """Keep the exact texts of rows, in the caller's transaction."""
    if _rounded(article):
        session.executemany(
            f"insert or replace into {EXACT} values (?, ?, ?, ?, ?)",
            (
                (article.nickname, rowguid, name, text, text)
                for rowguid, row in rows
                for name, text in _exact_texts(article, row)
            ),
        )


def forget_exact(session: sqlite3.Connection, article: Article, source: str) -> None:
    """Remove the texts of rows that a query lists, in the caller's transaction."""
    if _rounded(article):
        session.execute(f"delete from {EXACT} where tablenick = ? and rowguid in ({source})", (article.nickname,))


def forget_exact_of_absent(session: sqlite3.Connection, article: Article) -> None:
    """Remove the texts of rows that no longer exist, in the caller's transaction."""
    absent = f"select rowguid from {EXACT} where tablenick = {article.nickname} except select {ROWGUID} from "
    forget_exact(session, article, absent + quote(article.file_table))


@lru_cache(maxsize=1024)
def _rounded(article: Article) -> Sequence[tuple[int, bool]]:
    """Return the columns whose texts a number may not give back, by position, and whether they are numeric."""
    return [
        (index, kind is TypeKind.NUMERIC)
        for index, kind in enumerate(kind_of(column.type_text) for column in article.columns)
        if kind in (TypeKind.FLOAT, TypeKind.NUMERIC)
    ]


def _exact_texts(article: Article, row: Row) -> Iterator[tuple[str, str]]:
    for place, numeric in _rounded(article):
        text, column = row[place], article.columns[place]
        modifiers = find_type(column.type_text).modifiers
        if text is not None and (not is_number_of(text, modifiers) if numeric else text == _MINUS_ZERO):
            yield column.name, text


def _read(article: Article, name: str, row: str) -> str:
    value = f"{row}.{quote(name)}"
    return (
        f"coalesce((select e.exact from {EXACT} e where e.tablenick = {article.nickname} "
        f"and e.rowguid = {row}.{ROWGUID} and e.name = {quote_literal(name)} and e.number is {value}), {value})"
    )
