"""The log's messages as they arrive: their bytes in one buffer, without an object per message."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import sub
from typing import Self, overload


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
