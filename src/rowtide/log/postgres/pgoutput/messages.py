"""Messages of pgoutput: a batch as one buffer with the bounds of each message, and parsers for the rare kinds.

Layouts: PostgreSQL documentation, "Logical Replication Message Formats", protocol version 1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rowtide.core.errors import DecodeError
from rowtide.core.tables import ColumnShape, ImageKind
from rowtide.core.values import frozen
from rowtide.log.batches import Messages
from rowtide.log.postgres.stream.xlog_data import HEADER_BYTES, XLOG_DATA

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

_PADDING = bytes(8)  # so that a fixed-width read at the end stays inside the buffer; bounds are checked afterwards

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


_IDENTITIES = {"d": ImageKind.KEY, "i": ImageKind.KEY, "f": ImageKind.FULL, "n": ImageKind.NONE}
_NEW_TUPLE, _NULL, _TEXT = b"Nnt"
_KEY_FLAG = 1
_TRANSACTIONAL_FLAG = 1
_CASCADE_FLAG = 1
_RESTART_IDENTITY_FLAG = 2


@frozen
class Relation:
    """A table as its Relation message describes it, with every published column."""

    oid: int
    schema: str
    name: str
    identity: ImageKind
    columns: tuple[ColumnShape, ...]


@frozen
class TruncateStatement:
    """One TRUNCATE statement over one or more tables."""

    oids: tuple[int, ...]
    cascade: bool
    restart_identity: bool


@frozen
class LogicalMessage:
    """A message that a session wrote with `pg_logical_emit_message`."""

    transactional: bool
    prefix: str
    content: bytes


class _Fields:
    """The fields of one message, read from left to right and never beyond its end."""

    def __init__(self, frames: Frames, message: int) -> None:
        self._frames = frames
        self._message = message
        self._next = int(frames.starts[message]) + 1
        self._end = int(frames.ends[message])

    def integer(self, code: str) -> int:
        layout = struct.Struct(">" + code)
        value: int = layout.unpack(self.octets(layout.size))[0]
        return value

    def octets(self, count: int) -> bytes:
        if not 0 <= count <= self._end - self._next:
            raise self.error("a field is longer than the message")
        self._next += count
        return self._frames.buffer[self._next - count : self._next]

    def text(self) -> str:
        """Read a name up to its NUL. Bytes that are not UTF-8 (a SQL_ASCII database) are escaped."""
        end = self._frames.buffer.find(b"\0", self._next, self._end)
        if end < 0:
            raise self.error("a name has no end")
        name = self.octets(end - self._next).decode(errors="backslashreplace")
        self._next += 1
        return name

    def finish(self) -> None:
        if self._next != self._end:
            raise self.error("the message is longer than its fields")

    def error(self, problem: str) -> DecodeError:
        return self._frames.error(self._message, problem, self._next)


def parse_relation(frames: Frames, message: int) -> Relation:
    """Read a Relation message. Raises `DecodeError`."""
    fields = _Fields(frames, message)
    oid, schema, name = fields.integer("I"), fields.text(), fields.text()
    identity = _IDENTITIES.get(chr(fields.integer("B")))
    if identity is None:
        raise fields.error("unknown replica identity")
    count = fields.integer("h")
    if count < 0:
        raise fields.error("a negative number of columns")
    columns = tuple(_parse_column(fields) for _ in range(count))
    fields.finish()
    return Relation(oid, schema, name, identity, columns)


def _parse_column(fields: _Fields) -> ColumnShape:
    is_key = bool(fields.integer("B") & _KEY_FLAG)
    name = fields.text()
    return ColumnShape(name, fields.integer("I"), fields.integer("i"), is_key)


def parse_truncation(frames: Frames, message: int) -> TruncateStatement:
    """Read a Truncate message. Raises `DecodeError`."""
    fields = _Fields(frames, message)
    count, options = fields.integer("i"), fields.integer("B")
    oids = struct.unpack(f">{count}I", fields.octets(4 * count)) if count >= 0 else None
    if oids is None:
        raise fields.error("a negative number of tables")
    fields.finish()
    return TruncateStatement(oids, bool(options & _CASCADE_FLAG), bool(options & _RESTART_IDENTITY_FLAG))


def parse_inserted(frames: Frames, message: int, relation: Relation) -> dict[str, bytes | None]:
    """Read an Insert message of a table: its values by column name. Raises `DecodeError`."""
    fields = _Fields(frames, message)
    fields.integer("I")
    if fields.integer("B") != _NEW_TUPLE or fields.integer("h") != len(relation.columns):
        raise fields.error(f"the row has not the table's {len(relation.columns)} columns")
    row = {column.name: _parse_value(fields) for column in relation.columns}
    fields.finish()
    return row


def _parse_value(fields: _Fields) -> bytes | None:
    kind = fields.integer("B")
    if kind == _NULL:
        return None
    if kind != _TEXT:
        raise fields.error(f"a value of kind {printable(kind)}")
    return fields.octets(fields.integer("i"))


def parse_message(frames: Frames, message: int) -> LogicalMessage:
    """Read a logical decoding message. Raises `DecodeError`."""
    fields = _Fields(frames, message)
    transactional = bool(fields.integer("B") & _TRANSACTIONAL_FLAG)
    fields.integer("q")  # where the message itself lies in the log
    prefix = fields.text()
    content = fields.octets(fields.integer("i"))
    fields.finish()
    return LogicalMessage(transactional, prefix, content)


def parse_origin(frames: Frames, message: int) -> str:
    """Read the name in an Origin message. Raises `DecodeError`."""
    fields = _Fields(frames, message)
    fields.integer("q")  # the commit's position in the origin's own log
    name = fields.text()
    fields.finish()
    return name
