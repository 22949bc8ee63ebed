"""Rows that come from other nodes, written to a SQLite file together with what is to be known of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence

from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.keys import SqliteValue
from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.sqlite.texts import from_text, reader
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.changes import Row, TombstoneType, Write
from rowtide.merge.parking import Parked
from rowtide.merge.sqlite.own_columns import encode_own_columns
from rowtide.merge.sqlite.system_tables import CONTENTS, TOMBSTONE, WRITTEN


def write(session: sqlite3.Connection, article: Article, writes: Sequence[Write]) -> None:
    """Write rows in the caller's transaction; raises SQLite's own errors.

    Metadata come first: what triggers of the user's do to a row while it is written is a change made on top of it.
    """
    live = [write for write in writes if write.row is not None]
    gone = [write for write in writes if write.row is None]
    stamp = clock.read(session)
    _write_contents(session, article, live, stamp)
    _write_tombstones(session, article, gone, stamp)
    touched = [(write.rowguid,) for write in writes if write.row is not None or write.is_live]
    session.executemany(f"insert into {WRITTEN} values (?)", touched)
    table = quote(article.table)
    session.executemany(f"delete from {table} where {ROWGUID} = ?", [(w.rowguid,) for w in gone if w.is_live])
    _update(session, article, [write for write in live if write.is_live])
    load(session, article, ((w.rowguid, w.row) for w in live if not w.is_live and w.row is not None))
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


def _update(session: sqlite3.Connection, article: Article, writes: Sequence[Write]) -> None:
    """Update rows; keys are set for those alone that get other ones, since SQLite moves a row whose key is set."""
    columns = [(column, quote(column.name), f"?{number}") for number, column in enumerate(article.columns, 1)]
    same = " and ".join(
        f"{name} collate binary is {mark} and typeof({name}) = typeof({mark})"
        for column, name, mark in columns
        if column.key_ordinal
    )
    others = [f"{name} = {mark}" for column, name, mark in columns if not column.key_ordinal]
    update = f"update {quote(article.table)} set {{settings}} where {ROWGUID} = ?{len(columns) + 1} and {{condition}}"
    parameters = _parameters(article, writes)
    updated = 0
    if others:
        updated = session.executemany(update.format(settings=", ".join(others), condition=same), parameters).rowcount
    if updated < len(parameters):
        settings = ", ".join(f"{name} = {mark}" for _, name, mark in columns)
        session.executemany(update.format(settings=settings, condition=f"not ({same})"), parameters)


def _write_contents(session: sqlite3.Connection, article: Article, live: Sequence[Write], stamp: int) -> None:
    session.executemany(
        f"insert or replace into {CONTENTS} values ({article.nickname}, ?, ?, ?, ?, ?, ?, ?, ?, null)",
        [
            (w.rowguid, stamp, w.origin, w.priority, w.lineage, w.last, w.columns, _own_columns(article, w, stamp))
            for w in live
        ],
    )
    _forget(session, TOMBSTONE, article, live)


def _write_tombstones(session: sqlite3.Connection, article: Article, gone: Sequence[Write], stamp: int) -> None:
    session.executemany(
        f"insert or replace into {TOMBSTONE} values ({article.nickname}, ?, ?, ?, ?, ?, ?, ?)",
        [
            (w.rowguid, stamp, w.tombstone.value, w.origin, w.priority, w.lineage, w.last)
            for w in gone
            if w.tombstone is not TombstoneType.LEFT
        ],
    )
    _forget(session, CONTENTS, article, gone)


def _forget(session: sqlite3.Connection, table: str, article: Article, writes: Sequence[Write]) -> None:
    session.executemany(
        f"delete from {table} where tablenick = {article.nickname} and rowguid = ?", [(w.rowguid,) for w in writes]
    )


def _own_columns(article: Article, write: Write, stamp: int) -> str | None:
    return encode_own_columns(article, dict.fromkeys(write.own_columns, stamp)) if write.own_columns else None


def _parameters(article: Article, writes: Iterable[Write]) -> list[list[SqliteValue]]:
    values = _values_of(article)
    return [[*values(write.row), write.rowguid] for write in writes if write.row is not None]


def _values_of(article: Article) -> Callable[[Row], list[SqliteValue]]:
    """Return what makes a file's values of a row's texts."""
    readers = [reader(column.type_text) for column in article.columns]
    return lambda row: [read(text) for read, text in zip(readers, row, strict=True)]
