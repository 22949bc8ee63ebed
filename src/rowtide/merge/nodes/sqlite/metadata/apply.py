"""Apply the log of users' changes to the metadata of rows, on SQLite; see `rowtide.merge.versions.apply`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.quoting import quote
from rowtide.merge.articles import Article
from rowtide.merge.nodes.sqlite.metadata.own_columns import renewed
from rowtide.merge.nodes.sqlite.metadata.replaced import is_settled, settle, settled_copy
from rowtide.merge.nodes.sqlite.metadata.system_tables import LOG, TABLES
from rowtide.merge.versions.apply import APPLIED, CONTENTS_COLUMNS, TOMBSTONE_COLUMNS, Tables, apply_lines, keep


@dataclass(frozen=True, slots=True)
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
