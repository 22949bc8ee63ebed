"""The log of users' changes, applied to the metadata of rows at a PostgreSQL node; see `rowtide.merge.versions.apply`.

Changes that no trigger logs are logged here, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.values import frozen
from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.postgres.metadata.row_metadata import Session, escaped, table_of, uuid_array
from rowtide.merge.nodes.postgres.metadata.system_tables import LOG, TABLES
from rowtide.merge.versions.apply import APPLIED, Logged, Tables, apply_lines, keep

_COLUMNS = (
    "tablenick int, rowguid uuid, is_buried boolean, has_contents boolean, has_tombstone boolean, c_stamp bigint, "
    "c_origin bigint, c_priority double precision, c_lineage bytea, c_last bytea, c_colv bytea, "
    "c_own_columns bigint[], c_bases text, d_stamp bigint, d_origin bigint, d_priority double precision, "
    "d_lineage bytea, d_last bytea, d_type smallint"
)


@frozen
class _PostgresDialect:
    tables: Tables = TABLES

    @property
    def stamp(self) -> str:
        # What a generation has seen is applied when it is closed: all lines that are left are of the open one.
        return "max(stamp)"

    def changed(self, place: int) -> str:
        return f"coalesce(bool_or(columns[{place + 1}]), false)"

    def own_columns(self, changed: Sequence[str]) -> str:
        stamps = (
            f"case when {condition} then l.stamp else c.own_columns[{index}] end"
            for index, condition in enumerate(changed, 1)
        )
        return f"array[{', '.join(stamps)}]"

    @property
    def first_base(self) -> str:
        return "(array_agg(base order by ordinal) filter (where base is not null))[1]"

    def bases(self, base: str) -> str:
        return f"jsonb_build_array(jsonb_build_array(0, {base}))::text"


_DIALECT = _PostgresDialect()


def is_logged(session: Session) -> bool:
    """Whether the log has entries that the session sees; false if there is no log."""
    if session.execute(sql.SQL("select 1 from pg_class where oid = to_regclass(%s)"), [LOG]).fetchone() is None:
        return False
    return session.execute(sql.SQL(f"select 1 from {LOG} limit 1")).fetchone() is not None


def apply_statements(articles: Sequence[Article]) -> list[str]:
    """Return the statements that apply the log of articles as the caller's transaction sees it, but for emptying it."""
    *kept, _ = keep(TABLES, [article.nickname for article in articles])
    return [*_beside_statements(articles), *kept]


def emptying(articles: Sequence[Article]) -> str:
    """Return the statement that removes the log entries of articles, once they are applied."""
    listed = ", ".join(str(article.nickname) for article in articles) or "null"
    return f"delete from {LOG} where tablenick in ({listed})"


def apply_log(session: Session, articles: Sequence[Article]) -> int:
    """Apply the log as the caller's transaction sees it, in one snapshot; return the number of entries."""
    apply_beside(session, articles)
    lines = 0
    for statement in keep(TABLES, [article.nickname for article in articles]):
        lines = session.execute(sql.SQL(statement)).rowcount
    return lines


def tidy(session: Session) -> None:
    """Vacuum and analyze the tables, outside of transactions: plans stay right, and the log's space is reused."""
    # To give pages back, vacuum would lock the table against the triggers of programs.
    session.execute(sql.SQL(f"vacuum (truncate false, skip_locked) {LOG}"))
    session.execute(sql.SQL(f"analyze (skip_locked) {TABLES.contents}, {TABLES.tombstone}"))


def looking_again(articles: Sequence[Article]) -> str:
    """Return the statement that analyzes joined tables that the planner believes empty, for outside of transactions.

    Join conditions are the user's own: the planner chooses how to evaluate them.
    """
    joined = {name for each in articles for join in each.join_filters for name in (each.name, join.parent)}
    tables = ", ".join(f"to_regclass({quote_literal(table_of(each))})" for each in articles if each.name in joined)
    body = (
        "declare name text; begin for name in select oid::regclass::text from pg_class "
        f"where oid = any (array[{tables}]::oid[]) and reltuples = 0 and pg_relation_size(oid) > 0 "
        "loop execute 'analyze (skip_locked) ' || name; end loop; end"
    )
    return f"do {quote_body(body)}"


def apply_beside(session: Session, articles: Iterable[Article]) -> None:
    """Apply the log as seen by the caller's transaction to temporary tables, for this session alone."""
    for statement in _beside_statements(articles):
        session.execute(sql.SQL(statement))


def _beside_statements(articles: Iterable[Article]) -> list[str]:
    return [
        f"create temporary table if not exists {APPLIED} ({_COLUMNS}) on commit delete rows",
        f"truncate {APPLIED}",
        *(apply_lines(article, table_of(article), _DIALECT) for article in articles),
        # Autovacuum does not see temporary tables: the planner would assume a size of its own.
        f"analyze {APPLIED}",
    ]


def log_update(session: psycopg.Connection[tuple[Any, ...]], article: Article, rowguid: str) -> bool:
    """Log a row as updated, without any changed column; return whether it exists."""
    listed = (
        f"select {article.nickname}, {ROWGUID}, {Logged.UPDATED.value}, (select {BSN}) "
        f"from {escaped(table_of(article))} where {ROWGUID}::text = %s"
    )
    statement = sql.SQL(f"insert into {LOG} (tablenick, rowguid, kind, stamp) {listed}")
    return session.execute(statement, [rowguid]).rowcount > 0


def log_own(
    session: psycopg.Connection[tuple[Any, ...]], article: Article, columns: Sequence[str], without: Collection[str]
) -> None:
    """Log updates of the rows that have a value in any of some columns, but for those omitted."""
    is_any = " or ".join(f"{quote(name)} is not null" for name in columns)
    changed = ", ".join(str(column.name in columns).lower() for column in article.columns)
    tracked = f"array[{changed}]" if article.column_tracking else "null::boolean[]"
    session.execute(
        sql.SQL(
            f"insert into {LOG} (tablenick, rowguid, kind, stamp, columns) "
            f"select {article.nickname}, {ROWGUID}, {Logged.UPDATED.value}, (select {BSN}), {tracked} "
            f"from {escaped(f'{table_of(article)} where ({is_any})')} and {ROWGUID} <> all (%s::uuid[])"
        ),
        [uuid_array(list(without))],
    )
