"""Streams one transaction through the publications of single tables, to leave out a table whose change cannot be
sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection

from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.selectable_event import SelectableEvent
from rowtide.log.batches import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES
from rowtide.log.errors import StreamEnded
from rowtide.log.postgres.reading.transaction_reread import TransactionReread
from rowtide.log.postgres.stream.stream import ReplicationStream
from rowtide.log.postgres.table_publications import name_of_control, name_of_table
from rowtide.log.source import ChangeRefused, Received, TransactionReceived
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.manifest import Manifest

_PATIENCE_S = 10.0
_PAUSE_S = 0.1

Opened = TypeVar("Opened")


@dataclass(frozen=True, slots=True)
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
        received: Received,
        *,
        max_size: int,
        max_messages: int,
        until: float,
        ends_with_mark: Callable[[Sequence[bytes]], bool],
    ) -> None:
        """Add what arrives of the transaction; raise `TransactionReceived` at its end."""
        if self._reread.is_over:
            raise TransactionReceived(self._reread.end)
        already = len(received.messages)
        try:
            self._stream.receive(
                received, max_size=max_size, max_messages=max_messages, until=until, ends_with_mark=ends_with_mark
            )
        except (ChangeRefused, StreamEnded) as ended:
            self._reread.keep_own(received, already)
            if self._reread.is_over:
                return
            if self._stream.misses_publication:
                raise self._unreadable from ended
            raise
        self._reread.keep_own(received, already)

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
            received = Received()
            try:
                self.receive(
                    received,
                    max_size=MAX_BATCH_BYTES,
                    max_messages=MAX_BATCH_MESSAGES,
                    until=time.monotonic() + _PAUSE_S,
                    ends_with_mark=lambda _: False,
                )
            except TransactionReceived:
                return False
            except ChangeRefused:
                return True
            if received.reply_requested:
                self.confirm(position)


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
