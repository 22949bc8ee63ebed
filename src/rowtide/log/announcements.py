"""What rowtide itself writes into the log: rows of the table `rowtide.control`, inserted by the announcing transaction.

Who may write that table may announce: its owner, who is the owner of the database's metadata, and nobody else. An
earlier build emitted logical messages instead, which any role can emit; see `ManifestState.reads_messages`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SCHEMA, TABLE = "rowtide", "control"
"""The table's name: its schema is that of the log's metadata, in which only their owner makes anything."""

MESSAGE_PREFIX = "rowtide."
"""What stands before the kind in the prefix of an earlier build's logical messages."""


class Announcement(StrEnum):
    """The kind of a row of `rowtide.control`; what its content is depends on it."""

    ENABLE = "enable"
    """A member begins."""
    DISABLE = "disable"
    """A member ends."""
    DDL = "ddl"
    """A statement altered a table; written by an event trigger."""
    HEARTBEAT = "heartbeat"
    TRACER = "tracer"
    MARK = "mark"
    """A place in the log; no content, and nobody reads it."""
    UPGRADE = "upgrade"
    """From here on logical messages announce nothing."""


@dataclass(frozen=True, slots=True)
class ControlRow:
    """A mark or a heartbeat, by which the server is known that wrote the row: its transaction's id, and when.

    `written_at` is the text that the server sends for it, in UTC.
    """

    xid: int
    written_at: str


def later_row(one: ControlRow | None, other: ControlRow | None) -> ControlRow | None:
    """Return the row of the later transaction, of rows of one transaction the second: ids never go back."""
    if one is None or other is None:
        return other or one
    return one if one.xid > other.xid else other
