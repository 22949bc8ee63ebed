"""A batch of XLogData messages as one buffer, with arrays of each message's bounds and kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rowtide.core.errors import DecodeError
from rowtide.core.values import frozen
from rowtide.log.batches import Messages
from rowtide.log.postgres.stream.xlog_data import HEADER_BYTES, XLOG_DATA

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

_PADDING = bytes(8)  # a fixed-width read at the buffer's end stays inside it; bounds are judged after

_SHORTEST = np.zeros(256, np.int64)
"""Per kind, the bytes of its fixed part; 0 = no such kind in protocol version 1."""
for _kind, _bytes in zip(b"BCORYIUDTM", (21, 26, 10, 10, 7, 8, 8, 8, 6, 15), strict=True):
    _SHORTEST[_kind] = _bytes
_FIXED_KINDS = b"BC"


@frozen
class Frames:
    """The batch: `starts` are the offsets of each message's kind byte, `ends` the offsets after its last byte."""

    buffer: bytes
    octets: Bytes
    starts: Ints
    ends: Ints
    kinds: Bytes

    def __len__(self) -> int:
        return len(self.starts)

    def of_kind(self, kind: str) -> Ints:
        """Return the numbers of the messages of one kind, in log order."""
        return np.flatnonzero(self.kinds == ord(kind))

    def int16_at(self, positions: Ints) -> Ints:
        return self._gather(">i2", positions)

    def int32_at(self, positions: Ints) -> Ints:
        return self._gather(">i4", positions)

    def uint32_at(self, positions: Ints) -> Ints:
        return self._gather(">u4", positions)

    def int64_at(self, positions: Ints) -> Ints:
        return self._gather(">i8", positions)

    def _gather(self, dtype: str, positions: Ints) -> Ints:
        """Read big-endian integers at any byte: a view with a stride of one byte, then one gather."""
        width = np.dtype(dtype).itemsize
        view: npt.NDArray[np.integer] = np.ndarray((len(self.buffer) - width + 1,), dtype, self.buffer, 0, (1,))
        return view[positions].astype(np.int64)

    def require(self, holds: Bools, messages: Ints, problem: str) -> None:
        """Raise `DecodeError` for the first of these messages that does not satisfy a condition."""
        if not holds.all():
            raise self.error(int(messages[np.argmin(holds)]), problem)

    def error(self, message: int, problem: str, offset: int | None = None) -> DecodeError:
        """Return the error of one message, at its kind byte unless a closer offset is known."""
        place = int(self.starts[message]) if offset is None else offset
        return DecodeError(place, printable(int(self.kinds[message])), problem)


def join(messages: Sequence[bytes]) -> Frames:
    """Join XLogData messages to a batch. Raises `DecodeError` if one is not XLogData, or too short for its kind."""
    given = messages if isinstance(messages, Messages) else Messages.of(messages)
    first, last = given.starts[0], given.ends[-1]
    with memoryview(given.buffer) as view:
        buffer = b"".join((view[first:last], _PADDING))
    octets = np.frombuffer(buffer, np.uint8)
    heads = np.frombuffer(given.starts, np.int64) - first
    ends = np.frombuffer(given.ends, np.int64) - first
    _check_headers(octets, heads, ends - heads)
    starts = heads + HEADER_BYTES
    frames = Frames(buffer, octets, starts, ends, octets[starts])
    _check_lengths(frames)
    return frames


def _check_headers(octets: Bytes, heads: Ints, lengths: Ints) -> None:
    fine = (lengths > HEADER_BYTES) & (octets[heads] == XLOG_DATA)
    if fine.all():
        return
    offset = int(heads[np.argmin(fine)])
    raise DecodeError(offset, printable(int(octets[offset])), "no XLogData with a message in it")


def _check_lengths(frames: Frames) -> None:
    everything = np.arange(len(frames))
    shortest = _SHORTEST[frames.kinds]
    lengths = frames.ends - frames.starts
    frames.require(shortest > 0, everything, "unknown message type")
    frames.require(lengths >= shortest, everything, "the message is too short")
    for kind in _FIXED_KINDS:
        chosen = frames.of_kind(chr(kind))
        exact = lengths[chosen] == _SHORTEST[kind]
        frames.require(exact, chosen, "the message is longer than its fields")


def printable(kind: int) -> str:
    """Return a message type as printable text, also if it is not a letter."""
    return chr(kind) if 0x20 < kind < 0x7F else f"0x{kind:02x}"
