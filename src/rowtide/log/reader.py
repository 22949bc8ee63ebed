"""The log reader: the only process that reads a database's log, and the only writer of ranges in the log store.

It has three threads: one receives and confirms, one decodes, one makes durable, each the batch after the next one's. A
position is confirmed to the server only after the manifest entry that holds it is durable.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.batches import (
    LARGE_MESSAGE_BYTES,
    MAX_BATCH_AGE_S,
    MAX_BATCH_BYTES,
    MAX_BATCH_MESSAGES,
    QUIET_S,
    SMALL_BATCH_AGE_AT_BUCKET_S,
    SMALL_BATCH_AGE_S,
    SMALL_BATCH_MESSAGES,
    WHOLE_BATCH_MESSAGES,
    Cut,
    Messages,
    ReadingPace,
    TransactionPart,
    Whole,
    cut_batch,
)
from rowtide.log.errors import StreamEnded
from rowtide.log.ranges import CutDecoder, RangeWriter
from rowtide.log.source import ChangeNotReceivable, Keepalive, LogSource, ReceivedMessages, TransactionReceived
from rowtide.log.store.maintenance import delete_orphans, is_overdue
from rowtide.log.store.manifest import Manifest
from rowtide.storage.places import is_object_url
from rowtide.storage.store import Store

_MAX_QUEUED = 3
"""Cuts in memory behind the one that is received: one decoded, one written, one that waits."""
STATUS_INTERVAL_S = 5.0
"""So often the server hears of the reader: it ends a connection after `wal_sender_timeout` without."""
_KEEPALIVE_INTERVAL_S = 1.0
_REST_AT_BUCKET_S = 5.0
"""In a bucket no entry for a position alone follows another one sooner: it is a request, and one of each reader."""
_MAINTENANCE_INTERVAL_S = 10.0
_HEARTBEAT_INTERVAL_S = 10.0


class LogReader:
    """Reads the log in bounded steps. Use as a context manager: it owns the source and its threads."""

    def __init__(
        self, source: LogSource, store: Store, manifest: Manifest, token: int, pace: ReadingPace | None = None
    ) -> None:
        """`pace` says when batches wait; None: never."""
        self._store = store
        self._manifest = manifest
        self._token = token
        self._pace = pace or ReadingPace()
        is_bucket = is_object_url(store.url(""))
        self._small_age_s = SMALL_BATCH_AGE_AT_BUCKET_S if is_bucket else SMALL_BATCH_AGE_S
        self._rest_s = _REST_AT_BUCKET_S if is_bucket else 0.0
        self._decoding = ThreadPoolExecutor(1, "rowtide-decoder")
        self._writing = ThreadPoolExecutor(1, "rowtide-range-writer")
        self._queued: deque[Future[Position | None]] = deque()
        self._kept: Messages
        self._confirmed = manifest.state.position
        self._keepalive: Keepalive | None = None
        self._next_keepalive = 0.0
        self._next_status = time.monotonic() + STATUS_INTERVAL_S
        self._begin(source)
        self._next_maintenance = time.monotonic() + _MAINTENANCE_INTERVAL_S
        self._next_heartbeat = time.monotonic() + _HEARTBEAT_INTERVAL_S
        if is_overdue(manifest.state):
            # Before all else: a reader that ends soon would leave undone what it begins later.
            self._maintain()

    def step(self) -> bool:
        """Receive one batch and queue it; confirm what became durable. Return whether anything arrived.

        A transaction with a change that the server cannot send is read again, without that change's table. Raises
        `StreamEnded`, `TransactionUnreadable`: after all earlier transactions are durable.
        """
        received = ReceivedMessages(messages=self._kept.copy(), size=self._kept.size)
        before = len(received.messages)
        try:
            self._receive(received)
        except StreamEnded:
            self._finish(received)
            raise
        except ChangeNotReceivable as refused:
            self._finish(received)
            self._begin(self._decoding.submit(self._source.without_refused, self._kept, refused).result())
            # Parts of the transaction that were stored already.
            delete_orphans(self._store, self._manifest, self._token)
            return True
        except TransactionReceived as passed:
            self._end_reread(received, passed)
            self._begin(self._decoding.submit(self._source.reopen).result())
            return True
        has_arrived = len(received.messages) > before
        self._keepalive = received.keepalive if has_arrived else received.keepalive or self._keepalive
        is_large = max(received.messages[-1:].sizes(), default=0) >= LARGE_MESSAGE_BYTES
        if self._is_deferred(received):
            self._kept = received.messages
        else:
            self._hand_on(received)
        # One large message is in memory at a time; the writer of a mark waits for what came before it.
        self._confirm_durable(most=0 if is_large or received.is_marked else _MAX_QUEUED)
        self._advance_when_idle()
        if received.reply_requested:
            self._confirm(self._confirmed)
        self._show_life()
        self._maintain_now_and_then()
        self._write_due_heartbeat()
        return has_arrived

    @property
    def position(self) -> Position:
        """Everything below is durable and confirmed to the server."""
        return self._confirmed

    def skip(self, lsn: CommitLsn, reason: str) -> None:
        """Skip the transaction for which `step` raised `TransactionUnreadable`; the reader's last call."""
        self._writing.submit(self._writer.skip, lsn, reason).result()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The writer waits for what the decoder still decodes.
        self._decoding.shutdown(cancel_futures=True)
        self._writing.shutdown(cancel_futures=True)
        self._source.close()

    def _begin(self, source: LogSource) -> None:
        """Continue with a source that begins where the durable log ends; nothing is queued."""
        self._source = source
        self._decoder = CutDecoder(source)
        self._writer = RangeWriter(self._store, self._manifest, self._token)
        self._kept = Messages()
        self._in_parts = False
        self._keepalive = None

    def _end_reread(self, received: ReceivedMessages, passed: TransactionReceived) -> None:
        """Make the transaction durable without the changes that are omitted, which may be all of it."""
        self._hand_on(received)
        self._queue(Whole((), passed.end))
        self._confirm_durable(most=0)

    def _receive(self, received: ReceivedMessages) -> None:
        """Receive until a batch is full or old, has many whole transactions, the stream pauses, or a process waits for
        a mark.

        Keeps segments few, without delaying any.
        """
        begun = time.monotonic()
        look_at = len(received.messages) + WHOLE_BATCH_MESSAGES
        while not (_is_full(received) or received.reply_requested):
            before = len(received.messages)
            deadline = begun + (self._small_age_s if before < SMALL_BATCH_MESSAGES else MAX_BATCH_AGE_S)
            if time.monotonic() >= deadline:
                return
            self._source.receive(
                received,
                max_size=MAX_BATCH_BYTES,
                max_messages=min(look_at, MAX_BATCH_MESSAGES),
                until=min(deadline, time.monotonic() + QUIET_S),
            )
            if received.is_marked or len(received.messages) == before:
                return
            if len(received.messages) >= look_at:
                # Of a large transaction only now and then: all messages are looked at.
                if self._writes_little() and self._source.find_commits(received.messages) is not None:
                    return
                look_at += WHOLE_BATCH_MESSAGES

    def _is_deferred(self, received: ReceivedMessages) -> bool:
        """Return whether nobody needs what was received yet."""
        is_needed = received.is_marked or received.reply_requested or _is_full(received) or self._in_parts
        return bool(received.messages) and not is_needed and self._pace.holds(self._manifest.state.readers)

    def _writes_little(self) -> bool:
        """Whether at most one batch waits to be durable: where each takes long, as in a bucket, they become larger."""
        return sum(not queued.done() for queued in self._queued) <= 1

    def _hand_on(self, received: ReceivedMessages) -> None:
        is_full = _is_full(received)
        cuts, count = cut_batch(received.messages, self._source, in_parts=self._in_parts, is_full=is_full)
        self._kept = received.messages[count:]
        for cut in cuts:
            self._in_parts = isinstance(cut, TransactionPart)
            self._queue(cut)

    def _queue(self, cut: Cut) -> None:
        self._pace.hand_on()
        self._next_keepalive = max(self._next_keepalive, time.monotonic() + self._rest_s)
        decoding = self._decoding.submit(self._decoder.decode, cut)
        self._queued.append(self._writing.submit(self._writer.write, decoding))

    def _finish(self, received: ReceivedMessages) -> None:
        """Make durable what came before the stream's end, which may recur at the same place."""
        self._hand_on(received)
        while self._queued:
            self._queued.popleft().result()

    def _confirm_durable(self, *, most: int) -> None:
        """Confirm what is durable; wait until at most a number of cuts are not."""
        durable: Position | None = None
        while self._queued and (len(self._queued) > most or self._queued[0].done()):
            while not self._queued[0].done():
                wait([self._queued[0]], timeout=STATUS_INTERVAL_S)
                self._show_life()
            durable = self._queued.popleft().result() or durable
        if durable is not None and durable > self._confirmed:
            failpoint("slot_confirmation.before")
            self._confirm(durable)
            failpoint("slot_confirmation.after")
            self._confirmed = durable

    def _confirm(self, position: Position) -> None:
        self._source.confirm(position.log)
        self._next_status = time.monotonic() + STATUS_INTERVAL_S

    def _show_life(self) -> None:
        """Confirm again what is confirmed, while one large row arrives or is written: else it would be read again and
        again, and never be there.
        """
        if time.monotonic() >= self._next_status:
            self._confirm(self._confirmed)

    def _advance_when_idle(self) -> None:
        """Advance by a keepalive, only with no transaction open and nothing buffered or queued."""
        is_idle = not (self._kept or self._queued or self._in_parts)
        if self._keepalive is None or not is_idle or time.monotonic() < self._next_keepalive:
            return
        if self._keepalive.position > self._confirmed.log:
            self._next_keepalive = time.monotonic() + max(_KEEPALIVE_INTERVAL_S, self._rest_s)
            verifying = self._decoding.submit(self._source.verify)
            self._queued.append(self._writing.submit(self._writer.advance, self._keepalive, verifying))
        self._keepalive = None

    def _maintain_now_and_then(self) -> None:
        if time.monotonic() >= self._next_maintenance:
            self._next_maintenance = time.monotonic() + _MAINTENANCE_INTERVAL_S
            self._maintain()

    def _maintain(self) -> None:
        self._queued.append(self._writing.submit(self._writer.maintain))

    def _write_due_heartbeat(self) -> None:
        if time.monotonic() >= self._next_heartbeat:
            self._next_heartbeat = time.monotonic() + _HEARTBEAT_INTERVAL_S
            self._queued.append(self._decoding.submit(self._write_heartbeat))

    def _write_heartbeat(self) -> None:
        self._source.write_heartbeat(self._manifest.state.control_row)


def _is_full(received: ReceivedMessages) -> bool:
    return received.size >= MAX_BATCH_BYTES or len(received.messages) >= MAX_BATCH_MESSAGES
