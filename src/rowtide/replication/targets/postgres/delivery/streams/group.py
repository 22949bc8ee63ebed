"""The streams of a subscription, as one: what is prepared in all of them is committed, or nothing.

They are opened together, in threads of their own, while the first batch for them is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial

import psycopg
from psycopg import sql

from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.batches import Call
from rowtide.replication.distribution.delivery import BatchUndone, Progress
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.targets.postgres.connecting import closed_on_error, connect_agent
from rowtide.replication.targets.postgres.delivery.deadlocks import is_deadlocked
from rowtide.replication.targets.postgres.delivery.delivery import set_origin
from rowtide.replication.targets.postgres.delivery.modes import Mode
from rowtide.replication.targets.postgres.delivery.sender import Sender
from rowtide.replication.targets.postgres.delivery.streams.stream import Stream
from rowtide.replication.targets.postgres.prepared_transactions import BatchName, PreparedName
from rowtide.replication.targets.postgres.written_tables import open_written

MakeMode = Callable[[Sender], Mode]
_LOOK_S = 0.5
"""So often the streams are looked at for one that waits for another."""
_SHORT_DEADLOCK_MS = 100


class StreamGroup:
    """The streams of one subscription, by their numbers from 0, and a connection that watches them."""

    def __init__(
        self,
        subscription: Subscription,
        make_mode: MakeMode,
        *,
        articles: Sequence[Article],
        edited: Set[tuple[str, Operation]],
    ) -> None:
        streams = subscription.settings.streams
        self._guid = subscription.guid
        self._threads = ThreadPoolExecutor(streams + 1, thread_name_prefix="stream")
        self._watching = self._threads.submit(connect_agent, subscription, "distribution")
        opening = partial(_open_stream, subscription, make_mode, articles, edited)
        self._opening = [self._threads.submit(opening, number) for number in range(streams)]
        self._streams: Sequence[Stream] = ()
        self._running: Mapping[int, Future[None]] = {}

    @property
    def is_open(self) -> bool:
        """Whether no call would wait for a connection."""
        return bool(self._streams) or all(opening.done() for opening in self._opening)

    def add(self, number: int, call: Call, known: Progress) -> None:
        """Send a call in a stream. Raises as `Stream.prepare`, once all is rolled back."""
        stream = self._begun(number, known)
        try:
            stream.add(call)
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

    def commit(self, shares: Sequence[Sequence[Call]], known: Progress, reached: Position) -> Progress:
        """Commit what was sent, and further calls by stream; return the progress with that batch. Raises as `add`."""
        batch = BatchName(self._guid, known.epoch, known.batch + 1)
        # The first one moves the progress, whether it has calls or not.
        self._begun(0, known)
        part: dict[int, Stream] = {}
        for number, stream in enumerate(self._streams):
            share = shares[number] if number < len(shares) else ()
            if stream.has_begun or share:
                part[number] = self._begun(number, known)
                name = PreparedName(batch, number)
                future = self._threads.submit(stream.prepare, share, name, reached)
                self._running = {**self._running, number: future}
        if not self._are_prepared(part):
            self.roll_back()
            raise BatchUndone
        part.pop(0).decide()
        self._running = {number: self._threads.submit(stream.commit) for number, stream in part.items()}
        for committing in self._running.values():
            committing.result()
        self._running = {}
        return Progress(reached, batch.batch, known.epoch)

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
                opening.result().give_up()
            # A connection is of one thread at a time: one that is not done closes it.
            (running or opening).add_done_callback(partial(_close, opening))
        self._watching.add_done_callback(partial(_close, self._watching))
        self._threads.shutdown(wait=False)

    def _begun(self, number: int, known: Progress) -> Stream:
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
    make_mode: MakeMode,
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
        sender = Sender(connection, subscription.subscriber, written, edited=edited, has_origin=has_origin)
        return Stream(connection, sender, subscription, make_mode)


_LOOK_FOR_DEADLOCKS = f"""
select case when has_parameter_privilege('deadlock_timeout', 'set')
    then set_config('deadlock_timeout', '{_SHORT_DEADLOCK_MS}ms', false) end
"""
