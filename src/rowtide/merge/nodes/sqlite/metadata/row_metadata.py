"""Metadata of rows at a SQLite node: read, and written from the log of users' changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import methodcaller
from typing import Any

from rowtide.core.values import frozen
from rowtide.databases.sqlite.sql_text import quote
from rowtide.databases.sqlite.values import OF_ANOTHER_CLASS, TEXT, reader, to_text
from rowtide.databases.types.value_type import SqliteValue
from rowtide.merge.articles import ROWGUID, Article, ArticleReference
from rowtide.merge.nodes.sqlite.exact_numbers import read_columns
from rowtide.merge.nodes.sqlite.metadata.log_application import moved, stamped
from rowtide.merge.nodes.sqlite.metadata.system_tables import CONTENTS, TABLES, TOMBSTONE
from rowtide.merge.partitions.belonging import FilterDialect
from rowtide.merge.versions import checked_metadata
from rowtide.merge.versions.apply import Tables
from rowtide.merge.versions.changes import Row
from rowtide.merge.versions.comparison import in_all_columns, move_columns
from rowtide.merge.versions.stored_metadata import Contents, Tombstone

decode = methodcaller("decode", "utf-8", "surrogateescape")
"""Decodes a text that a program stored, valid or not: a node that receives an invalid one refuses its row."""


def table_of(article: Article) -> str:
    """Return the quoted name of an article's table."""
    return quote(article.file_table)


FILTERING = FilterDialect(TABLES, table_of)


@frozen
class SqliteReader:
    """See `RowMetadataDialect`."""

    tables: Tables = TABLES
    asked: str = "select value as rowguid from json_each(?)"
    listing: str = "json_group_array({})"

    def table_of(self, article: Article) -> str:
        return table_of(article)

    def columns_of(self, article: Article) -> Sequence[str]:
        return read_columns(article, "t")

    def contents(self, values: Sequence[Any]) -> Contents:
        stamp, origin, priority, lineage, last, columns, own_columns, bases = values
        return Contents(
            checked_metadata.read_version(stamp),
            checked_metadata.read_origin(origin),
            checked_metadata.read_priority(priority),
            checked_metadata.read_lineage(lineage),
            checked_metadata.read_last(last),
            checked_metadata.read_columns(columns),
            checked_metadata.read_own_columns(own_columns),
            checked_metadata.read_bases(bases),
        )

    def tombstone(self, values: Sequence[Any]) -> Tombstone:
        stamp, origin, priority, lineage, last, kind = values
        return Tombstone(
            checked_metadata.read_version(stamp),
            checked_metadata.read_origin(origin),
            checked_metadata.read_priority(priority),
            checked_metadata.read_lineage(lineage),
            checked_metadata.read_last(last),
            checked_metadata.read_tombstone_type(kind),
        )

    def values(self, article: Article, values: Sequence[SqliteValue]) -> Row:
        types = _types(article)
        row = tuple(
            [
                value if value is None or (not kind and isinstance(value, str)) else to_text(value, kind or TEXT)
                for value, kind in zip(values, types, strict=True)
            ]
        )
        # Checking all texts together is faster than checking each.
        if OF_ANOTHER_CLASS not in "".join(filter(None, row)):
            return row
        return tuple([to_text(value, kind or TEXT) for value, kind in zip(values, types, strict=True)])

    def parent_of(self, reference: ArticleReference, parent: Article) -> str:
        # The parent's column comes first: as in the foreign key, its collation counts.
        pairs = zip(reference.parent_columns, reference.columns, strict=True)
        same = " and ".join(f"p.{quote(referenced)} = t.{quote(column)}" for referenced, column in pairs)
        return f"(select p.{ROWGUID} from {table_of(parent)} p where {same})"


@lru_cache(maxsize=1024)
def _types(article: Article) -> Sequence[str]:
    """Return the type of each column; empty for those whose values are texts."""
    return ["" if reader(column.type_text) is None else column.type_text for column in article.columns]


READER = SqliteReader()


def read_asked(session: sqlite3.Connection, query: str, rowguids: Sequence[str]) -> list[Any]:
    """Return the result of a query of rows listed by rowguid."""
    return session.execute(query, (json.dumps(list(rowguids)),)).fetchall()


_TABLES = (CONTENTS, TOMBSTONE)


def move_columns_of(session: sqlite3.Connection, before: Article, after: Article) -> None:
    """Move what is known of rows' columns to the places of another definition; see `RowVersions.redefine`."""
    kept = after.indexes_in(before)
    of_table = f"where tablenick = {after.nickname}"
    if not before.column_tracking:
        own = f"set own_columns = {stamped(len(after.columns))}"
        session.execute(f"update {CONTENTS} {own} {of_table} and origin is null")
        found = session.execute(f"select distinct last from {CONTENTS} {of_table} and origin is not null").fetchall()
        session.executemany(
            f"update {CONTENTS} set colv = ? {of_table} and origin is not null and last = ?",
            [(in_all_columns(bytes(last), len(after.columns)), last) for (last,) in found],
        )
    elif kept != list(range(len(before.columns))):
        own = f"set own_columns = {moved(kept)}"
        session.execute(f"update {CONTENTS} {own} {of_table} and own_columns is not null")
        found = session.execute(f"select distinct colv from {CONTENTS} {of_table} and colv is not null").fetchall()
        # Marked as moved, so that none is moved twice.
        session.executemany(
            f"update {CONTENTS} set colv = ? {of_table} and colv = ?",
            [(b"-" + move_columns(bytes(known), kept), known) for (known,) in found],
        )
        session.execute(f"update {CONTENTS} set colv = cast(substr(colv, 2) as blob) {of_table} and colv is not null")


def lineages(session: sqlite3.Connection, nickname: int, generation: int) -> Iterator[bytes]:
    """Yield the distinct lineages of a table's metadata up to a generation."""
    for table in _TABLES:
        distinct = f"select distinct lineage from {table} where tablenick = ? and stamp <= ? and lineage is not null"
        for (lineage,) in session.execute(distinct, (nickname, generation)).fetchall():
            yield bytes(lineage)


# `delete` has a limit only in builds of SQLite that ask for it.
def forget(session: sqlite3.Connection, nickname: int, generation: int, most: int) -> int:
    """Remove a table's metadata up to a generation, in batches, and return how many rows."""
    return sum(
        session.execute(
            f"delete from {table} where tablenick = ?1 and rowguid in "
            f"(select rowguid from {table} where tablenick = ?1 and stamp <= ?2 limit ?3)",
            (nickname, generation, most),
        ).rowcount
        for table in _TABLES
    )
