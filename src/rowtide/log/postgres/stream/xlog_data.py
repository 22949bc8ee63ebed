"""Tests of single XLogData messages before their batch is decoded.

They work on bytes without arrays: so checks that only connect to the log do not import NumPy, as the decoder does.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import islice

from rowtide.core.errors import DecodeError
from rowtide.log.membership import Announcement

XLOG_DATA = ord("w")
HEADER_BYTES = 25
"""'w', then WAL start, WAL end and send time of eight bytes each; the pgoutput message follows."""

_OID = struct.Struct(">25xxI")
_INSERT = struct.Struct(">cI")
_BEGIN = ord("B")
COMMIT = ord("C")
_MARK = b"t" + len(Announcement.MARK).to_bytes(4, "big") + Announcement.MARK.encode()
"""The column's value: text after its length."""
_LONGEST_MARK = 20
"""How many messages are searched, from the end: deletes of the same transaction may follow the inserted row."""
_END_OF_COMMIT = struct.Struct(">25xc1x8xQ")
_BEGUN = struct.Struct(">25xxQ")
_COMMITTED = struct.Struct(">25xx1xQ")


def is_commit(message: bytes) -> bool:
    """Return whether an XLogData message is a Commit: a batch may be cut after it without cutting a transaction."""
    return len(message) > HEADER_BYTES and message[HEADER_BYTES] == COMMIT


def commit_end(message: bytes) -> int:
    """Return the end LSN of a Commit, as a raw log position. Raises `DecodeError` for anything else."""
    if not is_commit(message) or len(message) < _END_OF_COMMIT.size:
        raise DecodeError(0, "C", "no complete Commit message")
    end: int = _END_OF_COMMIT.unpack_from(message)[1]
    return end


def begun_lsn(message: bytes) -> int | None:
    """Return the commit LSN in a Begin, as a raw log position; None for any other message."""
    if len(message) < _BEGUN.size or message[HEADER_BYTES] != _BEGIN:
        return None
    lsn: int = _BEGUN.unpack_from(message)[0]
    return lsn


def committed_lsn(message: bytes) -> int | None:
    """Return the commit LSN in a Commit, as a raw log position; None for any other message."""
    if not is_commit(message) or len(message) < _COMMITTED.size:
        return None
    lsn: int = _COMMITTED.unpack_from(message)[0]
    return lsn


def ends_with_mark(messages: Sequence[bytes], control_oid: int) -> bool:
    """Return whether the last transaction inserted a mark into the table of announcements."""
    if not messages or not is_commit(messages[-1]):
        return False
    insert = _INSERT.pack(b"I", control_oid)
    for message in islice(reversed(messages), 1, _LONGEST_MARK):
        if message[HEADER_BYTES] == _BEGIN:
            return False
        if message.startswith(insert, HEADER_BYTES) and _MARK in message:
            return True
    return False


def is_logical_message(message: bytes | memoryview) -> bool:
    """Return whether an XLogData message is a logical message, not a change of a table."""
    return len(message) > HEADER_BYTES and message[HEADER_BYTES] == ord("M")


def described_oid(message: bytes) -> int | None:
    """Return the oid in a Relation message, None for any other message."""
    if len(message) < _OID.size or message[HEADER_BYTES] != ord("R"):
        return None
    oid: int = _OID.unpack_from(message)[0]
    return oid
