"""Reads one transaction again through publications of single tables, without the tables whose changes cannot be
sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar, assert_never

from sqlalchemy import Connection

from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.log.batches import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES
from rowtide.log.errors import StreamEnded
from rowtide.log.log_source import (
    ChangeNotReceivable,
    EndOfStream,
    ReceivedMessages,
    SelectableEvent,
    StreamLost,
    TransactionReceived,
)
from rowtide.log.membership import ChangesOmitted, Member
from rowtide.log.postgres.stream.stream import ReplicationStream
from rowtide.log.postgres.stream.xlog_data import begun_lsn, committed_lsn
from rowtide.log.postgres.table_publications import name_of_control, name_of_table
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.manifest import Manifest


class TransactionReread:
    """The transaction that commits at `lsn`; `reasons` say, by oid, why a table is omitted.

    Everything that commits before the transaction is stored: the stream begins with it, or after it if it has no other
    changes.
    """

    def __init__(self, lsn: CommitLsn, reasons: Mapping[int, str]) -> None:
        self.lsn = lsn
        self.reasons = reasons
        self.is_over = False
        self._has_told = False

    @property
    def end(self) -> int:
        """A log position after the transaction; from there on it is not sent again."""
        return self.lsn.log + 1

    def keep_own(self, received: ReceivedMessages, already: int) -> None:
        """Drop what arrived after the transaction; the first `already` messages were examined before."""
        messages = received.messages
        for place in range(already, len(messages)):
            begun = begun_lsn(messages[place])
            if begun is not None and begun > self.lsn.log:
                self._end(received, place)
                break
            if committed_lsn(messages[place]) == self.lsn.log:
                self._end(received, place + 1)
                break
        if received.keepalive is not None and received.keepalive.position > self.lsn.log:
            self.is_over = True
        # A keepalive's position is meaningless here: it covers the changes of the omitted tables too.
        received.keepalive = None
        received.is_marked = False

    def report(self, members: Iterable[Member]) -> tuple[ChangesOmitted, ...]:
        """Return, the first time, what members lack of the transaction."""
        if self._has_told:
            return ()
        self._has_told = True
        return tuple(
            ChangesOmitted(self.lsn, member.member_id, self.reasons[member.source_id])
            for member in members
            if member.source_id in self.reasons
        )

    def _end(self, received: ReceivedMessages, place: int) -> None:
        received.messages = received.messages[:place].copy()
        received.size = received.messages.size
        self.is_over = True


def find_refused(candidates: Sequence[int], is_refused: Callable[[Sequence[int]], bool]) -> int:
    """Return a table with a refused change, one of `candidates`, by bisection; `is_refused` tries several at once."""
    while len(candidates) > 1:
        half = candidates[: len(candidates) // 2]
        # The server's error does not name the table, and each try decodes the transaction once more: bisection needs
        # log2(n) tries for n tables.
        candidates = half if is_refused(half) else candidates[len(half) :]
    return candidates[0]


_PATIENCE_S = 10.0
_PAUSE_S = 0.1

Opened = TypeVar("Opened")


@frozen
class LogAccess:
    """What opening a database's log needs; `connection` is the session that holds the log lease, `token` its entry.

    `stop` ends waits for messages early.
    """

    url: str
    connection: Connection
    definition: SourceDefinition
    manifest: Manifest
    token: int
    stop: SelectableEvent | None = None


class RestrictedStream:
    """A `ReplicationStream` that ends after one transaction, of which it has the changes of some tables."""

    def __init__(self, stream: ReplicationStream, reread: TransactionReread, unreadable: RowtideError) -> None:
        self._stream = stream
        self._reread = reread
        self._unreadable = unreadable

    @classmethod
    def open(
        cls, access: LogAccess, reread: TransactionReread, table_ids: Collection[int], unreadable: RowtideError
    ) -> RestrictedStream:
        """Start after what is stored, with some tables and announcements; raises `unreadable` if that fails."""
        definition, state = access.definition, access.manifest.state
        names = [name_of_table(definition.publication, source_id) for source_id in sorted(table_ids)]
        publications = [name_of_control(definition.publication), *names]

        def start() -> ReplicationStream:
            stream = ReplicationStream.connect(access.url, application_name="rowtide log reader", stop=access.stop)
            try:
                stream.start(
                    definition.slot,
                    publications,
                    state.position.log,
                    requires_all=True,
                )
            except BaseException:
                stream.close()
                raise
            return stream

        return cls(persist(start), reread, unreadable)

    def receive(
        self,
        received: ReceivedMessages,
        *,
        max_size: int,
        max_messages: int,
        until: float,
        ends_with_mark: Callable[[Sequence[bytes]], bool],
    ) -> EndOfStream | None:
        """Add what arrives of the transaction; return `TransactionReceived` after its end."""
        if self._reread.is_over:
            return TransactionReceived(self._reread.end)
        already = len(received.messages)
        end = self._stream.receive(
            received, max_size=max_size, max_messages=max_messages, until=until, ends_with_mark=ends_with_mark
        )
        self._reread.keep_own(received, already)
        if end is None or self._reread.is_over:
            return None
        if self._stream.misses_publication:
            raise self._unreadable
        return end

    @property
    def unheard_s(self) -> float:
        """See `ReplicationStream`."""
        return self._stream.unheard_s

    @property
    def sender_id(self) -> int:
        """See `ReplicationStream`."""
        return self._stream.sender_id

    def confirm(self, position: int) -> None:
        """Confirm a position, if the server still listens; the next stream confirms it otherwise."""
        with suppress(StreamEnded):
            self._stream.confirm(position)

    def close(self) -> None:
        self._stream.close()

    def is_refused(self, position: int) -> bool:
        """Return whether the server refuses a change, for a stream used only once; everything below a position is
        durable.
        """
        while True:
            received = ReceivedMessages()
            end = self.receive(
                received,
                max_size=MAX_BATCH_BYTES,
                max_messages=MAX_BATCH_MESSAGES,
                until=time.monotonic() + _PAUSE_S,
                ends_with_mark=lambda _: False,
            )
            match end:
                case TransactionReceived():
                    return False
                case ChangeNotReceivable():
                    return True
                case StreamLost(error):
                    raise error
                case None:
                    if received.reply_requested:
                        self.confirm(position)
                case _:
                    assert_never(end)


def persist(start: Callable[[], Opened]) -> Opened:
    """Open a stream, retrying while the walsender of the previous one still holds the slot."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return start()
        except RowtideError as error:
            if error.remedy is not Remedy.RETRY or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
