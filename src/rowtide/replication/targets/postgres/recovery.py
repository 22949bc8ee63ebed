"""An agent that starts takes over from earlier ones, and completes the batch that one of them left prepared.

First no earlier agent can decide anything more: its first stream is rolled back where it is prepared, and the epoch is
raised, which needs the row that the first stream of a batch locks. From then on the progress row says which batch was
decided last, and the other streams are waited for and ended accordingly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import psycopg
from psycopg import errors, sql

from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.distribution.delivery_interface import DeliveryProgress
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.subscribing import SubscriberUnprepared
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.connecting import closed_on_error, connect_agent
from rowtide.replication.targets.postgres.progress import (
    PreparedName,
    Settled,
    ask_prepared,
    list_prepared,
    parse_prepared,
    settle,
)

_TABLE = sql.Identifier(SCHEMA, "MSreplication_subscriptions")
_WAIT_S = 1
_Result = TypeVar("_Result")


@frozen
class TakenOver:
    """The connection of an agent that has taken over from earlier ones, in autocommit mode, and what they reached."""

    connection: psycopg.Connection
    progress: DeliveryProgress


def open_agent(subscription: Subscription) -> TakenOver:
    """Connect to a subscription's subscriber, and take over as `take_over`."""
    connection = connect_agent(subscription, "distribution")
    with closed_on_error(connection):
        return TakenOver(connection, take_over(connection, subscription.guid, describe_holder()))


def take_over(connection: psycopg.Connection, guid: str, agent: str) -> DeliveryProgress:
    """Increment the epoch for a starting agent; return it with the progress.

    Replaces procedures of another build first. Waits for running batches of an earlier agent, and completes or
    rolls back what it left prepared. In autocommit mode. Raises `SubscriberUnprepared`, `RightMissing`.
    """
    # Before the epoch is raised: the procedures that refuse batches of earlier agents are this build's then.
    if not progress.is_current(connection):
        if not _has_progress(connection):
            raise SubscriberUnprepared(guid)
        progress.make_current(connection)
    known, _ = _take_over(connection, guid, agent)
    if known is None:
        raise SubscriberUnprepared(guid)
    return known


def recover(connection: psycopg.Connection, agent: str, guid: str | None = None) -> list[Settled]:
    """Complete or roll back what earlier agents left prepared, of a subscription or of all; return that.

    They cannot continue then. Those of subscriptions that are no longer recorded are rolled back. In autocommit mode.
    """
    settled: list[Settled] = []
    for left in sorted({name.batch.guid for name in list_prepared(connection, guid)}):
        if _has_progress(connection):
            settled += _take_over(connection, left, agent)[1]
        else:
            settled += _end(connection, list_prepared(connection, left), decided=None)
    return settled


def recover_unrecorded(connection: psycopg.Connection) -> None:
    """Roll back what agents of subscriptions that are no longer recorded left prepared: it would lock its tables."""
    recorded = progress.list_recorded(connection)
    for name in list_prepared(connection):
        if name.batch.guid not in recorded:
            settle(connection, name, is_committed=False)


def _has_progress(connection: psycopg.Connection) -> bool:
    with translated():
        return progress.is_made(connection)


def _take_over(connection: psycopg.Connection, guid: str, agent: str) -> tuple[DeliveryProgress | None, list[Settled]]:
    settled: list[Settled] = []
    raised: _Raised | None = None
    while raised is None:
        # The commit of the first stream's part is the decision. While that is only prepared, the batch is undecided: it
        # is rolled back, and delivered again.
        first = [name for name in list_prepared(connection, guid) if name.stream == 0]
        settled += [settle(connection, name, is_committed=False) for name in first]
        # A batch may run, and its first stream may be prepared meanwhile: to wait for it would be to wait for ever.
        raised = _unless_locked(lambda: _raise_epoch(connection, guid, agent))
    settled += _end(connection, raised.left, raised.decided)
    is_alone = raised.is_alone
    while not is_alone:
        # A stream beside the first may still run, and be prepared later.
        is_alone = _unless_locked(lambda: _lock(connection, guid)) is not None
        settled += _end(connection, list_prepared(connection, guid), raised.decided)
    return raised.progress, settled


def _end(connection: psycopg.Connection, left: Iterable[PreparedName], decided: str | None) -> list[Settled]:
    """Commit what is prepared of the batch that was decided last, roll back the rest."""
    return [settle(connection, name, is_committed=str(name.batch) == decided) for name in left]


@frozen
class _Raised:
    """The progress with the epoch raised; `is_alone`: no stream of an earlier agent runs, and `left` is what all of
    them have prepared.
    """

    progress: DeliveryProgress | None
    decided: str | None
    is_alone: bool
    left: Sequence[PreparedName]


def _raise_epoch(connection: psycopg.Connection, guid: str, agent: str) -> _Raised:
    """Raise the epoch; waits for the first stream of a batch, and not for those beside it."""
    with _limited(connection):
        # The epoch is the fence: a batch of an earlier agent finds another epoch in this row when it commits, and is
        # refused.
        raising = connection.execute(sql.SQL(_RAISE).format(_TABLE), (agent, guid))
        locking = connection.execute(sql.SQL(f"{_LOCK} skip locked").format(_TABLE), (guid,))
        # Last: once the row is locked, no other stream begins.
        listing = ask_prepared(connection, guid)
    row, left = raising.fetchone(), parse_prepared(listing)
    if row is None:
        return _Raised(None, None, is_alone=True, left=left)
    position, batch, epoch, decided, age_s = row
    reached = DeliveryProgress(Position(position), batch, epoch, age_s if batch else None)
    return _Raised(reached, decided, locking.fetchone() is not None, left)


def _lock(connection: psycopg.Connection, guid: str) -> bool:
    with _limited(connection):
        connection.execute(sql.SQL(_LOCK).format(_TABLE), (guid,))
    return True


@contextmanager
def _limited(connection: psycopg.Connection) -> Iterator[None]:
    """Send statements together, as one transaction; after an error nothing of it is left."""
    try:
        with connection.pipeline():
            # One round trip: each statement that waits for an answer would lengthen the time in which the row is
            # locked.
            connection.execute("begin")
            connection.execute(sql.SQL(f"set local lock_timeout = '{_WAIT_S}s'"))
            yield
            connection.execute("commit")
    except psycopg.Error:
        connection.rollback()
        raise


def _unless_locked(attempt: Callable[[], _Result]) -> _Result | None:
    try:
        return attempt()
    except errors.LockNotAvailable:
        return None
    except psycopg.Error:
        with translated():
            raise


_RAISE = """
update {} set epoch = epoch + 1, agent = %s, streams = 1 where subscription_guid = %s
returning transaction_timestamp, batch, epoch, decided, extract(epoch from clock_timestamp() - "time")::float8
"""
# The update alone would wait for the first stream only, which has locked the row `for no key update`. The other streams
# hold it `for key share` (`sp_MSbeginstream` of `progress`), which conflicts with this lock, and not with an update.
_LOCK = "select 1 from {} where subscription_guid = %s for update"
