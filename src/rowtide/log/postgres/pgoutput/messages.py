"""The rare messages of pgoutput, parsed one at a time: Relation, Truncate, Message, Origin.

Layouts: PostgreSQL documentation, "Logical Replication Message Formats", protocol version 1.
"""

from __future__ import annotations

import struct

from rowtide.core.errors import DecodeError
from rowtide.core.tables import ColumnShape, ImageKind
from rowtide.core.values import frozen
from rowtide.log.postgres.pgoutput.frames import Frames, printable

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
