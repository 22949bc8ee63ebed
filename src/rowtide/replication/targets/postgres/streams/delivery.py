"""Delivery to a PostgreSQL subscriber over several connections (SQL Server: -SubscriptionStreams).

A batch is divided among streams and committed by all or by none: each prepares its part, then the first is committed,
whose progress row is the decision, then the others. A batch that cannot be divided, is small, or was refused, is sent
over one connection of its own, as with one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from functools import partial
from itertools import zip_longest

import psycopg

from rowtide.core.lsn import Position
from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.batches import Block, Call
from rowtide.replication.distribution.delivery import BatchUndone, Delivery, JoiningArticle, Progress
from rowtide.replication.errors.delivery import CommandError
from rowtide.replication.schema_changes import Followed
from rowtide.replication.targets.postgres.connecting import connect_agent
from rowtide.replication.targets.postgres.delivery import PostgresDelivery, set_origin
from rowtide.replication.targets.postgres.modes import FEWEST_AS_COPY, Mode, RowByRow, SetBased
from rowtide.replication.targets.postgres.sender import Sender
from rowtide.replication.targets.postgres.streams.capacity import require_prepared
from rowtide.replication.targets.postgres.streams.division import Division
from rowtide.replication.targets.postgres.streams.prepared import BatchName, PreparedName
from rowtide.replication.targets.postgres.streams.rules import read_rules
from rowtide.replication.targets.postgres.streams.stream import Stream
from rowtide.replication.targets.postgres.table_relations import plan_sets

FEWEST_CALLS = 100
"""A batch of fewer is not divided: it would wait for two commits more than it gains."""
MOST_CALLS = 200_000
"""A batch of more is not kept in memory, but sent over one connection as it is read."""
_LOOK_S = 0.5
"""So often the streams are looked at for one that waits for another."""
_SHORT_DEADLOCK_MS = 100


def open_delivery(subscription: Subscription, articles: Sequence[Article] = ()) -> Delivery:
    """Open delivery over as many connections as the subscription's settings say. Raises as `StreamsDelivery.open`."""
    if subscription.settings.streams == 1:
        return PostgresDelivery.open(subscription, articles)
    return StreamsDelivery.open(subscription, articles)


class StreamsDelivery:
    """Several connections that deliver to a PostgreSQL subscriber; see `Delivery`."""

    def __init__(
        self,
        single: PostgresDelivery,
        watcher: psycopg.Connection,
        streams: Sequence[Stream],
        division: Division,
        subscription: Subscription,
    ) -> None:
        self._single = single
        self._watcher = watcher
        self._streams = streams
        self._division = division
        self._guid = subscription.guid
        self._threads = ThreadPoolExecutor(len(streams), thread_name_prefix="stream")
        self._calls: list[Call] | None = None
        self._running: Sequence[Future[None]] = ()

    @classmethod
    def open(cls, subscription: Subscription, articles: Sequence[Article] = ()) -> StreamsDelivery:
        """Connect and take over from any earlier agent. Raises `PreparedTransactionsLacking`, and as for one stream."""
        with ExitStack() as opened:
            single = opened.enter_context(closing(PostgresDelivery.open(subscription, articles)))
            watcher = opened.enter_context(closing(connect_agent(subscription, "distribution")))
            require_prepared(watcher, subscription.subscriber, subscription.guid, subscription.settings.streams)
            division = Division(read_rules(watcher, articles))
            plan = plan_sets(watcher, articles)

            def make_mode(sender: Sender) -> Mode:
                return SetBased(sender, plan) if plan.groups else RowByRow(sender)

            streams = [
                # The single connection has the subscription's own origin.
                opened.enter_context(closing(_open_stream(subscription, number + 1, make_mode)))
                for number in range(subscription.settings.streams)
            ]
            delivery = cls(single, watcher, streams, division, subscription)
            opened.pop_all()
        return delivery

    @property
    def progress(self) -> Progress:
        return self._single.progress

    def begin(self, *, one_by_one: bool = False, committed_us: int | None = None) -> None:  # noqa: ARG002 - not kept
        """See `Delivery`. With `one_by_one`, and only then, an error names its call, or the call is skipped."""
        self._calls = None
        if one_by_one:
            self._single.begin(one_by_one=True)
        else:
            self._calls = []

    def begin_early(self) -> Callable[[], None] | None:
        """See `Delivery`; over one connection, as any batch that is not kept in memory."""
        self._calls = None
        return self._single.begin_early()

    def run(self, call: Call) -> None:
        if self._calls is None:
            self._single.run(call)
            return
        self._calls.append(call)
        if len(self._calls) > MOST_CALLS or not self._division.is_divisible(call):
            self._send_over_one()

    def run_block(self, block: Block) -> None:
        if self._calls is not None and len(block.rows) >= FEWEST_AS_COPY:
            # One COPY is faster than calls of several streams.
            self._send_over_one()
        if self._calls is None:
            self._single.run_block(block)
            return
        for call in block.calls():
            self.run(call)

    def alter(self, followed: Followed) -> None:
        self._single.alter(followed)

    def join(self, joining: JoiningArticle) -> None:
        self._single.join(joining)

    def flush(self) -> None:
        if self._calls:
            self._send_over_one()
        self._single.flush()

    def end(self, reached: Position) -> Sequence[CommandError]:
        if self._calls is not None:
            shares = self._divide(self._calls)
            if len(shares) > 1:
                self._calls = None
                self._commit_in_streams(shares, reached)
                return ()
            self._send_over_one()
        return self._single.end(reached)

    def close(self) -> None:
        """Close all connections; what is not prepared is rolled back."""
        for stream, running in zip_longest(self._streams, self._running):
            # A connection is of one thread at a time: one that is not done closes it.
            if running is None or running.done():
                stream.close()
            else:
                running.add_done_callback(partial(_close, stream))
                stream.give_up()
        self._threads.shutdown(wait=False)
        self._single.close()
        self._watcher.close()

    def _divide(self, calls: Sequence[Call]) -> Sequence[Sequence[Call]]:
        return self._division.divide(calls, len(self._streams)) if len(calls) >= FEWEST_CALLS else ()

    def _send_over_one(self) -> None:
        """Send the batch over one connection from here on."""
        calls, self._calls = self._calls, None
        self._single.begin()
        for call in calls or ():
            self._single.run(call)

    def _commit_in_streams(self, shares: Sequence[Sequence[Call]], reached: Position) -> None:
        known = self.progress
        batch = BatchName(self._guid, known.epoch, known.batch + 1)
        streams = self._streams[: len(shares)]
        names = [PreparedName(batch, number) for number in range(len(shares))]
        self._running = preparing = [
            self._threads.submit(stream.prepare, share, name, known, reached)
            for stream, share, name in zip(streams, shares, names, strict=True)
        ]
        if not self._are_prepared(streams, preparing):
            self._roll_back(streams, preparing)
            raise BatchUndone
        streams[0].decide()
        self._single.go_on(Progress(reached, batch.batch, known.epoch))
        committing = [self._threads.submit(stream.commit) for stream in streams[1:]]
        self._running = [preparing[0], *committing]
        for future in committing:
            future.result()

    def _are_prepared(self, streams: Sequence[Stream], preparing: Sequence[Future[None]]) -> bool:
        """Wait for all streams; end them if one has failed, or waits for another, which would wait for it here."""
        pending = set(preparing)
        is_failed = False
        while pending:
            done, pending = wait(pending, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
            is_failed = is_failed or any(future.exception() for future in done)
            if pending and (is_failed or self._find_waiting(streams)):
                is_failed = True
                for stream, future in zip(streams, preparing, strict=True):
                    if future in pending:
                        stream.stop()
        return not is_failed

    def _roll_back(self, streams: Sequence[Stream], preparing: Sequence[Future[None]]) -> None:
        """Roll back all streams, in any order: nothing is decided. Raises what is more than a refused batch."""
        for stream in streams:
            stream.roll_back()
        for future in preparing:
            error = future.exception()
            if error is not None and not isinstance(error, BatchUndone):
                raise error

    def _find_waiting(self, streams: Sequence[Stream]) -> bool:
        """Return whether a stream waits for another, or for a prepared transaction, which has no process (0)."""
        own = [stream.process_id for stream in streams]
        with translated():
            row = self._watcher.execute(_WAITING, {"own": own, "blocking": [0, *own]}).fetchone()
        return row is not None


def _close(stream: Stream, _done: Future[None]) -> None:
    stream.close()


def _open_stream(subscription: Subscription, number: int, make_mode: Callable[[Sender], Mode]) -> Stream:
    connection = connect_agent(subscription, "distribution")
    with translated():
        row = connection.execute("select has_parameter_privilege('deadlock_timeout', 'set')").fetchone()
        if row == (True,):
            # So that a deadlock with a program of the subscriber's ends this transaction, not the program's.
            connection.execute(f"set deadlock_timeout = '{_SHORT_DEADLOCK_MS}ms'")
    has_origin = set_origin(connection, subscription, number)
    sender = Sender(connection, subscription.subscriber, has_origin=has_origin)
    return Stream(connection, sender, subscription, make_mode)


_WAITING = "select from unnest(%(own)s::int[]) process where pg_blocking_pids(process) && %(blocking)s::int[] limit 1"
