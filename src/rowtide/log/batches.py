"""The log's messages, cut into batches as they arrive: the limits of a batch's size and age, and when a batch is
deferred.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import sub
from typing import Protocol, Self, overload

from rowtide.core.values import frozen


class Messages(Sequence[bytes]):
    """Messages in the stream's order. A slice shares the buffer, which must not be written to after that.

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
        """Take over a buffer, with its messages' offsets, as the first messages; the caller must not use it any
        longer.
        """
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
            # Only the bytes between the first and the last message are copied: few messages of a large received block
            # may be left.
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


# A batch is in memory as messages, then as log records, and up to three are queued behind the one that is received
MAX_BATCH_BYTES = 32 * 1024 * 1024
MAX_BATCH_MESSAGES = 100_000
WHOLE_BATCH_MESSAGES = 20_000
"""Whole transactions are handed on at this number of messages, so that consumers of a backlog begin while more is
read.
"""
LARGE_MESSAGE_BYTES = MAX_BATCH_BYTES
"""A message of this size is a cut of its own: it fills a batch by itself, and PostgreSQL sends messages of up to 1
GB.
"""
# A commit waits at most this long for its batch: the first for large batches, the second for small ones.
MAX_BATCH_AGE_S = 0.5
SMALL_BATCH_AGE_S = 0.1
SMALL_BATCH_AGE_AT_BUCKET_S = 0.25
"""In an object store, where writing a batch takes several requests and about as much time."""
SMALL_BATCH_MESSAGES = 20_000
"""A batch of fewer messages is handed on sooner: the fixed cost of a batch matters little while there is little to
do.
"""
# A pause of the stream of this length ends a batch: its last commit may be what some process waits for.
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
    """Cut what has arrived; return the cuts, in order, and the number of messages in them. The caller keeps the others.

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
"""After this time a batch is made durable even if no reader asks for it, so that the server may remove its log."""


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
        """Request that the next batch is made durable at once."""
        self._reader, self._is_wanted = wanted.reader, True

    def holds(self, readers: Collection[str]) -> bool:
        """Return whether a complete batch is deferred; `readers` are all readers of the log store."""
        # Batches are deferred only for a single reader that asks. A second one, such as another subscription or
        # capture, does not ask here, and would wait for nothing.
        if self._is_wanted or set(readers) != {self._reader}:
            return False
        now = self._clock()
        if self._held_since is None:
            self._held_since = now
        return now < self._held_since + MOST_HELD_S

    def hand_on(self) -> None:
        """Note that a batch is made durable: the next one is deferred until a reader asks."""
        self._is_wanted, self._held_since = False, None
