"""The conflicts that a PostgreSQL subscriber has kept (SQL Server: conflict_<schema>_<table>)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.lsn import CommitLsn
from rowtide.core.row_values import shown_key
from rowtide.core.secrets import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.replication.conflicts import ConflictKind, PresentRow, Resolution
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.subscriber_kind import KeptConflict

RETENTION_DAYS = 14
"""As long as SQL Server's merge keeps its conflicts."""

OBJECTS = (
    f"""
create table if not exists {SCHEMA}."MSconflicts" (
    id bigint generated always as identity primary key,
    subscription_guid text not null, logged_at timestamptz not null default clock_timestamp(),
    kind text not null, resolution text not null, table_name text not null, operation text not null,
    xact_seqno bigint not null, command_id bigint not null,
    old_row jsonb, new_row jsonb, present_rows jsonb not null,
    commit_time timestamptz, present_times jsonb not null)
""",
    f"""
create unique index if not exists "MSconflicts_place"
on {SCHEMA}."MSconflicts" (subscription_guid, xact_seqno, command_id, resolution)
""",
)
"""The statements that create the table of conflicts."""

Row = Mapping[str, str | None]


@frozen
class DeliveryConflict:
    """A conflict, as it is kept: the delivered rows before and after the change, and those that were there."""

    kind: ConflictKind
    resolution: Resolution
    table: str
    operation: str
    lsn: int
    command_id: int
    old_row: Row | None
    new_row: Row | None
    present: Sequence[tuple[Row, PresentRow]]
    committed_us: int | None


def keep(connection: psycopg.Connection, guid: str, conflict: DeliveryConflict) -> None:
    """Keep a conflict, in the connection's transaction; one that stops the agent again is kept once."""
    rows = [_shown(row) for row, _ in conflict.present]
    versions = [present.version for _, present in conflict.present]
    times = [None if version is None else [version.committed_us, version.originator] for version in versions]
    values = (
        guid,
        conflict.kind,
        conflict.resolution,
        conflict.table,
        conflict.operation,
        conflict.lsn,
        conflict.command_id,
        _json(conflict.old_row),
        _json(conflict.new_row),
        json.dumps(rows, ensure_ascii=False),
        conflict.committed_us,
        json.dumps(times),
    )
    with translated():
        connection.execute(_KEEP, values)


def forget_old(connection: psycopg.Connection) -> None:
    """Delete the conflicts that are older than their retention."""
    with translated():
        connection.execute(_FORGET, (RETENTION_DAYS,))


def list_kept(subscription: Subscription) -> Sequence[KeptConflict]:
    """Return the conflicts of a subscription, newest first. Raises `ConnectionFailed`."""
    url, publication = subscription.subscriber, subscription.publication
    with connect(url, application_name="rowtide subscription") as connection, translated():
        if connection.execute(_IS_MADE).fetchone() != (True,):
            return ()
        rows: list[tuple[Any, ...]] = connection.execute(_LIST, (subscription.guid,)).fetchall()
    return [
        KeptConflict(logged_at, publication, redact(url), article, kind, done, operation, str(CommitLsn(lsn)), *others)
        for logged_at, article, kind, done, operation, lsn, *others in rows
    ]


def _json(row: Row | None) -> str | None:
    return None if row is None else json.dumps(_shown(row), ensure_ascii=False)


def _shown(row: Row) -> Row:
    return {name: None if value is None else shown_key(value) for name, value in row.items()}


_KEEP = sql.SQL(f"""
insert into {SCHEMA}."MSconflicts" (
    subscription_guid, kind, resolution, table_name, operation, xact_seqno, command_id, old_row, new_row, present_rows,
    commit_time, present_times)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, to_timestamp(%s::bigint / 1000000.0), %s)
on conflict do nothing
""")
_FORGET = sql.SQL(f'delete from {SCHEMA}."MSconflicts" where logged_at < now() - make_interval(days => %s)')
_IS_MADE = f"select to_regclass('{SCHEMA}.\"MSconflicts\"') is not null"
_LIST = sql.SQL(f"""
select logged_at, table_name, kind, resolution, operation, xact_seqno, command_id, old_row::text, new_row::text,
       present_rows::text, commit_time, present_times::text
from {SCHEMA}."MSconflicts" where subscription_guid = %s order by id desc
""")
