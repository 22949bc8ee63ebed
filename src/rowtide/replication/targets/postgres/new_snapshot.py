"""Prepare a PostgreSQL subscriber for a snapshot: empty tables, and the list of chunks to copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.errors import UnexpectedSqlError, translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.replication.articles import Article
from rowtide.replication.errors import CopyRefused, SubscriberTableConstrained, SubscriberTableExists
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.sync_types import IfExists
from rowtide.replication.targets.new_subscription import NewSnapshot
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.tables import clear_tables, constrain, create_schema, create_table

_Connection = psycopg.Connection[tuple[Any, ...]]


def make_tables(connection: _Connection, articles: Sequence[Article], snapshot: NewSnapshot) -> None:
    """Create the tables, or empty existing ones, in the caller's transaction.

    Raises `SubscriberTableExists`, `SubscriberTableConstrained`, `CopyRefused`.
    """
    present = [article for article in articles if _exists(connection, article)]
    if present and snapshot.if_exists is IfExists.FAIL:
        raise SubscriberTableExists(_name(present[0]))
    is_kept = snapshot.if_exists is not IfExists.DROP
    for article in present if is_kept else ():
        _require_unconstrained(connection, article)
    for statement in clear_tables(present, snapshot.if_exists):
        _run(connection, ", ".join(map(_name, present)), statement)
    for article, details in zip(articles, snapshot.details, strict=True):
        if article not in present or not is_kept:
            _run(connection, _name(article), create_schema(article))
            _run(connection, _name(article), create_table(article, details))


def record_snapshot(connection: _Connection, guid: str, articles: Sequence[Article], snapshot: NewSnapshot) -> None:
    """Record the chunks to copy, and the statements to run afterwards, in the caller's transaction."""
    is_kept = snapshot.if_exists in (IfExists.KEEP, IfExists.DELETE, IfExists.TRUNCATE)
    statements = [] if is_kept else constrain(list(zip(articles, snapshot.details, strict=True)))
    with translated():
        connection.execute(_BEGIN, [SnapshotStatus.COPYING, guid])
        _insert_all(connection, _ADD_STATEMENT, ((guid, place, text) for place, text in enumerate(statements)))
        _insert_all(
            connection,
            _ADD_CHUNK,
            ((guid, chunk.member_id, chunk.number, _array(chunk.low), _array(chunk.high)) for chunk in snapshot.chunks),
        )


def _insert_all(connection: _Connection, statement: str, rows: Iterable[Sequence[object]]) -> None:
    connection.cursor().executemany(statement, list(rows))


def _array(key: Sequence[str] | None) -> list[str] | None:
    return None if key is None else list(key)


def _exists(connection: _Connection, article: Article) -> bool:
    with translated():
        row = connection.execute("select to_regclass(%s)", [quote_qualified(article.schema, article.table)]).fetchone()
    return row is not None and row[0] is not None


def _require_unconstrained(connection: _Connection, article: Article) -> None:
    with translated():
        rows = connection.execute(_CONSTRAINTS, {"table": quote_qualified(article.schema, article.table)}).fetchall()
    if rows:
        raise SubscriberTableConstrained(_name(article), ", ".join(row[0] for row in rows))


def _run(connection: _Connection, table: str, statement: str) -> None:
    try:
        with translated():
            connection.execute(sql.SQL(statement))
    except UnexpectedSqlError as error:
        raise CopyRefused(table, error.sqlstate, error.reason) from error


def _name(article: Article) -> str:
    return f"{article.schema}.{article.table}"


_BEGIN = f'update {SCHEMA}."MSreplication_subscriptions" set snapshot_status = %s where subscription_guid = %s'
_ADD_STATEMENT = (
    f'insert into {SCHEMA}."MSsnapshot_statements" (subscription_guid, place, statement) values (%s, %s, %s)'
)
_ADD_CHUNK = f"""
insert into {SCHEMA}."MSsnapshot_chunks" (subscription_guid, article_id, chunk, low, high) values (%s, %s, %s, %s, %s)
"""

_CONSTRAINTS = """
select case c.contype when 'f' then 'foreign key ' else 'unique constraint ' end || c.conname
from pg_constraint c where c.conrelid = to_regclass(%(table)s) and (
    c.contype in ('u', 'x') or c.contype = 'f' and current_setting('session_replication_role') <> 'replica')
union all
select 'unique index ' || x.relname
from pg_index i join pg_class x on x.oid = i.indexrelid
where i.indrelid = to_regclass(%(table)s) and i.indisunique and not i.indisprimary
  and not exists (select from pg_constraint k where k.conindid = i.indexrelid)
order by 1
"""
