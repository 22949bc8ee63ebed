"""Rows that come from other nodes, written to a SQLite file together with what is to be known of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.keys import SqliteValue
from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.sqlite.texts import from_text, reader
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.changes import Row, TombstoneType, Write
from rowtide.merge.parking import Parked
from rowtide.merge.sqlite.own_columns import encode_own_columns
from rowtide.merge.sqlite.system_tables import CONTENTS, TOMBSTONE, WRITTEN

_METADATA = ("gone", "live", "type", "origin", "priority", "lineage", "last", "colv", "own_columns")


def write(session: sqlite3.Connection, article: Article, writes: Sequence[Write]) -> None:
    """Write rows in the caller's transaction; raises SQLite's own errors.

    They come by a temporary table, and are written by a statement for each operation: one for each row would keep a
    copy of all pages that it touches. Metadata come first: what triggers of the user's do to a row while it is written
    is a change made on top of it.
    """
    staging, stamp = _staging(article), clock.read(session)
    places = [f"v{place}" for place in range(len(article.columns))]
    columns = ("rowguid text primary key", *_METADATA, *places)
    session.execute(f"create temporary table if not exists {staging} ({', '.join(columns)})")
    session.execute(f"delete from {staging}")
    marks = ", ".join("?" * len(columns))
    session.executemany(f"insert into {staging} values ({marks})", _staged(article, writes, stamp))
    if any(one.row is not None for one in writes):
        _write_contents(session, article, staging, stamp)
    if any(one.row is None for one in writes):
        _write_tombstones(session, article, staging, stamp)
    session.execute(f"insert into {WRITTEN} select rowguid from {staging} where live or not gone")
    _write_rows(session, article, staging, writes)
    # An update that changed nothing, or of a row that was taken away by another write's trigger, has passed none.
    session.execute(f"delete from {WRITTEN}")


def park(session: sqlite3.Connection, article: Article, values: Mapping[str, Parked]) -> None:
    """Give rows other values for a moment, in the caller's transaction; raises SQLite's own errors."""
    types = {column.name: column.type_text for column in article.columns}
    for rowguid, parked in values.items():
        settings = ", ".join(f"{quote(name)} = ?" for name in parked)
        session.execute(f"insert into {WRITTEN} values (?)", (rowguid,))
        session.execute(
            f"update {quote(article.table)} set {settings} where {ROWGUID} = ?",
            [*(from_text(text, types[name]) for name, text in parked.items()), rowguid],
        )
    session.execute(f"delete from {WRITTEN}")


def load(session: sqlite3.Connection, article: Article, rows: Iterable[tuple[str, Row]]) -> int:
    """Insert rows, and return how many."""
    names = ", ".join([*(quote(column.name) for column in article.columns), ROWGUID])
    marks = ", ".join("?" * (len(article.columns) + 1))
    statement = f"insert into {quote(article.table)} ({names}) values ({marks})"
    values = _values_of(article)
    return session.executemany(statement, ([*values(row), rowguid] for rowguid, row in rows)).rowcount


def _staging(article: Article) -> str:
    return f"rowtide_in_{article.nickname}"


def _staged(article: Article, writes: Sequence[Write], stamp: int) -> Iterator[tuple[object, ...]]:
    values, nothing = _values_of(article), (None,) * len(article.columns)
    for one in writes:
        row = nothing if one.row is None else values(one.row)
        own = encode_own_columns(article, dict.fromkeys(one.own_columns, stamp)) if one.own_columns else None
        known = (one.tombstone.value, one.origin, one.priority, one.lineage, one.last, one.columns, own)
        yield (one.rowguid, one.row is None, one.is_live, *known, *row)


def _write_contents(session: sqlite3.Connection, article: Article, staging: str, stamp: int) -> None:
    session.execute(
        f"insert or replace into {CONTENTS} "
        f"select {article.nickname}, rowguid, {stamp}, origin, priority, lineage, last, colv, own_columns, null "
        f"from {staging} where not gone"
    )
    _forget(session, TOMBSTONE, article, f"{staging} where not gone")


def _write_tombstones(session: sqlite3.Connection, article: Article, staging: str, stamp: int) -> None:
    session.execute(
        f"insert or replace into {TOMBSTONE} "
        f"select {article.nickname}, rowguid, {stamp}, type, origin, priority, lineage, last "
        f"from {staging} where gone and type <> {TombstoneType.LEFT.value}"
    )
    _forget(session, CONTENTS, article, f"{staging} where gone")


def _forget(session: sqlite3.Connection, table: str, article: Article, source: str) -> None:
    session.execute(
        f"delete from {table} where tablenick = {article.nickname} and rowguid in (select rowguid from {source})"
    )


def _write_rows(session: sqlite3.Connection, article: Article, staging: str, writes: Sequence[Write]) -> None:
    table = quote(article.table)
    if any(one.row is None and one.is_live for one in writes):
        session.execute(f"delete from {table} where {ROWGUID} in (select rowguid from {staging} where gone and live)")
    updated = sum(one.row is not None and one.is_live for one in writes)
    if updated:
        _update(session, article, staging, updated)
    if any(one.row is not None and not one.is_live for one in writes):
        names = ", ".join(quote(column.name) for column in article.columns)
        values = ", ".join(f"v{place}" for place in range(len(article.columns)))
        session.execute(
            f"insert into {table} ({names}, {ROWGUID}) select {values}, rowguid from {staging} "
            "where not live and not gone order by rowguid"
        )


def _update(session: sqlite3.Connection, article: Article, staging: str, rows: int) -> None:
    """Update rows; keys are set for those alone that get other ones, since SQLite moves a row whose key is set."""
    pairs = [(column, quote(column.name), f"i.v{place}") for place, column in enumerate(article.columns)]
    same = " and ".join(
        f"t.{name} collate binary is {value} and typeof(t.{name}) = typeof({value})"
        for column, name, value in pairs
        if column.key_ordinal
    )
    others = [f"{name} = {value}" for column, name, value in pairs if not column.key_ordinal]
    update = (
        f"update {quote(article.table)} as t set {{settings}} from {staging} i "
        f"where t.{ROWGUID} = i.rowguid and i.live and not i.gone and {{condition}}"
    )
    if others:
        rows -= session.execute(update.format(settings=", ".join(others), condition=same)).rowcount
    if rows:
        settings = ", ".join(f"{name} = {value}" for _, name, value in pairs)
        session.execute(update.format(settings=settings, condition=f"not ({same})"))


def _values_of(article: Article) -> Callable[[Row], list[SqliteValue]]:
    """Return what makes a file's values of a row's texts."""
    readers = [reader(column.type_text) for column in article.columns]
    return lambda row: [read(text) for read, text in zip(readers, row, strict=True)]
