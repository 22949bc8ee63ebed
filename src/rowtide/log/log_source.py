"""The source of a log: what the log reader requires of it, its messages cut into batches, and why it stops."""

from __future__ import annotations

import os
import select
import threading
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from operator import sub
from typing import TYPE_CHECKING, Protocol, Self, overload

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import LoggedTable
from rowtide.core.values import frozen
from rowtide.log.membership import ControlRow, Event

if TYPE_CHECKING:
    import pyarrow as pa


class Messages(Sequence[bytes]):
    """Messages in the stream's order; a slice shares the buffer, which then is only read.

    `starts` and `ends` are offsets in `buffer`; between two messages there may be other bytes.
    """

    __slots__ = ("buffer", "ends", "starts")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.starts = array("q")
        self.ends = array("q")

    @classmethod
    def of(cls, messages: Iterable[bytes]) -> Self:
        """Return copies of messages."""
        made = cls()
        for message in messages:
            made.append(message)
        return made

    def append(self, message: bytes | memoryview) -> None:
        """Add a copy of a message."""
        self.starts.append(len(self.buffer))
        self.buffer += message
        self.ends.append(len(self.buffer))

    def extend(self, data: memoryview, starts: bytes, ends: bytes) -> None:
        """Add a copy of messages; the offsets, as native 64-bit integers, are those in the buffer after this."""
        self.buffer += data
        self.starts.frombytes(starts)
        self.ends.frombytes(ends)

    def adopt(self, buffer: bytearray, starts: bytes, ends: bytes) -> None:
        """Take over a buffer with messages at offsets, as the first ones; the giver no longer uses it."""
        self.buffer = buffer
        self.starts.frombytes(starts)
        self.ends.frombytes(ends)

    @property
    def size(self) -> int:
        """The bytes of all messages, added up."""
        return sum(self.ends) - sum(self.starts)

    def sizes(self) -> Iterator[int]:
        """Yield the bytes of each message."""
        return map(sub, self.ends, self.starts)

    def copy(self) -> Self:
        """Return an independent copy, without what is around the messages."""
        other = type(self)()
        if self.starts:
            first, last = self.starts[0], self.ends[-1]
            with memoryview(self.buffer) as view:
                other.buffer += view[first:last]
            # Only what lies between first and last is copied: the buffer may be a received block of which a few
            # messages are left.
            other.starts.extend(start - first for start in self.starts)
            other.ends.extend(end - first for end in self.ends)
        return other

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Messages) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> bytes | Self:
        if isinstance(index, int):
            return bytes(self.buffer[self.starts[index] : self.ends[index]])
        window = type(self)()
        window.buffer, window.starts, window.ends = self.buffer, self.starts[index], self.ends[index]
        return window


MAX_BATCH_BYTES = 32 * 1024 * 1024
MAX_BATCH_MESSAGES = 100_000
WHOLE_BATCH_MESSAGES = 20_000
"""Number of messages at which whole transactions are handed on: consumers of a backlog begin while more is read."""
LARGE_MESSAGE_BYTES = MAX_BATCH_BYTES
"""A message of this size is a cut of its own: it fills a batch by itself, and PostgreSQL sends up to a gigabyte."""
MAX_BATCH_AGE_S = 0.5
SMALL_BATCH_AGE_S = 0.1
SMALL_BATCH_AGE_AT_BUCKET_S = 0.25
"""In a bucket, where writing a batch takes some requests, and as long."""
SMALL_BATCH_MESSAGES = 20_000
"""Fewer are a small batch, which is handed on sooner: a fixed cost twice as often, while there is little to do."""
QUIET_S = 0.1


@frozen
class Whole:
    """Transactions from begin to commit; `end` is the log position behind the last commit."""

    messages: Sequence[bytes]
    end: int


@frozen
class TransactionPart:
    """A piece of one transaction whose commit has not arrived; not readable yet."""

    messages: Sequence[bytes]


@frozen
class LastPart:
    """The piece of a large transaction that ends with its commit."""

    messages: Sequence[bytes]
    end: int


Cut = Whole | TransactionPart | LastPart


class Commits(Protocol):
    """How a database's log marks the end of a transaction."""

    def find_commits(self, messages: Messages) -> tuple[int, int] | None: ...

    def commit_end(self, message: bytes) -> int: ...


def cut_batch(messages: Messages, commits: Commits, *, in_parts: bool, is_full: bool) -> tuple[list[Cut], int]:
    """Cut what has arrived; return the cuts, in order, and how many messages they have: the others are to be kept.

    `in_parts`: an earlier cut was a `TransactionPart` without its `LastPart`. `is_full`: no more may be buffered,
    so an unfinished transaction becomes a `TransactionPart`.
    """
    found = commits.find_commits(messages)
    if found is None:
        return (_parts(messages), len(messages)) if is_full else ([], 0)
    first, last = found
    cuts: list[Cut] = []
    begin = 0
    # The first commit ends the transaction whose parts were handed on: it becomes readable with its last part, before
    # all others.
    if in_parts:
        begin = first + 1
        cuts.append(LastPart(messages[:begin], commits.commit_end(messages[first])))
    if begin <= last:
        cuts.append(Whole(messages[begin : last + 1], commits.commit_end(messages[last])))
    return cuts, last + 1


def _parts(messages: Messages) -> list[Cut]:
    """Cut an unfinished transaction: each large message by itself, the messages between them together."""
    has_large = max(messages.sizes(), default=0) >= LARGE_MESSAGE_BYTES
    sizes = messages.sizes() if has_large else ()
    large = [place for place, size in enumerate(sizes) if size >= LARGE_MESSAGE_BYTES]
    borders = sorted({0, *large, *(place + 1 for place in large), len(messages)})
    return [TransactionPart(messages[begin:end]) for begin, end in pairwise(borders)]


MOST_HELD_S = 30.0
"""After this time a batch is made durable unasked, so that the server may remove its log."""


@frozen
class BatchWanted:
    """A reader of the log store, by its name there, waits for what was committed."""

    reader: str


class ReadingPace:
    """The log reader's side. Asked by one thread, used by another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Hold nothing until a reader has asked."""
        self._clock = clock
        self._reader: str | None = None
        self._is_wanted = True
        self._held_since: float | None = None

    def ask(self, wanted: BatchWanted) -> None:
        """Let the next batch be made durable at once."""
        self._reader, self._is_wanted = wanted.reader, True

    def holds(self, readers: Collection[str]) -> bool:
        """Return whether a batch that is there waits; `readers` are all that read the log store."""
        # Another reader, as a second subscription or capture, asks for nothing here and would wait in vain: batches are
        # held for a single one that asks.
        if self._is_wanted or set(readers) != {self._reader}:
            return False
        now = self._clock()
        if self._held_since is None:
            self._held_since = now
        return now < self._held_since + MOST_HELD_S

    def hand_on(self) -> None:
        """Note that a batch is made durable: from now on the next one waits to be asked for."""
        self._is_wanted, self._held_since = False, None


@frozen
class Keepalive:
    """No member's change lies below a log position; `as_of` is the server's time if it had sent everything by then."""

    position: int
    as_of: datetime | None


@dataclass(slots=True)
class ReceivedMessages:
    """Messages in the stream's order, and the last keepalive if nothing came after it.

    `is_marked`: they end with a mark, so a process waits for them.
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


class ChangeNotReceivable(Exception):
    """A change cannot be received; a retry fails too."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TransactionReceived(Exception):
    """The transaction for which the source was opened has arrived completely; `end` is a log position after it."""

    def __init__(self, end: int) -> None:
        super().__init__(end)
        self.end = end


class Undecodable(Exception):
    """A batch that cannot be decoded from a transaction on, which `error` names; nothing of it was decoded.

    The first `whole` messages are the transactions before that one.
    """

    def __init__(self, error: RowtideError, whole: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.whole = whole


class LogSource(Protocol):
    """An open stream of a database's log.

    `receive` and `confirm` are called by one thread, the others by another while these wait for it.
    """

    def receive(self, received: ReceivedMessages, *, max_size: int, max_messages: int, until: float) -> None:
        """Add what arrives, until a limit, the time (`time.monotonic`), a mark that ends the stream, or a keepalive
        that requests a reply.

        Raises `StreamEnded`, `ChangeNotReceivable` and `TransactionReceived`; what arrived before is in `received`.
        """

    def confirm(self, position: int) -> None:
        """Confirm a log position, below which the server may remove its log."""

    def decode(self, messages: Sequence[bytes]) -> Decoded:
        """Decode messages, in the stream's order. Raises `DecodeError`, `Undecodable`."""

    def without_refused(self, messages: Sequence[bytes], refused: ChangeNotReceivable) -> LogSource:
        """Return a source of only the transaction of the change after `messages`, without the table of the change.

        `messages` were not decoded yet; all before the transaction is stored. Stream and decoder end. The returned
        source's events say what is omitted. Raises the error that names the change if it cannot be avoided.
        """

    def reopen(self) -> LogSource:
        """Return the log from the manifest's position on; stream and decoder end."""

    def verify(self) -> None:
        """Raise unless everything received came through the publication and slot that were recorded."""

    def write_heartbeat(self, stored: ControlRow | None) -> None:
        """Write a heartbeat into the log if other transactions wrote since the last one; it returns as an event.

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
    """An event that `select` takes beside sockets: readable once it is set, which it stays."""

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
