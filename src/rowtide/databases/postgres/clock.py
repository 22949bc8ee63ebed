"""The change clock of a PostgreSQL database: which changes committed after an anchor.

A transaction stamps what it writes with its transaction id (BSN), which it has anyway: this takes no lock and touches
no shared row. Transaction ids do not follow commit order, but a snapshot does. So an anchor is a snapshot, and stamps
that it does not see are new. Commit order (CSN) is assigned when an anchor is taken, to the transactions that are new
since the last one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from uuid import UUID

from sqlalchemy import Connection, text

from rowtide.core.anchors import Anchor, UnknownAnchor
from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.databases.postgres.advisory_locks import CLOCK
from rowtide.databases.postgres.errors import ServerIsStandby
from rowtide.databases.postgres.functions import own_schema
from rowtide.databases.postgres.quoting import quote_literal, statement
from rowtide.databases.postgres.session_settings import require_session

SCHEMA = "rowtide_tracking"
ANCHORS_TABLE = f'{SCHEMA}."__sysAnchors"'
COMMIT_SEQUENCE = f'{SCHEMA}."__sysTxCommitSequence"'
BSN = "(pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint"
"""What a trigger stamps: the id of the top-level transaction."""
CONTEXT_SETTING = "rowtide.tracking_context"
SEEN_SETTING = "rowtide.tracking_seen"
"""The snapshot of the writer's last anchor; like the context, a setting local to the transaction."""

_ANCHOR_COLUMNS = (
    '"__sysId" bigint generated always as identity primary key, "__sysCsn" bigint not null, '
    '"__sysToken" text not null unique, "__sysSnapshot" pg_snapshot not null, "__sysIncarnation" text not null, '
    '"__sysTakenTime" timestamptz not null default now()'
)
_SEQUENCE_COLUMNS = (
    '"__sysTxBsn" bigint primary key, "__sysTxCsn" bigint not null unique, "__sysCommitTime" timestamptz not null'
)
CREATIONS = (
    *own_schema(SCHEMA),
    f"create table if not exists {ANCHORS_TABLE} ({_ANCHOR_COLUMNS})",
    f"create table if not exists {COMMIT_SEQUENCE} ({_SEQUENCE_COLUMNS})",
)
"""The statements that create the clock if it does not exist."""

INCARNATION = """
(select system_identifier::text || '/' || (select oid::text from pg_database where datname = current_database())
 from pg_control_system())
"""
"""Identifies a history of a database: one restored from a dump assigns new transaction ids."""


@frozen
class NumberedCommit:
    """A transaction with its number in commit order."""

    bsn: int
    csn: int

    @property
    def is_out_of_sequence(self) -> bool:
        """Whether its CSN differs from its BSN, and has to be stored."""
        return self.csn != self.bsn


@frozen
class AnchorSnapshot:
    """An anchor with its snapshot in PostgreSQL's text form: xmin:xmax:xid,xid,…"""

    anchor: Anchor
    snapshot: str


def number_commits(ordered: Sequence[int], in_progress: Collection[int], last_csn: int) -> list[NumberedCommit]:
    """Assign CSNs, after the last one, to transactions in commit order.

    The CSN is the BSN unless a transaction that began earlier has not committed yet; then it is the next number.
    """
    # CSNs rise in commit order. A BSN serves as its own CSN, which nothing has to store, only while no lower one is
    # still to commit.
    lowest_to_come = [*accumulate(reversed(ordered), min)][::-1]
    numbered = []
    for bsn, lowest in zip(ordered, lowest_to_come, strict=True):
        is_next = last_csn < bsn == lowest and all(bsn < other for other in in_progress)
        last_csn = bsn if is_next else last_csn + 1
        numbered.append(NumberedCommit(bsn, last_csn))
    return numbered


def in_progress(snapshot: str) -> tuple[int, ...]:
    """Return the transactions that a snapshot lists as in progress."""
    return tuple(int(bsn) for bsn in snapshot.split(":")[2].split(",") if bsn)


def highest_begun(snapshot: str) -> int:
    """Return the highest transaction id assigned when a snapshot was taken."""
    return int(snapshot.split(":")[1]) - 1


def unseen(stamp: str, taken: AnchorSnapshot) -> str:
    """Return the condition that an anchor does not see a stamp, given as an SQL expression."""
    return unseen_by(stamp, taken.snapshot)


def unseen_by(stamp: str, snapshot: str) -> str:
    """Return the condition that a snapshot, in PostgreSQL's text form, does not see a stamp."""
    seen = f"pg_visible_in_snapshot({stamp}::text::xid8, {quote_literal(snapshot)}::pg_snapshot)"
    # A snapshot sees everything below its xmin: the first condition can use an index, the second cannot.
    return f"({stamp} >= {int(snapshot.partition(':')[0])} and not {seen})"


@contextmanager
def taking_anchors(connection: Connection) -> Iterator[None]:
    """Lock the clock, and begin a transaction whose snapshot sees everything committed by then.

    The lock is a session lock, taken before the transaction: otherwise the snapshot would predate the wait. Raises
    `ServerIsStandby`, where a snapshot does not know which transactions are in progress.
    """
    if connection.execute(text("select pg_is_in_recovery()")).scalar():
        raise ServerIsStandby
    require_session(connection.connection.driver_connection)
    # The commit ends the transaction that `execute` began: the next one takes its snapshot after the lock is acquired.
    connection.execute(text(f"select pg_advisory_lock({CLOCK})"))
    connection.commit()
    connection.execution_options(isolation_level="REPEATABLE READ")
    try:
        with connection.begin():
            yield
            failpoint("clock_commit.before")
        failpoint("clock_commit.after")
    finally:
        connection.execute(text(f"select pg_advisory_unlock({CLOCK})"))
        connection.commit()


def stop_anchors(connection: Connection) -> int:
    """Prevent anchors from being taken until the caller's transaction ends; return a CSN above all anchors'."""
    # The same key as the session lock of `taking_anchors`: session locks and transaction locks exclude each other.
    connection.execute(text(f"select pg_advisory_xact_lock({CLOCK})"))
    last = connection.execute(text(f'select max("__sysCsn") from {ANCHORS_TABLE}')).scalar()
    return 0 if last is None else int(last) + 1


def take_anchor(
    connection: Connection, stamps_since: Callable[[AnchorSnapshot], Iterable[int]], *, lowest_csn: int
) -> AnchorSnapshot:
    """Return an anchor of the transaction's snapshot, within `taking_anchors`; its CSN is at least `lowest_csn`.

    `stamps_since` returns the BSNs of stamps that an anchor does not see. If there are none since the last anchor, that
    anchor is returned, if it is high enough, and nothing is written.
    """
    snapshot = str(connection.execute(text("select pg_current_snapshot()::text")).scalar_one())
    last = find_last(connection)
    if last is None:
        # Transactions before the first anchor need no number of their own: later numbers are above all of them.
        return _put_anchor(connection, max(highest_begun(snapshot), lowest_csn), snapshot)
    fresh = list(stamps_since(last))
    if not fresh:
        is_high_enough = last.anchor.csn >= lowest_csn
        return last if is_high_enough else _put_anchor(connection, lowest_csn, snapshot)
    commits = number_commits(_in_commit_order(connection, fresh), in_progress(snapshot), last.anchor.csn)
    recorded = [{"bsn": commit.bsn, "csn": commit.csn} for commit in commits if commit.is_out_of_sequence]
    if recorded:
        connection.execute(text(f"insert into {COMMIT_SEQUENCE} values (:bsn, :csn, now())"), recorded)
    return _put_anchor(connection, max(commits[-1].csn, lowest_csn), snapshot)


def find_anchor_snapshot(connection: Connection, anchor: Anchor) -> AnchorSnapshot:
    """Return an anchor's snapshot. Raises `UnknownAnchor` for one of another history or database."""
    snapshot = connection.execute(
        text(
            f'select "__sysSnapshot"::text from {ANCHORS_TABLE} '
            f'where "__sysCsn" = :csn and "__sysToken" = :token and "__sysIncarnation" = {INCARNATION}'
        ),
        {"csn": anchor.csn, "token": anchor.token},
    ).scalar()
    if snapshot is None:
        raise UnknownAnchor(anchor)
    return AnchorSnapshot(anchor, snapshot)


def renewal(taken: AnchorSnapshot) -> tuple[Anchor, str]:
    """Return an anchor of the same snapshot, and the statement that stores it with the transaction that runs it."""
    return _new_anchor(taken.anchor.csn, taken.snapshot)


def context_setting(context: UUID, seen: AnchorSnapshot | None) -> str:
    """Return the statement that gives the transaction's changes a context.

    A row that others changed after `seen` gets none: a reader that excludes this context would miss their change too.
    """
    snapshot = "" if seen is None else seen.snapshot
    return (
        f"select set_config('{CONTEXT_SETTING}', '{context}', true), "
        f"set_config('{SEEN_SETTING}', {quote_literal(snapshot)}, true)"
    )


def forget_anchors(connection: Connection, below_csn: int) -> None:
    """Remove anchors that every table refuses, in the caller's transaction."""
    connection.execute(text(f'delete from {ANCHORS_TABLE} where "__sysCsn" < :csn'), {"csn": below_csn})


def _in_commit_order(connection: Connection, fresh: Sequence[int]) -> list[int]:
    """Return BSNs in commit order with track_commit_timestamp, else in their own order."""
    # Without commit timestamps the order among transactions new to one anchor is unknown, and does not matter: they get
    # their numbers together, and anchors lie between such groups.
    if connection.execute(text("select current_setting('track_commit_timestamp')")).scalar() != "on":
        return sorted(fresh)
    ordered = text(
        "select bsn from unnest(cast(:fresh as bigint[])) as bsn "
        # The function takes a 32-bit id, without its epoch.
        "order by pg_xact_commit_timestamp((bsn % 4294967296)::text::xid), bsn"
    )
    return list(connection.execute(ordered, {"fresh": list(fresh)}).scalars())


def find_last(connection: Connection) -> AnchorSnapshot | None:
    """Return the last anchor taken in this history of the database; None before the first."""
    row = connection.execute(
        text(
            f'select "__sysCsn", "__sysToken", "__sysSnapshot"::text from {ANCHORS_TABLE} '
            f'where "__sysIncarnation" = {INCARNATION} order by "__sysCsn" desc, "__sysId" limit 1'
        )
    ).one_or_none()
    return None if row is None else AnchorSnapshot(Anchor(row[0], row[1]), row[2])


def _put_anchor(connection: Connection, csn: int, snapshot: str) -> AnchorSnapshot:
    anchor, insertion = _new_anchor(csn, snapshot)
    connection.execute(statement(insertion))
    return AnchorSnapshot(anchor, snapshot)


def _new_anchor(csn: int, snapshot: str) -> tuple[Anchor, str]:
    # The random token makes anchors of a restored copy unknown here, though both databases continue with the same
    # numbers.
    anchor = Anchor(csn, secrets.token_hex(16))
    return anchor, (
        f'insert into {ANCHORS_TABLE} ("__sysCsn", "__sysToken", "__sysSnapshot", "__sysIncarnation") '
        f"values ({anchor.csn}, '{anchor.token}', {quote_literal(snapshot)}::pg_snapshot, {INCARNATION})"
    )
