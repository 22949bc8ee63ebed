"""The streams of a subscription, as one: what is prepared in all of them is committed, or nothing.

They are opened together, in threads of their own, while the first batch for them is read. Each is a connection that
prepares its part of a batch or rolls it back.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import NoReturn

import psycopg
from psycopg import sql

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.databases.postgres.errors import ConnectionFailed, find_outage, translated
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.ordered import OrderedCalls
from rowtide.replication.distribution.delivery_interface import BatchUndone, CallNotStorable, DeliveryProgress
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import AgentReplaced, BatchRefused
from rowtide.replication.targets.postgres.connecting import closed_on_error, connect_agent
from rowtide.replication.targets.postgres.delivery.deadlock_watch import is_deadlocked
from rowtide.replication.targets.postgres.delivery.pipeline import FailedStatement
from rowtide.replication.targets.postgres.delivery.sender import Sender
from rowtide.replication.targets.postgres.delivery.single_connection import set_origin
from rowtide.replication.targets.postgres.delivery.table_relations import SetPlan
from rowtide.replication.targets.postgres.progress import BatchName, PreparedName
from rowtide.replication.targets.postgres.writing_rights import open_written

LOCK_TIMEOUT_S = 5
_CALLS_BETWEEN_LOOKS = 256
"""Calls after which a stream looks whether it is to stop."""
_GONE = "42704"
_REFUSALS = (RowtideError, BatchUndone, CallNotStorable)


class Stream:
    """A connection to the subscriber; used by one thread at a time, except for `stop`."""

    def __init__(self, connection: psycopg.Connection, sender: Sender, subscription: Subscription) -> None:
        self.process_id = connection.info.backend_pid
        self._connection = connection
        self._subscriber = subscription.subscriber
        self._guid = subscription.guid.encode()
        self._sender = sender
        self._is_stopped = threading.Event()
        self._prepared: PreparedName | None = None
        self.has_begun = False
        """Whether a part of a batch is running, which is neither prepared nor rolled back."""

    def begin(self, known: DeliveryProgress, *, is_first: bool) -> None:
        """Begin a part of a batch, the first stream's or another's."""
        self._is_stopped.clear()
        self.has_begun = True
        self._sender.begin_stream(self._guid, known, is_first=is_first, lock_timeout_s=LOCK_TIMEOUT_S)

    def add(self, calls: OrderedCalls) -> None:
        """Send calls, at once or before `prepare` returns. Raises as `prepare`."""
        try:
            self._sender.send(calls)
        except _REFUSALS as error:
            self._undo_after(error)

    def flush(self) -> None:
        """Wait until all calls so far have run. Raises as `prepare`."""
        try:
            self._sender.finish()
            self._sender.synchronize()
        except _REFUSALS as error:
            self._undo_after(error)

    def prepare(self, share: Sequence[OrderedCalls], name: PreparedName, reached: Position) -> None:
        """Run the last calls, and prepare the part for commit, under a name; the first stream moves the progress too.

        Raises `BatchUndone` if the part is rolled back, `AgentReplaced`, `ConnectionFailed`.
        """
        try:
            self._run(share)
            self._sender.prepare(self._guid, name, reached)
        except _REFUSALS as error:
            self._undo_after(error)
        self.has_begun, self._prepared = False, name

    def _undo_after(self, error: Exception) -> NoReturn:
        """Roll back what the server has not rolled back itself, and say that the batch is undone if it can continue."""
        self.has_begun = False
        match error:
            case ConnectionFailed() | AgentReplaced() | BatchUndone():
                raise error
            case CallNotStorable():
                # Rolled back already. On one connection it is found again, and its article suspended.
                raise BatchUndone from error
            case _:
                self._sender.roll_back()
                raise BatchUndone from error

    def cancel(self) -> None:
        """Let what runs in another thread end as soon as it can, at the latest after a wait for a lock."""
        self._is_stopped.set()

    def stop(self) -> None:
        """End what runs in another thread, as an error does; without effect if nothing does."""
        self.cancel()
        with translated():
            self._connection.cancel_safe()

    def roll_back(self) -> None:
        """Roll back what has begun or is prepared, if anything is."""
        if self.has_begun:
            self.has_begun = False
            self._sender.roll_back()
        name, self._prepared = self._prepared, None
        if name is not None:
            # Gone if an agent that takes over has rolled it back: that is what was wanted.
            self._require(self._sender.end_prepared(name.rolls_back), or_gone=True)

    def decide(self) -> None:
        """Commit the part of a batch's first stream. Raises `AgentReplaced` if another agent has rolled it back."""
        failpoint("stream_decision.before")
        self._commit(or_gone=False)
        failpoint("stream_decision.after")

    def commit(self) -> None:
        """Commit the part of another stream, of a batch that is decided."""
        failpoint("stream_commit.before")
        self._commit(or_gone=True)
        failpoint("stream_commit.after")

    def close(self) -> None:
        """Close the connection; what is not prepared is rolled back."""
        self._sender.close()

    def _run(self, share: Sequence[OrderedCalls]) -> None:
        for calls in share:
            for start in range(0, len(calls), _CALLS_BETWEEN_LOOKS):
                if self._is_stopped.is_set():
                    self._sender.roll_back()
                    raise BatchUndone
                self._sender.send(calls.between(start, start + _CALLS_BETWEEN_LOOKS))
        self._sender.finish()

    def _commit(self, *, or_gone: bool) -> None:
        name, self._prepared = self._prepared, None
        assert name is not None
        self._require(self._sender.end_prepared(name.commits), or_gone=or_gone)

    def _require(self, refused: FailedStatement | None, *, or_gone: bool) -> None:
        if refused is None or (or_gone and refused.sqlstate == _GONE):
            # A process that recovered the batch meanwhile has done the same.
            return
        # The first part is gone without this process having ended it, so an agent that took over has rolled it back.
        if refused.sqlstate == _GONE:
            raise AgentReplaced(self._subscriber, refused.message)
        raise find_outage(refused.sqlstate, refused.message) or BatchRefused(refused.sqlstate, refused.message)


_LOOK_S = 0.5
"""The interval at which the streams are checked for one that waits for another."""
_SHORT_DEADLOCK_MS = 100


class StreamGroup:
    """The streams of one subscription, by their numbers from 0, and a connection that watches them."""

    def __init__(
        self,
        subscription: Subscription,
        plan: SetPlan,
        *,
        articles: Sequence[Article],
        edited: Set[tuple[str, Operation]],
    ) -> None:
        streams = subscription.settings.streams
        self._guid = subscription.guid
        self._threads = ThreadPoolExecutor(streams + 1, thread_name_prefix="stream")
        # All connections are opened in threads: small batches meanwhile go over the single one.
        self._watching = self._threads.submit(connect_agent, subscription, "distribution")
        opening = partial(_open_stream, subscription, plan, articles, edited)
        self._opening = [self._threads.submit(opening, number) for number in range(streams)]
        self._streams: Sequence[Stream] = ()
        self._running: Mapping[int, Future[None]] = {}

    @property
    def is_open(self) -> bool:
        """Whether no call would wait for a connection."""
        return bool(self._streams) or all(opening.done() for opening in self._opening)

    def add(self, number: int, calls: OrderedCalls, known: DeliveryProgress) -> None:
        """Send calls in a stream. Raises as `Stream.prepare`, once all is rolled back."""
        stream = self._begun(number, known)
        try:
            stream.add(calls)
        except BatchUndone:
            self.roll_back()
            raise

    def flush(self) -> None:
        """Wait until all calls so far have run. Raises as `add`."""
        try:
            for stream in self._streams:
                if stream.has_begun:
                    stream.flush()
        except BatchUndone:
            self.roll_back()
            raise

    def commit(
        self, shares: Sequence[Sequence[OrderedCalls]], known: DeliveryProgress, reached: Position
    ) -> DeliveryProgress:
        """Commit what was sent, and further calls by stream; return the progress with that batch. Raises as `add`."""
        batch = BatchName(self._guid, known.epoch, known.batch + 1)
        # The first one moves the progress, whether it has calls or not.
        self._begun(0, known)
        part: dict[int, Stream] = {}
        for number, stream in enumerate(self._streams):
            share = shares[number] if number < len(shares) else ()
            if stream.has_begun or share:
                # Streams without calls stay out of the batch: each prepared transaction costs the server a synced
                # write.
                part[number] = self._begun(number, known)
                name = PreparedName(batch, number)
                future = self._threads.submit(stream.prepare, share, name, reached)
                self._running = {**self._running, number: future}
        if not self._are_prepared(part):
            self.roll_back()
            raise BatchUndone
        # The decision. Until here a failure rolls back all parts; from here on the batch counts as committed, and parts
        # that a crash leaves prepared are committed by the next agent, which finds the batch in the progress row.
        part.pop(0).decide()
        # Side by side: the rows of a stream stay locked until its commit.
        self._running = {number: self._threads.submit(stream.commit) for number, stream in part.items()}
        for committing in self._running.values():
            committing.result()
        self._running = {}
        return DeliveryProgress(reached, batch.batch, known.epoch)

    def roll_back(self) -> None:
        """Roll back all streams, in any order: nothing is decided. Raises what is more than a refused batch."""
        running, self._running = self._running, {}
        for stream in self._streams:
            stream.roll_back()
        for preparing in running.values():
            error = preparing.exception()
            if error is not None and not isinstance(error, BatchUndone):
                raise error

    def close(self) -> None:
        """Close all connections; what is not prepared is rolled back."""
        for number, opening in enumerate(self._opening):
            running = self._running.get(number)
            if running is not None and not running.done():
                opening.result().cancel()
            # A connection is of one thread at a time: one that is not done closes it.
            (running or opening).add_done_callback(partial(_close, opening))
        self._watching.add_done_callback(partial(_close, self._watching))
        self._threads.shutdown(wait=False)

    def _begun(self, number: int, known: DeliveryProgress) -> Stream:
        if not self._streams:
            self._streams = [opening.result() for opening in self._opening]
        stream = self._streams[number]
        if not stream.has_begun:
            stream.begin(known, is_first=number == 0)
        return stream

    def _are_prepared(self, streams: Mapping[int, Stream]) -> bool:
        """Wait for all streams; end them if one has failed, or waits for another, which would wait for it here."""
        pending = set(self._running.values())
        own = [stream.process_id for stream in streams.values()]
        is_failed = False
        while pending:
            done, pending = wait(pending, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
            is_failed = is_failed or any(future.exception() for future in done)
            # The server detects no deadlock here: a prepared stream waits for no lock, but keeps the rows for which the
            # other one waits, until this process commits both.
            if pending and (is_failed or is_deadlocked(self._watching.result(), own, or_prepared=True)):
                is_failed = True
                for number, stream in streams.items():
                    if self._running[number] in pending:
                        stream.stop()
        return not is_failed


def _close(opening: Future[Stream] | Future[psycopg.Connection], _done: object) -> None:
    if opening.exception() is None:
        opening.result().close()


def _open_stream(
    subscription: Subscription,
    plan: SetPlan,
    articles: Sequence[Article],
    edited: Set[tuple[str, Operation]],
    number: int,
) -> Stream:
    connection = connect_agent(subscription, "distribution")
    with closed_on_error(connection):
        with translated():
            # So that a deadlock with a program of the subscriber's ends this transaction, not the program's.
            connection.execute(sql.SQL(_LOOK_FOR_DEADLOCKS))
        # The single connection has the subscription's own origin.
        has_origin = set_origin(connection, subscription, number + 1)
        # Read here again, since each connection is pinned on its own.
        written = open_written(connection, subscription.subscriber, articles, subscription.settings.run_as)
        sender = Sender(connection, subscription.subscriber, written, plan, edited=edited, has_origin=has_origin)
        return Stream(connection, sender, subscription)


_LOOK_FOR_DEADLOCKS = f"""
select case when has_parameter_privilege('deadlock_timeout', 'set')
    then set_config('deadlock_timeout', '{_SHORT_DEADLOCK_MS}ms', false) end
"""
