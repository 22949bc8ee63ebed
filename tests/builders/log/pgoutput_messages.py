"""Messages of pgoutput, protocol version 1, as the server sends them, and what carries them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

Value = bytes | str | None


@dataclass(frozen=True)
class Unsent:
    """A value that the server omitted because it did not change and lies out of line."""


UNSENT = Unsent()
Cell = Value | Unsent


@dataclass(frozen=True)
class ColumnSpec:
    name: str
    type_oid: int = 25
    typmod: int = -1
    is_key: bool = False


def framed(payload: bytes, *, wal_start: int = 0, wal_end: int = 0) -> bytes:
    return b"w" + struct.pack(">QQq", wal_start, wal_end, 0) + payload


def begin(lsn: int, *, time: int = 0, xid: int = 700) -> bytes:
    return framed(b"B" + struct.pack(">QqI", lsn, time, xid))


def commit(lsn: int, *, end: int | None = None, time: int = 0) -> bytes:
    end = lsn + 8 if end is None else end
    return framed(b"C" + struct.pack(">BQQq", 0, lsn, end, time))


def origin(name: str, *, lsn: int = 0) -> bytes:
    return framed(b"O" + struct.pack(">Q", lsn) + _name(name))


def relation(
    oid: int, columns: Sequence[ColumnSpec | str], *, schema: str = "public", name: str = "t", identity: str = "d"
) -> bytes:
    specs = [ColumnSpec(c) if isinstance(c, str) else c for c in columns]
    body = b"".join(
        struct.pack(">B", c.is_key) + _name(c.name) + struct.pack(">Ii", c.type_oid, c.typmod) for c in specs
    )
    head = struct.pack(">I", oid) + _name(schema) + _name(name) + identity.encode()
    return framed(b"R" + head + struct.pack(">h", len(specs)) + body)


def type_message(oid: int = 90001, name: str = "mood") -> bytes:
    return framed(b"Y" + struct.pack(">I", oid) + _name("public") + _name(name))


def insert(oid: int, *after: Cell) -> bytes:
    return framed(b"I" + struct.pack(">I", oid) + b"N" + row(after))


def update(oid: int, *after: Cell, old: Sequence[Cell] | None = None, key: Sequence[Cell] | None = None) -> bytes:
    return framed(b"U" + struct.pack(">I", oid) + _old_row(old, key) + b"N" + row(after))


def delete(oid: int, *, old: Sequence[Cell] | None = None, key: Sequence[Cell] | None = None) -> bytes:
    return framed(b"D" + struct.pack(">I", oid) + _old_row(old, key))


def truncate(*oids: int, cascade: bool = False, restart_identity: bool = False) -> bytes:
    options = cascade | restart_identity << 1
    return framed(b"T" + struct.pack(f">iB{len(oids)}I", len(oids), options, *oids))


def logical_message(prefix: str, content: bytes | str, *, transactional: bool = True, lsn: int = 0) -> bytes:
    octets = content.encode() if isinstance(content, str) else content
    head = struct.pack(">BQ", transactional, lsn) + _name(prefix)
    return framed(b"M" + head + struct.pack(">i", len(octets)) + octets)


def row(cells: Sequence[Cell]) -> bytes:
    return struct.pack(">h", len(cells)) + b"".join(map(_cell, cells))


def _cell(cell: Cell) -> bytes:
    if cell is None:
        return b"n"
    if isinstance(cell, Unsent):
        return b"u"
    octets = cell.encode() if isinstance(cell, str) else cell
    return b"t" + struct.pack(">i", len(octets)) + octets


def _old_row(old: Sequence[Cell] | None, key: Sequence[Cell] | None) -> bytes:
    if old is not None:
        return b"O" + row(old)
    if key is not None:
        return b"K" + row(key)
    return b""


def _name(text: str) -> bytes:
    return text.encode() + b"\0"
