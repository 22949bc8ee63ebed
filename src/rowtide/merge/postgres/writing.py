"""Rows that come from other nodes, written to a PostgreSQL table together with what is to be known of them.

They are copied to a temporary table of the columns' own types, so that a value is read as the type reads it, and then
written by a statement for each operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.changes import Row, TombstoneType, Write
from rowtide.merge.parking import Parked
from rowtide.merge.postgres.known import table_of
from rowtide.merge.postgres.system_tables import CONTENTS, TOMBSTONE

Session = psycopg.Connection[tuple[Any, ...]]

_METADATA = (
    "null::uuid as rowtide_guid, null::boolean as rowtide_gone, null::boolean as rowtide_live, "
    "null::smallint as rowtide_type, null::bigint as rowtide_origin, null::float8 as rowtide_priority, "
    "null::bytea as rowtide_lineage, null::bytea as rowtide_last, null::bytea as rowtide_colv, "
    "null::bigint[] as rowtide_own"
)
_KEPT = "origin = excluded.origin, priority = excluded.priority, lineage = excluded.lineage, last = excluded.last"


def make_staging(session: Session, article: Article) -> None:
    """Make the temporary table of an article, in the caller's transaction, where it is not there."""
    columns = "".join(f", t.{quote(column.name)} as v{place}" for place, column in enumerate(article.columns))
    _run(
        session,
        f"create temporary table if not exists {_staging(article)} on commit delete rows as "
        f"select {_METADATA}{columns} from {table_of(article)} t with no data",
    )


def write(session: Session, article: Article, writes: Sequence[Write], updated: Sequence[str]) -> None:
    """Write rows in the caller's transaction; raises the server's errors. `updated` are the columns that updates set.

    Metadata come first: what triggers of the user's do to a row while it is written is a change made on top of it.
    """
    staging, stamp = _staging(article), _stamp(session)
    _run(session, f"delete from {staging}")
    with session.cursor().copy(sql.SQL(f"copy {staging} from stdin")) as copy:
        for one in writes:
            copy.write_row(_staged(article, one, stamp))
    if any(one.row is not None for one in writes):
        _write_contents(session, article, stamp)
    if any(one.row is None for one in writes):
        _write_tombstones(session, article, stamp)
    _write_rows(session, article, writes, updated)


def park(session: Session, article: Article, values: Mapping[str, Parked]) -> None:
    """Give rows other values for a moment, in the caller's transaction; raises the server's errors."""
    types = {column.name: column.type_text for column in article.columns}
    for rowguid, parked in values.items():
        settings = ", ".join(f"{quote(name)} = %s::{types[name]}" for name in parked)
        update = f"update {table_of(article)} set {settings} where {ROWGUID} = %s::uuid"
        session.execute(sql.SQL(update), [*parked.values(), rowguid])


def load(session: Session, article: Article, batches: Iterable[Sequence[tuple[str, Row]]]) -> int:
    """Copy rows into a table, in the caller's transaction, and return how many."""
    rows = 0
    names = ", ".join([*(quote(column.name) for column in article.columns), ROWGUID])
    with session.cursor().copy(sql.SQL(f"copy {table_of(article)} ({names}) from stdin")) as copy:
        for batch in batches:
            rows += len(batch)
            for rowguid, row in batch:
                copy.write_row((*row, rowguid))
    return rows


def find_updated(session: Session, article: Article) -> list[str]:
    """Return the columns that an update may set: not those that are always given by the server."""
    always = "select attname from pg_attribute where attrelid = %s::regclass and attidentity = 'a'"
    refused = {name for (name,) in session.execute(always, [table_of(article)])}
    return [column.name for column in article.columns if column.name not in refused]


def _staging(article: Article) -> str:
    return quote(f"rowtide_in_{article.nickname}")


def _those(article: Article, condition: str) -> str:
    """Return the condition on a row that it is one of those that have come.

    With this, beside a join too, it looks them up by rowguid whatever it believes of the table; see `system_tables`.
    """
    return f"{ROWGUID} = any (array(select rowtide_guid from {_staging(article)} where {condition}))"


def _stamp(session: Session) -> int:
    row = session.execute("select pg_current_xact_id()::text").fetchone()
    assert row is not None
    return int(row[0])


def _staged(article: Article, one: Write, stamp: int) -> tuple[object, ...]:
    own = [stamp if place in one.own_columns else None for place in range(len(article.columns))]
    return (
        one.rowguid,
        one.row is None,
        one.is_live,
        one.tombstone.value,
        one.origin,
        one.priority,
        one.lineage,
        one.last,
        one.columns,
        own if one.own_columns else None,
        *(one.row or (None,) * len(article.columns)),
    )


def _write_contents(session: Session, article: Article, stamp: int) -> None:
    _run(
        session,
        f"insert into {CONTENTS} (tablenick, rowguid, stamp, origin, priority, lineage, last, colv, own_columns) "
        f"select {article.nickname}, rowtide_guid, {stamp}, rowtide_origin, rowtide_priority, rowtide_lineage, "
        f"rowtide_last, rowtide_colv, rowtide_own from {_staging(article)} where not rowtide_gone "
        f"on conflict (tablenick, rowguid) do update set stamp = excluded.stamp, {_KEPT}, colv = excluded.colv, "
        "own_columns = excluded.own_columns, bases = null",
    )
    _run(session, _forgetting(article, TOMBSTONE, "not rowtide_gone"))


def _write_tombstones(session: Session, article: Article, stamp: int) -> None:
    _run(
        session,
        f"insert into {TOMBSTONE} (tablenick, rowguid, stamp, type, origin, priority, lineage, last) "
        f"select {article.nickname}, rowtide_guid, {stamp}, rowtide_type, rowtide_origin, rowtide_priority, "
        f"rowtide_lineage, rowtide_last from {_staging(article)} "
        f"where rowtide_gone and rowtide_type <> {TombstoneType.LEFT.value} "
        f"on conflict (tablenick, rowguid) do update set stamp = excluded.stamp, type = excluded.type, {_KEPT}",
    )
    _run(session, _forgetting(article, CONTENTS, "rowtide_gone"))


def _forgetting(article: Article, table: str, condition: str) -> str:
    return f"delete from {table} where tablenick = {article.nickname} and {_those(article, condition)}"


def _write_rows(session: Session, article: Article, writes: Sequence[Write], updated: Sequence[str]) -> None:
    table, staging = table_of(article), _staging(article)
    names = [quote(column.name) for column in article.columns]
    values = [f"v{place}" for place in range(len(names))]
    if any(one.row is None and one.is_live for one in writes):
        _run(session, f"delete from {table} where {_those(article, 'rowtide_gone')}")
    if any(one.row is not None and one.is_live for one in writes):
        settings = ", ".join(
            f"{quote(column.name)} = i.v{place}"
            for place, column in enumerate(article.columns)
            if column.name in updated
        )
        _run(
            session,
            f"update {table} t set {settings} from {staging} i where t.{ROWGUID} = i.rowtide_guid "
            f"and t.{_those(article, 'rowtide_live and not rowtide_gone')}",
        )
    if any(one.row is not None and not one.is_live for one in writes):
        _run(
            session,
            f"insert into {table} ({', '.join([*names, ROWGUID])}) overriding system value "
            f"select {', '.join([*values, 'rowtide_guid'])} from {staging} "
            "where not rowtide_live and not rowtide_gone",
        )


def _run(session: Session, statement: str) -> None:
    session.execute(sql.SQL(statement))
