"""The log reader: the only process that reads a database's log, and the only writer of ranges in the log store.

Three threads form a pipeline: one receives and confirms, one decodes, one makes batches durable. A position is
confirmed to the server only after the manifest entry that holds it is durable.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from types import TracebackType
from typing import assert_never

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
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
from rowtide.log.log_source import (
    ChangeNotReceivable,
    Decoded,
    EndOfStream,
    Keepalive,
    LogSource,
    ReceivedMessages,
    StreamLost,
    TransactionReceived,
    Undecodable,
)
from rowtide.log.membership import ControlRow, Event, later_row, stamp
from rowtide.log.store.entries import PartStored, RangeAppended, Segment, TableGiven, TransactionSkipped
from rowtide.log.store.maintenance import delete_orphans, is_overdue, maintain
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import write_segment
from rowtide.storage.places import is_object_url
from rowtide.storage.store import Store


@frozen
class DecodedCut:
    """A cut as log records. `end` is the log position after it, None for a part of a transaction.

    `error` names the transaction after it, which cannot be decoded.
    """

    decoded: Decoded
    end: int | None
    is_whole: bool
    error: RowtideError | None = None


class CutDecoder:
    """Decodes cuts, in order, and verifies the source after each. Only its thread uses the source's SQL session."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._stopped: BaseException | None = None

    def decode(self, cut: Cut) -> DecodedCut:
        """Decode a cut. After a failure no further cut is decoded: the same error is raised again."""
        if self._stopped is not None:
            raise self._stopped
        try:
            found = self._decode(cut)
            if found.end is not None:
                # After decoding, so that it sees whatever was altered before these messages were decoded.
                self._source.verify()
        except BaseException as error:
            self._stopped = error
            raise
        self._stopped = found.error
        return found

    def _decode(self, cut: Cut) -> DecodedCut:
        try:
            decoded = self._source.decode(cut.messages)
        except Undecodable as stopped:
            before = cut.messages[: stopped.whole]
            if not before:
                raise stopped.error from stopped
            end = self._source.commit_end(before[-1])
            return DecodedCut(self._source.decode(before), end, is_whole=True, error=stopped.error)
        return DecodedCut(
            decoded, None if isinstance(cut, TransactionPart) else cut.end, is_whole=isinstance(cut, Whole)
        )


class RangeWriter:
    """Makes decoded cuts durable, in order: segments, then one manifest entry for whole transactions.

    Each part of a large transaction has an entry too, so that delivery need not wait for the last part.
    """

    def __init__(self, store: Store, manifest: Manifest, token: int) -> None:
        self._store = store
        self._manifest = manifest
        self._token = token
        self._parts: list[Segment] = []
        self._events: list[Event] = []
        self._control_row: ControlRow | None = None
        self._is_complete = True

    def write(self, decoding: Future[DecodedCut]) -> Position | None:
        """Make a cut durable; return the position below which the server may remove its log, None for a part.

        After a failed cut nothing more is written: the ranges queued after it would cover what it lacks.
        """
        if not self._is_complete:
            return None
        # Set until the cut is durable: any exception on the way leaves it set.
        self._is_complete = False
        cut = decoding.result()
        position = self._write(cut)
        # Raised only after the transactions before it are durable, so that reading begins again at the one that cannot
        # be decoded.
        if cut.error is not None:
            raise cut.error
        self._is_complete = True
        return position

    def _write(self, cut: DecodedCut) -> Position | None:
        decoded = cut.decoded
        for version in decoded.new_tables:
            self._manifest.append(TableGiven(token=self._token, version=version))
        self._events += decoded.events
        self._control_row = later_row(self._control_row, decoded.control_row)
        if decoded.records.num_rows:
            segment = write_segment(self._store, decoded.records, pending=not cut.is_whole)
            if cut.end is None:
                self._announce_part(segment)
            self._parts.append(segment)
        if cut.end is None:
            return None
        return self._append_range(cut.end, decoded.transactions, decoded.as_of)

    def _announce_part(self, segment: Segment) -> None:
        """Let consumers begin with a transaction while the rest of it is read."""
        failpoint("part_entry.before")
        self._manifest.append(PartStored(token=self._token, number=len(self._parts), segment=segment))
        failpoint("part_entry.after")

    def advance(self, keepalive: Keepalive, verifying: Future[None]) -> Position:
        """Record that no member's change lies below a log position, once the source is verified."""
        verifying.result()
        return self._append_range(keepalive.position, 0, keepalive.as_of)

    def skip(self, lsn: CommitLsn, reason: str) -> None:
        """Record that the next transaction, which cannot be read, is skipped. Parts of it that were stored are
        discarded.
        """
        self._forget()
        failpoint("transaction_skipped.before")
        self._manifest.append(TransactionSkipped(token=self._token, lsn=lsn, reason=reason))
        failpoint("transaction_skipped.after")

    def maintain(self) -> None:
        """Merge small segments, truncate below the slowest reader."""
        maintain(self._store, self._manifest, self._token)

    def _append_range(self, end: int, transactions: int, as_of: datetime | None) -> Position:
        # Only the holder of the lease writes the state that this entry is made from, so it need not be read again.
        state = self._manifest.state
        position = Position.of(state.epoch, end)
        # Transactions that were sent again and dropped by the decoder, or a keepalive that a range has overtaken.
        if position <= state.position:
            return state.position
        now = datetime.now(UTC)
        entry = RangeAppended(
            token=self._token,
            from_position=state.position,
            position=position,
            segments=tuple(self._parts),
            events=tuple(stamp(event, now) for event in self._events),
            transactions=transactions,
            as_of=as_of,
            control_row=later_row(state.control_row, self._control_row),
        )
        self._manifest.append(entry)
        self._forget()
        return position

    def _forget(self) -> None:
        self._parts, self._events, self._control_row = [], [], None


_MAX_QUEUED = 3
"""Cuts in memory besides the one that is being received: one is decoded, one is written, one waits."""
STATUS_INTERVAL_S = 5.0
"""How often the reader reports to the server, which ends a connection after `wal_sender_timeout` without a report."""
_KEEPALIVE_INTERVAL_S = 1.0
_REST_AT_BUCKET_S = 5.0
"""The shortest time in an object store between entries that only advance the position: each is a request of the writer,
and of every reader.
"""
_MAINTENANCE_INTERVAL_S = 10.0
_HEARTBEAT_INTERVAL_S = 10.0


class LogReader:
    """Reads the log in bounded steps. Use as a context manager: it owns the source and its threads."""

    def __init__(
        self, source: LogSource, store: Store, manifest: Manifest, token: int, pace: ReadingPace | None = None
    ) -> None:
        """`pace` says when batches are deferred; None: never."""
        self._store = store
        self._manifest = manifest
        self._token = token
        self._pace = pace or ReadingPace()
        is_bucket = is_object_url(store.url(""))
        self._small_age_s = SMALL_BATCH_AGE_AT_BUCKET_S if is_bucket else SMALL_BATCH_AGE_S
        self._rest_s = _REST_AT_BUCKET_S if is_bucket else 0.0
        # One thread each: cuts are decoded and written in log order, while the next ones are received and decoded.
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
            # Before everything else: a reader that ends soon would not come to it later.
            self._maintain()

    def step(self) -> bool:
        """Receive one batch and queue it; confirm what became durable. Return whether anything arrived.

        A transaction with a change that the server cannot send is read again, without that change's table. Raises
        `StreamEnded`, `TransactionUnreadable`: after all earlier transactions are durable.
        """
        received = ReceivedMessages(messages=self._kept.copy(), size=self._kept.size)
        before = len(received.messages)
        end = self._receive(received)
        if end is not None:
            self._continue_after(end, received)
            return True
        has_arrived = len(received.messages) > before
        self._keepalive = received.keepalive if has_arrived else received.keepalive or self._keepalive
        is_large = max(received.messages[-1:].sizes(), default=0) >= LARGE_MESSAGE_BYTES
        if self._is_deferred(received):
            self._kept = received.messages
        else:
            self._hand_on(received)
        # Only one large message is in memory at a time; and whoever wrote a mark waits for everything before it.
        self._confirm_durable(most=0 if is_large or received.is_marked else _MAX_QUEUED)
        self._advance_when_idle()
        if received.reply_requested:
            # A sign of life is enough: the server needs no newer position, so nothing that is queued is waited for.
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
        # After the cuts that are still being decoded.
        self._decoding.shutdown(cancel_futures=True)
        self._writing.shutdown(cancel_futures=True)
        self._source.close()

    def _begin(self, source: LogSource) -> None:
        """Continue with a source that begins where the durable log ends; nothing is queued."""
        self._source = source
        self._decoder = CutDecoder(source)
        self._writer = RangeWriter(self._store, self._manifest, self._token)
        # The new source sends an open transaction again from its Begin on.
        self._kept = Messages()
        self._in_parts = False
        self._keepalive = None

    def _continue_after(self, end: EndOfStream, received: ReceivedMessages) -> None:
        """Make durable what came before the stream's end, and continue with another stream if this step can."""
        match end:
            case StreamLost(error):
                self._finish(received)
                raise error
            case ChangeNotReceivable():
                self._finish(received)
                # In the decoder's thread, which alone uses the source's SQL session.
                self._begin(self._decoding.submit(self._source.without_refused, self._kept, end).result())
                # The transaction's parts that are stored already. In this thread, because the queues are empty:
                # `_finish` has waited for the writer, which otherwise is the only user of the manifest.
                delete_orphans(self._store, self._manifest, self._token)
            case TransactionReceived():
                self._end_reread(received, end)
                self._begin(self._decoding.submit(self._source.reopen).result())
            case _:
                assert_never(end)

    def _end_reread(self, received: ReceivedMessages, passed: TransactionReceived) -> None:
        """Make the transaction durable without the changes that are omitted, which may be all of it."""
        self._hand_on(received)
        # Even without messages: the position has to pass the transaction if all of its changes are omitted, or else it
        # would be read again for ever.
        self._queue(Whole((), passed.end))
        self._confirm_durable(most=0)

    def _receive(self, received: ReceivedMessages) -> EndOfStream | None:
        """Receive until a batch is full or old, has many whole transactions, the stream pauses, or a process waits for
        a mark. Return how the stream ended, None while it goes on.

        So there are few segments, and no commit is delayed for that.
        """
        begun = time.monotonic()
        look_at = len(received.messages) + WHOLE_BATCH_MESSAGES
        while not (_is_full(received) or received.reply_requested):
            before = len(received.messages)
            deadline = begun + (self._small_age_s if before < SMALL_BATCH_MESSAGES else MAX_BATCH_AGE_S)
            if time.monotonic() >= deadline:
                return None
            end = self._source.receive(
                received,
                max_size=MAX_BATCH_BYTES,
                max_messages=min(look_at, MAX_BATCH_MESSAGES),
                until=min(deadline, time.monotonic() + QUIET_S),
            )
            if end is not None:
                return end
            # The stream pauses, so some process may wait for this commit: a small segment now costs less than that
            # wait, and small segments are merged later.
            if received.is_marked or len(received.messages) == before:
                return None
            if len(received.messages) >= look_at:
                # Once for each `WHOLE_BATCH_MESSAGES`, since all messages are examined, be they of one transaction.
                if self._writes_little() and self._source.find_commits(received.messages) is not None:
                    return None
                look_at += WHOLE_BATCH_MESSAGES
        return None

    def _is_deferred(self, received: ReceivedMessages) -> bool:
        """Return whether nobody needs what was received yet."""
        # A transaction in parts is never deferred: its readers have begun with the parts that are stored.
        is_needed = received.is_marked or received.reply_requested or _is_full(received) or self._in_parts
        return bool(received.messages) and not is_needed and self._pace.holds(self._manifest.state.readers)

    def _writes_little(self) -> bool:
        """Whether at most one batch waits to become durable. If that takes long, as in an object store, batches become
        larger.
        """
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
        # The cut's own entry moves the position, so an entry for a keepalive has to wait as long after it.
        self._next_keepalive = max(self._next_keepalive, time.monotonic() + self._rest_s)
        decoding = self._decoding.submit(self._decoder.decode, cut)
        self._queued.append(self._writing.submit(self._writer.write, decoding))

    def _finish(self, received: ReceivedMessages) -> None:
        """Make durable what came before the stream's end: the stream may end at the same place again."""
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
            # None for a part of a transaction: a slot's confirmed position lies between transactions.
            durable = self._queued.popleft().result() or durable
        if durable is not None and durable > self._confirmed:
            # Confirm last: the server may immediately remove WAL up to the position, and never moves a slot back.
            failpoint("slot_confirmation.before")
            self._confirm(durable)
            failpoint("slot_confirmation.after")
            self._confirmed = durable

    def _confirm(self, position: Position) -> None:
        self._source.confirm(position.log)
        self._next_status = time.monotonic() + STATUS_INTERVAL_S

    def _show_life(self) -> None:
        """Repeat the last confirmation while one large row arrives or is written: otherwise the server would end the
        connection each time before the row is durable.
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
            # A keepalive means that the slot has nothing to send below its position. That holds for the members' tables
            # only while the publication is the recorded one.
            verifying = self._decoding.submit(self._source.verify)
            self._queued.append(self._writing.submit(self._writer.advance, self._keepalive, verifying))
        self._keepalive = None

    def _maintain_now_and_then(self) -> None:
        if time.monotonic() >= self._next_maintenance:
            self._next_maintenance = time.monotonic() + _MAINTENANCE_INTERVAL_S
            self._maintain()

    def _maintain(self) -> None:
        # In the writer's thread, because a manifest is not thread-safe.
        self._queued.append(self._writing.submit(self._writer.maintain))

    def _write_due_heartbeat(self) -> None:
        if time.monotonic() >= self._next_heartbeat:
            self._next_heartbeat = time.monotonic() + _HEARTBEAT_INTERVAL_S
            # In the decoder's thread, because only that uses the source's SQL session.
            self._queued.append(self._decoding.submit(self._write_heartbeat))

    def _write_heartbeat(self) -> None:
        self._source.write_heartbeat(self._manifest.state.control_row)


def _is_full(received: ReceivedMessages) -> bool:
    return received.size >= MAX_BATCH_BYTES or len(received.messages) >= MAX_BATCH_MESSAGES
