"""Conflicts at a PostgreSQL subscriber: when and where rows were changed last, and the conflicts that are kept.

Each of the publisher's transactions is one at the subscriber, with the publisher's commit time and the subscription's
replication origin: `track_commit_timestamp` keeps both for every row.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from rowtide.core.lsn import CommitLsn
from rowtide.core.redaction import redact, shown_key
from rowtide.core.values import frozen
from rowtide.databases.postgres.clock import INCARNATION
from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles.articles import Article
from rowtide.replication.conflict_decisions import DECIDED, ConflictState, ConflictWinner, KeptConflict, ListedConflicts
from rowtide.replication.conflicts import ConflictKind, PresentRow, Resolution, Version
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.conflicts import ClockSkewed, CommitTimesNotKept, OriginNeeded
from rowtide.replication.targets.postgres import delivery_marks
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.conflicts import former_values, released_values, statements
from rowtide.replication.targets.postgres.conflicts.statements import UniqueIndex
from rowtide.replication.targets.postgres.connecting import connect

_MOST_SKEW_US = 5_000_000
"""How far the publisher's clock may be ahead; the subscriber waits up to this long until a commit's time has passed."""
_FORGET_S = 60.0
_PATIENCE_S = 2.0

_Connection = psycopg.Connection[tuple[Any, ...]]


def require_commit_times(connection: _Connection, database: str) -> None:
    """Raise `CommitTimesNotKept` if a database's server does not keep commit times."""
    with translated():
        if connection.execute("select current_setting('track_commit_timestamp')").fetchone() != ("on",):
            raise CommitTimesNotKept(database)


class Versions:
    """Reads the versions of rows, and gives the transactions of a session theirs."""

    def __init__(self, connection: _Connection, subscription: Subscription) -> None:
        """Raise `CommitTimesNotKept`, `OriginNeeded`."""
        require_commit_times(connection, subscription.subscriber)
        # A session that copied may be about to end.
        reason = delivery_marks.mark_session(connection, subscription.guid, patience_s=_PATIENCE_S)
        if reason is not None:
            raise OriginNeeded(subscription.subscriber, reason)
        self._connection = connection
        self._raw = statements.open_cursor(connection)
        self._subscription = subscription
        with translated():
            (self._here,) = connection.execute(f"select {INCARNATION}").fetchall()[0]
            connection.execute(_BEGIN_CONFIRMING, (subscription.guid,))
        self._originators = self._read_originators()
        self._publisher = delivery_marks.read_originator(connection, subscription.guid)
        self._incoming: Version | None = None
        self._next_forgetting = 0.0

    def begin(self, committed_us: int | None) -> Version | None:
        """Give the transaction the commit time of the publisher's, once it has passed here; return its version.

        Later changes here then have later times. None: the transaction changes no rows. Raises `ClockSkewed`.
        """
        self._incoming = None
        if committed_us is None:
            with translated():
                self._connection.execute("select pg_replication_origin_xact_reset()")
            return None
        self._wait_until(committed_us)
        with translated():
            self._raw.execute(_SET_TIME, [committed_us])
        self._incoming = Version(committed_us, self._publisher)
        return self._incoming

    def end(self) -> None:
        """Record, in the transaction, that all earlier ones of the publisher are there."""
        if self._incoming is None:
            return
        with translated():
            self._raw.execute(_CONFIRM, [self._subscription.guid, self._incoming.committed_us])

    def forget_deleted(self) -> None:
        """Periodically purge records of deleted keys that are older than any change still to arrive."""
        if time.monotonic() >= self._next_forgetting:
            self._next_forgetting = time.monotonic() + _FORGET_S
            with translated():
                self._connection.execute(former_values.FORGET_DELETED)
                self._connection.execute(released_values.FORGET_RELEASED)

    def read(self, found: list[int | None] | None) -> Version | None:
        """Return a version as statements return it; None if it is not known."""
        if found is None or found[0] is None:
            return None
        number = found[1] or 0
        if number not in self._originators:
            self._originators = self._read_originators()
        return Version(found[0], self._originators.get(number, ""))

    def find_deleted(self, article: Article, row: Sequence[str | None]) -> Version | None:
        """Return when a row's key, or all rows, were deleted last; None if it is not known."""
        return self._find_last(former_values.find_deleted(article), [list(row)])

    def find_emptied(self, article: Article) -> Version | None:
        """Return when all rows were deleted last; None if it is not known."""
        return self._find_last(former_values.find_all(article), [])

    def find_released(
        self, article: Article, uniques: Sequence[UniqueIndex], row: Sequence[str | None]
    ) -> Version | None:
        """Return the last version that had one of a row's unique values and has it no longer."""
        if not uniques:
            return None
        with translated():
            rows = self._raw.execute(released_values.find_released(article, uniques), [list(row)]).fetchall()
        return max((version for (found,) in rows if (version := self.read(found)) is not None), default=None)

    def _find_last(self, query: str, given: Sequence[Sequence[str | None]]) -> Version | None:
        with translated():
            rows = self._raw.execute(query, given).fetchall()
        known = (
            self.read(found) if committed_us is None else Version(committed_us, originator or "")
            for found, committed_us, originator in rows
        )
        return max((version for version in known if version is not None), default=None)

    def _wait_until(self, committed_us: int) -> None:
        while True:
            with translated():
                ((now_us,),) = self._connection.execute(_NOW).fetchall()
            ahead_us = committed_us - now_us
            if ahead_us < 0:
                return
            if ahead_us > _MOST_SKEW_US:
                raise ClockSkewed(self._subscription.subscriber, ahead_us / 1_000_000)
            time.sleep((ahead_us + 1) / 1_000_000)

    def _read_originators(self) -> dict[int, str]:
        """Return the databases that replication origins stand for; 0 is this one."""
        with translated():
            rows = self._connection.execute(_ORIGINATORS).fetchall()
        return {0: self._here, **dict(rows)}


_NOW = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
# The time becomes that of the commit, which the server keeps with the row's version. The LSN is not used: progress is
# in the subscriber's own table.
_SET_TIME = """
select pg_replication_origin_xact_setup('0/0', timestamptz 'epoch' + $1::bigint * interval '1 microsecond')
"""
_BEGIN_CONFIRMING = f"""
update {SCHEMA}."MSorigins" set confirmed_at = '-infinity' where subscription_guid = %s and confirmed_at is null
"""
# Commit times may go back from one transaction of the publisher to the next; what is confirmed does not.
_CONFIRM = f"""
update {SCHEMA}."MSorigins"
set confirmed_at = greatest(confirmed_at, timestamptz 'epoch' + $2::bigint * interval '1 microsecond')
where subscription_guid = $1
"""
_ORIGINATORS = f"""
select r.roident::bigint, coalesce(o.originator, r.roname)
from pg_replication_origin r
left join {SCHEMA}."MSorigins" o on r.roname = '{delivery_marks.ORIGIN_PREFIX}' || o.subscription_guid
"""


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
    f"""
alter table {SCHEMA}."MSconflicts"
    add column if not exists winner text, add column if not exists settled_at timestamptz,
    add column if not exists settled_by text, add column if not exists left_rows jsonb
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


def list_kept(subscription: Subscription, known: ListedConflicts | None) -> ListedConflicts:
    """Return the conflicts of a subscription: those that are known if nothing changed. Raises `ConnectionFailed`."""
    url, publication = subscription.subscriber, subscription.publication
    with connect(url, application_name="rowtide subscription") as connection, translated():
        if connection.execute(_IS_MADE).fetchone() != (True,):
            return ListedConflicts()
        # Before the rows: of what is kept in between, the mark is older, and it is read again.
        mark = connection.execute(_MARK, (subscription.guid,)).fetchall()[0]
        if known is not None and known.mark == mark:
            return known
        cursor = connection.cursor(row_factory=dict_row)
        rows = cursor.execute(_LIST, (subscription.guid,)).fetchall()
    return ListedConflicts(mark, tuple(_as_kept(row, publication, redact(url)) for row in rows))


def _as_kept(row: Mapping[str, Any], publication: str, subscriber: str) -> KeptConflict:
    return KeptConflict(
        publication=publication,
        subscriber=subscriber,
        conflict_id=str(row["id"]),
        article=row["table_name"],
        xact_seqno=str(CommitLsn(row["xact_seqno"])),
        state=ConflictState.SETTLED if row["is_settled"] else ConflictState.OPEN,
        **{name: row[name] for name in _AS_KEPT},
    )


_AS_KEPT = (
    "logged_at",
    "kind",
    "resolution",
    "operation",
    "command_id",
    "old_row",
    "new_row",
    "present_rows",
    "commit_time",
    "present_times",
    "winner",
    "settled_by",
    "settled_at",
)
"""Fields of a conflict that are columns of the same names."""


def find_decision(connection: psycopg.Connection, guid: str, lsn: int, command_id: int) -> Resolution | None:
    """Return what a person decided about a change that has stopped the subscription; None if nobody did."""
    with translated():
        row = connection.execute(_FIND_DECISION, (guid, lsn, command_id)).fetchone()
    return None if row is None else DECIDED[ConflictWinner(row[0])]


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
# A row that is settled has another xmin. The columns of decisions are not read: see `_LIST`.
_MARK = sql.SQL(f"""
select count(*), coalesce(max(id), 0), coalesce(sum(xmin::text::bigint), 0)::bigint
from {SCHEMA}."MSconflicts" where subscription_guid = %s
""")
_LIST = sql.SQL(f"""
select c.id, c.logged_at, c.table_name, c.kind, c.resolution, c.operation, c.xact_seqno, c.command_id,
       c.old_row::text as old_row, c.new_row::text as new_row, c.present_rows::text as present_rows, c.commit_time,
       c.present_times::text as present_times,
       settled.winner is not null or c.resolution = 'stopped' and exists (
           select from {SCHEMA}."MSconflicts" o
           where o.subscription_guid = c.subscription_guid and o.xact_seqno = c.xact_seqno
               and o.command_id = c.command_id and o.resolution <> 'stopped') as is_settled,
       settled.winner, settled.settled_by, settled.settled_at
from {SCHEMA}."MSconflicts" c
-- A subscriber that no agent of this build has opened lacks these columns.
cross join lateral jsonb_to_record(to_jsonb(c)) settled (winner text, settled_by text, settled_at timestamptz)
where c.subscription_guid = %s order by c.id desc
""")
_FIND_DECISION = sql.SQL(f"""
select winner from {SCHEMA}."MSconflicts"
where subscription_guid = %s and xact_seqno = %s and command_id = %s and resolution = 'stopped' and winner is not null
""")
