"""The interface of a log's source to the log reader: receiving, decoding and confirming; and events that end a wait."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import LoggedTable
from rowtide.core.values import frozen
from rowtide.log.batches import Messages
from rowtide.log.errors import StreamEnded
from rowtide.log.membership import ControlRow, Event

if TYPE_CHECKING:
    import pyarrow as pa


@frozen
class Keepalive:
    """No change of a member is still to come below a log position; `as_of` is the server's time if it had sent
    everything by then.
    """

    position: int
    as_of: datetime | None


@dataclass(slots=True)
class ReceivedMessages:
    """Messages in the stream's order, and the last keepalive if nothing came after it.

    `is_marked`: they end with a mark, for which some process waits.
    """

    messages: Messages = field(default_factory=Messages)
    size: int = 0
    keepalive: Keepalive | None = None
    reply_requested: bool = False
    is_marked: bool = False


@frozen
class Decoded:
    """A batch as log records.

    `records` has the schema `core.records.RECORD`, sorted by (table_id, commit_lsn, seqval). `new_tables` are the
    table versions given out in this batch, to be made durable before the records; `events` are in log order.
    `transactions` counts commits, without those that were durable before; `as_of` is the last commit's time.
    `control_row` is the mark or heartbeat of the latest transaction. `unverified` are the transactions with a mark of
    delivery (`rowtide.log.membership`) that is not verified.
    """

    records: pa.Table
    new_tables: tuple[LoggedTable, ...]
    events: tuple[Event, ...]
    transactions: int
    as_of: datetime | None = None
    control_row: ControlRow | None = None
    unverified: tuple[CommitLsn, ...] = ()


@frozen
class StreamLost:
    """The connection ended; reading begins again with another one."""

    error: StreamEnded


@frozen
class ChangeNotReceivable:
    """A change cannot be received; a retry fails too."""

    reason: str


@frozen
class TransactionReceived:
    """The transaction for which the source was opened has arrived completely; `end` is a log position after it."""

    end: int


EndOfStream = StreamLost | ChangeNotReceivable | TransactionReceived


class Undecodable(Exception):
    """A batch that cannot be decoded from some transaction on, which `error` names. No part of the batch was decoded.

    The first `whole` messages are the transactions before that one.
    """

    def __init__(self, error: RowtideError, whole: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.whole = whole


class LogSource(Protocol):
    """An open stream of a database's log: what a kind of database implements to have its log read.

    `receive` and `confirm` are called by one thread; the other methods by a second thread, for which the first waits.
    """

    def receive(
        self, received: ReceivedMessages, *, max_size: int, max_messages: int, until: float
    ) -> EndOfStream | None:
        """Add messages as they arrive, up to a limit, a time (`time.monotonic`), a mark at the end of the stream, or a
        keepalive that requests a reply. Return how the stream ended, None while it goes on.

        What arrived before the end is in `received`.
        """

    def confirm(self, position: int) -> None:
        """Confirm a log position, below which the server may remove its log."""

    def decode(self, messages: Sequence[bytes]) -> Decoded:
        """Decode messages, in the stream's order. Raises `DecodeError`, `Undecodable`."""

    def without_refused(self, messages: Sequence[bytes], refused: ChangeNotReceivable) -> LogSource:
        """Return a source of the one transaction with the change after `messages`, without the table of that change.

        `messages` are not decoded yet; everything before the transaction is stored. This source's stream and decoder
        end. The returned source's events say what is omitted. Raises the error that names the change if its table
        cannot be omitted.
        """

    def reopen(self) -> LogSource:
        """Return a source that starts at the manifest's position; this source's stream and decoder end."""

    def verify(self) -> None:
        """Raise unless everything received came through the publication and slot that were recorded."""

    def write_heartbeat(self, stored: ControlRow | None) -> None:
        """Write a heartbeat into the log if other transactions wrote since the last one; it is read back as an event.

        `stored` is the last row of `rowtide.control` that is durable: those before it are no longer needed.
        """

    def find_commits(self, messages: Messages) -> tuple[int, int] | None:
        """Return the first and the last message that end a transaction, None if none does."""

    def commit_end(self, message: bytes) -> int:
        """Return the log position after a commit."""

    def close(self) -> None:
        """Close the stream and every connection behind it."""


class HasDescriptor(Protocol):
    """A socket or pipe."""

    def fileno(self) -> int: ...


class SelectableEvent(threading.Event):
    """An event that `select` accepts beside sockets: readable once it is set, and never reset."""

    def __init__(self) -> None:
        super().__init__()
        self._readable, self._writable = os.pipe()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._readable

    def set(self) -> None:
        """Set it, and end the waits."""
        if not self.is_set():
            super().set()
            os.write(self._writable, b".")


def await_readable(own: int | HasDescriptor, timeout: float | None, stop: SelectableEvent | None) -> bool:
    """Return whether a socket is readable within some seconds; False at once if the event is set and it is not."""
    waited: list[int | HasDescriptor] = [own] if stop is None else [own, stop]
    ready, _, _ = select.select(waited, [], [], timeout)
    return own in ready
