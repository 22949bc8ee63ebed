"""The rare messages of pgoutput, parsed one at a time, and the announcements in rows of `rowtide.control`.

Layouts: PostgreSQL documentation, "Logical Replication Message Formats", protocol version 1.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from datetime import datetime

from rowtide.core.errors import DecodeError
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import ColumnShape, ImageKind
from rowtide.core.values import frozen
from rowtide.log.announcements import SCHEMA, TABLE, Announcement, ControlRow, decode_alteration
from rowtide.log.membership import (
    Altered,
    Disabled,
    Enabled,
    Event,
    Heartbeat,
    decode_disable,
    decode_member,
    decode_token,
)
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


# Announcements in the log: rows of `rowtide.control`. A row counts only in the transaction that its column `xid`
# names. A row that a restore or a replica copied announces nothing.

HEAD = f"{SCHEMA}\0{TABLE}\0".encode()
"""The bytes of the table's Relation message after the oid."""

_WITHOUT_RECORD = (Announcement.HEARTBEAT, Announcement.TRACER, Announcement.MARK)
_OF_LOG_LAYER = (Announcement.HEARTBEAT, Announcement.MARK)
"""Never written in a subtransaction, unlike those of event triggers."""


@frozen
class Announced:
    """An announcement; `payload` is the content of its log record, if it has one. `row` is that of a mark or a
    heartbeat.
    """

    kind: str
    content: str
    row: ControlRow | None = None

    @property
    def has_record(self) -> bool:
        return self.kind not in _WITHOUT_RECORD

    def payload(self) -> str:
        return json.dumps({"kind": self.kind, "content": self.content}, ensure_ascii=False)


def is_control(relation: Relation) -> bool:
    """Return whether a table is the table of announcements; no other role can create a table of that name."""
    return (relation.schema, relation.name) == (SCHEMA, TABLE)


def of_row(row: Mapping[str, bytes | None], xid: int) -> Announced | None:
    """Return what a row announces; None if it was not written by this transaction. Raises `ValueError`."""
    written_by, written_at, kind, content = (row.get(name) for name in ("xid", "written_at", "kind", "content"))
    if written_by != str(xid).encode():
        return None
    if kind is None or content is None:
        raise ValueError("it has no kind or no content")
    name = kind.decode(errors="backslashreplace")
    is_named = name in _OF_LOG_LAYER
    written = ControlRow(xid, written_at.decode()) if is_named and written_at is not None else None
    return Announced(name, content.decode(), written)


def read_event(announced: Announced, lsn: CommitLsn, time: datetime) -> Event | None:
    """Return the event of an announcement, None for a mark. Raises `ValueError` for unexpected content."""
    read = _READ.get(announced.kind)
    if read is None:
        raise ValueError("this version of rowtide does not know that kind")
    return read(announced.content, lsn, time)


_READ: dict[str, Callable[[str, CommitLsn, datetime], Event | None]] = {
    Announcement.ENABLE: lambda content, lsn, _time: Enabled(lsn, decode_member(content)),
    Announcement.DISABLE: lambda content, lsn, _time: Disabled(lsn, decode_disable(content)),
    Announcement.DDL: lambda content, lsn, _time: Altered(lsn, decode_alteration(content)),
    Announcement.HEARTBEAT: lambda _content, lsn, time: Heartbeat(lsn, time),
    Announcement.TRACER: decode_token,
    Announcement.MARK: lambda _content, _lsn, _time: None,
}
