"""The log of users' changes, applied to the metadata of rows at a SQLite node; see `rowtide.merge.versions.apply`.

The stamps of a row's columns are one text: 16 hexadecimal digits per column, in column order. Changes that no trigger
logs are logged here, too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import replace

from rowtide.core.values import frozen
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.sql_text import concatenated, quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.sqlite.metadata.replaced import is_settled, settle, settled_copy
from rowtide.merge.nodes.sqlite.metadata.system_tables import LOG, TABLES
from rowtide.merge.versions.apply import APPLIED, CONTENTS_COLUMNS, TOMBSTONE_COLUMNS, Logged, Tables, apply_lines, keep

_HEX = 16
_NONE = "0" * _HEX


def encode_own_columns(article: Article, stamps: dict[int, int]) -> str:
    """Return stamps of columns as triggers write them."""
    return "".join(f"{stamps.get(index, 0):0{_HEX}x}" for index in range(len(article.columns)))


def moved(kept: Sequence[int]) -> str:
    """Return the expression that has the stamps of the columns at some places alone, in this order."""
    pieces = [f"coalesce(nullif(substr(own_columns, {place * _HEX + 1}, {_HEX}), ''), '{_NONE}')" for place in kept]
    return concatenated(pieces)


def stamped(columns: int) -> str:
    """Return the expression that stamps all columns with the row's own stamp."""
    return concatenated([f"printf('%0{_HEX}x', stamp)"] * columns)


def renewed(changed: Sequence[str]) -> str:
    """Return the expression that stamps columns whose conditions hold with `l.stamp`, and keeps the others."""
    return concatenated(
        [
            f"case when {condition} then printf('%0{_HEX}x', l.stamp) "
            f"else coalesce(nullif(substr(c.own_columns, {index * _HEX + 1}, {_HEX}), ''), '{_NONE}') end"
            for index, condition in enumerate(changed)
        ]
    )


@frozen
class _SqliteDialect:
    generation: int
    tables: Tables = TABLES

    @property
    def stamp(self) -> str:
        return str(self.generation)

    def changed(self, place: int) -> str:
        return f"max(substr(columns, {place + 1}, 1)) = '1'"

    def own_columns(self, changed: Sequence[str]) -> str:
        return renewed(changed)

    @property
    def first_base(self) -> str:
        # The base of the first line: with its number in front, of one length, texts sort as lines do.
        return "substr(min(printf('%020d', rowid) || base), 21)"

    def bases(self, base: str) -> str:
        return f"json_array(json_array(0, {base}))"


def is_logged(session: sqlite3.Connection) -> bool:
    """Whether the log has entries that the session sees."""
    return session.execute(f"select 1 from {LOG} limit 1").fetchone() is not None


def apply_log(session: sqlite3.Connection, articles: Sequence[Article]) -> None:
    """Apply the log in the caller's write transaction: its entries belong to the open generation."""
    settle(session, articles)
    apply_beside(session, articles, clock.read(session))
    for statement in keep(TABLES, [article.nickname for article in articles]):
        session.execute(statement)
    session.execute(f"drop table temp.{APPLIED}")


def apply_beside(session: sqlite3.Connection, articles: Sequence[Article], generation: int) -> None:
    """Apply the log as the caller's snapshot sees it to a temporary table, for this session alone.

    Its changes get the given generation.
    """
    log = LOG if is_settled(session) else settled_copy(session, articles)
    dialect = _SqliteDialect(generation, replace(TABLES, log=log))
    columns = [f"c_{name}" for name in CONTENTS_COLUMNS] + [f"d_{name}" for name in TOMBSTONE_COLUMNS]
    session.execute(
        f"create temporary table {APPLIED} (tablenick integer, rowguid text, is_buried integer, has_contents integer, "
        f"has_tombstone integer, {', '.join(columns)}, primary key (tablenick, rowguid)) without rowid"
    )
    for article in articles:
        session.execute(apply_lines(article, quote(article.file_table), dialect))


def log_own(session: sqlite3.Connection, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
    """Log updates of the rows that have a value in any of some columns, but for those omitted."""
    is_any = " or ".join(f"{quote(name)} is not null" for name in columns)
    changed = "".join(str(int(column.name in columns)) for column in article.columns)
    found = session.execute(f"select {ROWGUID} from {quote(article.file_table)} where {is_any}").fetchall()
    session.executemany(
        f"insert into {LOG} (tablenick, rowguid, kind, columns) values ({article.nickname}, ?, ?, ?)",
        [
            (rowguid, Logged.UPDATED.value, changed if article.column_tracking else None)
            for (rowguid,) in found
            if rowguid not in without
        ],
    )


def log_update(session: sqlite3.Connection, article: Article, rowguid: str) -> bool:
    """Log a row as updated, without any changed column; return whether it exists."""
    table = quote(article.file_table)
    listed = f"select {article.nickname}, {ROWGUID}, {Logged.UPDATED.value} from {table} where {ROWGUID} = ?"
    return session.execute(f"insert into {LOG} (tablenick, rowguid, kind) {listed}", (rowguid,)).rowcount > 0
