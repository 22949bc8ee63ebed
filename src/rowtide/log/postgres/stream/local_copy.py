"""The CopyData messages of a replication connection over a local socket, read from the socket itself.

The server sends each message separately. A local socket buffers a few hundred, then the walsender waits. libpq needs
more time for a message than the walsender; here everything that has arrived is read at once, and split into messages
with array operations. A local socket is never encrypted.

A frame of PostgreSQL's protocol is a kind byte, then four bytes with the length of the rest, themselves included.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from psycopg.pq import abc

from rowtide.core.errors import DecodeError
from rowtide.log.batches import LARGE_MESSAGE_BYTES
from rowtide.log.log_source import ReceivedMessages, SelectableEvent, await_readable
from rowtide.log.postgres.stream.copy_data import CopyEnded, Report, broken
from rowtide.log.postgres.stream.xlog_data import HEADER_BYTES, XLOG_DATA, is_logical_message
from rowtide.storage.local import reason_of

Ints = npt.NDArray[np.int64]

FRAME_HEAD = struct.Struct(">cI")
COPY_DATA = ord("d")
_KIND_BYTES = 1
_LENGTH_BYTES = 4
_MOST_BYTES = 1 << 30
"""The server sends no message of a gigabyte."""


def find_frames(octets: npt.NDArray[np.uint8]) -> Ints:
    """Return where each whole frame begins, and where the last one ends. Raises `DecodeError`.

    XLogData frames are found with array operations: an offset that looks like a head is one if the frame before ends
    there.
    """
    if len(octets) < FRAME_HEAD.size:
        return np.zeros(1, np.int64)
    heads, nexts = _like_xlog_data(octets)
    breaks = np.flatnonzero(nexts[:-1] != heads[1:])
    found: list[Ints] = []
    offset = 0
    # Follow the frames by their lengths, a run of XLogData at a time, because bytes within a row may look like a head.
    while offset + FRAME_HEAD.size <= len(octets):
        first = int(np.searchsorted(heads, offset))
        if first < len(heads) and heads[first] == offset:
            index = int(np.searchsorted(breaks, first))
            last = int(breaks[index]) if index < len(breaks) else len(heads) - 1
            found.append(heads[first : last + 1])
            offset = int(nexts[last])
        else:
            found.append(np.array([offset]))
            offset += frame_bytes(octets.data, offset)
    ends = np.concatenate((*found, [offset]))
    return ends if offset <= len(octets) else ends[:-1]


def frame_bytes(data: bytearray | memoryview, offset: int) -> int:
    """Return the size of a frame whose head is there. Raises `DecodeError`."""
    kind, length = FRAME_HEAD.unpack_from(data, offset)
    if not _LENGTH_BYTES <= length <= _MOST_BYTES:
        raise DecodeError(offset, repr(kind), "no frame of the protocol")
    return _KIND_BYTES + int(length)


def _like_xlog_data(octets: npt.NDArray[np.uint8]) -> tuple[Ints, Ints]:
    """Return the offsets of what may be XLogData frames shorter than 16 MiB, and where each of them ends."""
    size = FRAME_HEAD.size
    # The first byte of their length is 0.
    heads = np.flatnonzero((octets[:-size] == COPY_DATA) & (octets[1 : 1 - size] == 0) & (octets[size:] == XLOG_DATA))
    view: npt.NDArray[np.uint32] = np.ndarray((len(octets) - _LENGTH_BYTES,), ">u4", octets, _KIND_BYTES, (1,))
    lengths = view[heads].astype(np.int64)
    has_content = lengths > _LENGTH_BYTES
    if not has_content.all():
        heads, lengths = heads[has_content], lengths[has_content]
    return heads, heads + _KIND_BYTES + lengths


_READ_BYTES = 64 * 1024
# Both are smaller than for libpq (`copy_data`), which fetches messages one by one: here everything that has arrived is
# read at once, and the walsender waits as soon as the socket is full.
_FEW_BYTES = 1024
_GATHERING_S = 0.0002
"""A third of the time in which the walsender fills a socket with short messages."""
_READING_S = 1.0
"""The limit within one large message: the reading thread has other work."""
_NOTHING = np.zeros(1, np.int64)


class LocalCopy:
    """A connection's socket, used without libpq from the command that begins CopyBoth mode on."""

    def __init__(self, connection: abc.PGconn, is_end: Callable[[Report], bool]) -> None:
        self._is_end = is_end
        # A duplicate descriptor of the socket, because libpq closes its own.
        self._socket = socket.socket(fileno=os.dup(connection.socket))
        self._socket.settimeout(0)
        self._buffer = bytearray(_READ_BYTES)
        self._filled = 0
        # The offsets of the whole frames that are not taken yet, and the offset after them.
        self._frames = _NOTHING
        self._needed = FRAME_HEAD.size

    def start(self, command: bytes) -> Report | None:
        self._send("Q", command + b"\0")
        while True:
            while self._has_frames():
                kind, body = self._take()
                if kind == "W":
                    return None
                if kind == "E":
                    return _read_report(body)
                self._check(kind, body)
            self.wait(None)

    def fetch(self, received: ReceivedMessages, *, max_size: int, max_messages: int) -> bytes | None:
        while received.size < max_size and len(received.messages) < max_messages:
            if not self._has_frames():
                return None
            count = self._count_messages(max_size - received.size, max_messages - len(received.messages))
            if count:
                self._take_messages(received, count)
                continue
            kind, body = self._take()
            if kind != "d":
                self._check(kind, body)
            elif body[0] != XLOG_DATA:
                return body
        return None

    def wait(self, timeout: float | None, stop: SelectableEvent | None = None) -> bool:
        is_ready = await_readable(self._socket, timeout, stop)
        if is_ready:
            time.sleep(_GATHERING_S)
        return is_ready

    def send(self, message: bytes) -> None:
        self._send("d", message)

    def close(self) -> None:
        self._socket.close()

    def _count_messages(self, max_size: int, max_messages: int) -> int:
        """Return how many frames are XLogData messages to take, up to the next other one and to the limits."""
        octets = np.frombuffer(self._buffer, np.uint8)
        heads, sizes = self._frames[:-1], np.diff(self._frames) - FRAME_HEAD.size
        is_taken = (octets[heads] == COPY_DATA) & (octets[heads + FRAME_HEAD.size] == XLOG_DATA)
        for large in np.flatnonzero(sizes >= LARGE_MESSAGE_BYTES).tolist():
            begin = int(heads[large]) + FRAME_HEAD.size
            # An application's message is omitted: no announcement is so large.
            is_taken[large] &= not is_logical_message(bytes(self._buffer[begin : begin + HEADER_BYTES + 1]))
        count = len(heads) if is_taken.all() else int(np.argmin(is_taken))
        fitting = int(np.searchsorted(np.cumsum(sizes[:count]), max_size)) + 1
        return min(count, fitting, max_messages)

    def _take_messages(self, received: ReceivedMessages, count: int) -> None:
        taken, self._frames = self._frames[: count + 1], self._frames[count:]
        first, end = int(taken[0]), int(taken[-1])
        is_large = end - first >= LARGE_MESSAGE_BYTES
        # A message of up to a gigabyte is handed on with its buffer instead of being copied, so that it is in memory
        # only once.
        if is_large and not received.messages:
            received.messages.adopt(self._buffer, (taken[:-1] + FRAME_HEAD.size).tobytes(), taken[1:].tobytes())
        else:
            moved = taken + len(received.messages.buffer) - first
            with memoryview(self._buffer) as view:
                received.messages.extend(view[first:end], (moved[:-1] + FRAME_HEAD.size).tobytes(), moved[1:].tobytes())
        if is_large:
            # The large buffer is not kept while the batch is decoded.
            self._replace_buffer(max(self._filled - end, _READ_BYTES), end)
        received.size += end - first - count * FRAME_HEAD.size
        # A keepalive from before these messages says nothing about a position after them.
        received.keepalive = None

    def _take(self) -> tuple[str, bytes]:
        head, end = self._frames[:2].tolist()
        self._frames = self._frames[1:]
        with memoryview(self._buffer) as view:
            return chr(view[head]), bytes(view[head + FRAME_HEAD.size : end])

    def _check(self, kind: str, body: bytes) -> None:
        """Process a frame that is not CopyData. Raises `CopyEnded` for the last one."""
        match kind:
            case "S":
                pass  # a setting that the server reports again
            case "N":
                if self._is_end(_read_report(body)):
                    raise CopyEnded(None)
            case "E":
                raise CopyEnded(_read_report(body))
            case _:
                raise CopyEnded(None)

    def _has_frames(self) -> bool:
        """Return whether there are whole frames; if not, read what has arrived before. Raises `CopyEnded`."""
        if len(self._frames) > 1:
            return True
        try:
            self._make_room()
            self._read()
            if self._filled >= self._needed:
                self._frames = find_frames(np.frombuffer(self._buffer, np.uint8, self._filled))
        except DecodeError as error:
            raise broken(str(error)) from error
        return len(self._frames) > 1

    def _make_room(self) -> None:
        """Move the beginning of a frame to the front; a frame that is larger than the buffer gets a larger one."""
        begin = int(self._frames[0])
        rest = self._filled - begin
        known = rest >= FRAME_HEAD.size
        self._needed = frame_bytes(self._buffer, begin) if known else FRAME_HEAD.size
        size = max(self._needed, _READ_BYTES)
        if size != len(self._buffer):
            self._replace_buffer(size, begin)
        elif begin:
            self._buffer[:rest] = self._buffer[begin : self._filled]
            self._filled, self._frames = rest, _NOTHING

    def _replace_buffer(self, size: int, begin: int) -> None:
        """Continue in another buffer of a size, with what this one has from an offset on."""
        buffer, rest = bytearray(size), self._filled - begin
        buffer[:rest] = self._buffer[begin : self._filled]
        self._buffer, self._filled, self._frames = buffer, rest, self._frames - begin

    def _read(self) -> None:
        """Read what has arrived, and for a while what follows, as long as much arrives. Raises `CopyEnded` if nothing
        will follow.
        """
        begin = rested_at = self._filled
        until = time.monotonic() + _READING_S
        with memoryview(self._buffer) as view:
            while self._filled < len(view):
                try:
                    count = self._receive(view[self._filled :])
                except CopyEnded:
                    if self._filled == begin:
                        raise
                    return  # first what came before the end
                self._filled += count
                if count:
                    continue
                if self._filled - rested_at < _FEW_BYTES or time.monotonic() > until:
                    return
                rested_at = self._filled
                time.sleep(_GATHERING_S)

    def _receive(self, space: memoryview) -> int:
        """Read into a space once; return how many bytes, 0 if nothing is there. Raises `CopyEnded`."""
        try:
            count = self._socket.recv_into(space)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise broken(reason_of(error)) from error
        if not count:
            raise broken("the server closed the connection")
        return count

    def _send(self, kind: str, body: bytes) -> None:
        """Send a frame; the server reads while it waits for us to."""
        rest = memoryview(FRAME_HEAD.pack(kind.encode(), FRAME_HEAD.size - 1 + len(body)) + body)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                select.select([], [self._socket], [])
            except OSError as error:
                raise broken(reason_of(error)) from error


def _read_report(body: bytes) -> Report:
    """Read the fields of an error or a notice: a letter and a text each, with a null character after it."""
    fields = {chr(field[0]): field[1:].decode(errors="replace") for field in body.split(b"\0") if field}
    labelled = ((fields.get(code), label) for code, label in _LABELS.items())
    text = f"{fields.get('S', '')}: " + " ".join(label + text for text, label in labelled if text is not None)
    return Report(fields.get("C", ""), fields.get("M", ""), " ".join(text.split()))


_LABELS = {"M": "", "D": "DETAIL: ", "H": "HINT: ", "W": "CONTEXT: "}
