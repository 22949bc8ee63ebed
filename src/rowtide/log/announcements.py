"""What rowtide itself writes into the log: rows of the table `rowtide.control`, inserted by the announcing transaction.

Only the table's owner, who also owns the database's metadata, can write it, so only the owner can announce.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SCHEMA, TABLE = "rowtide", "control"
"""The table's schema and name; the schema holds the log's metadata, and only their owner can create objects in it."""


class Announcement(StrEnum):
    """The kind of a row of `rowtide.control`; it determines the row's content."""

    ENABLE = "enable"
    """A member begins."""
    DISABLE = "disable"
    """A member ends."""
    DDL = "ddl"
    """A statement altered a table; written by an event trigger."""
    HEARTBEAT = "heartbeat"
    TRACER = "tracer"
    MARK = "mark"
    """A place in the log, without content; no reader acts on it."""


@dataclass(frozen=True, slots=True)
class ControlRow:
    """A mark or a heartbeat: the id of the transaction that wrote the row, and when. It identifies the server that
    wrote it.

    `written_at` is the text that the server sends for it, in UTC.
    """

    xid: int
    written_at: str


def later_row(one: ControlRow | None, other: ControlRow | None) -> ControlRow | None:
    """Return the row of the later transaction; of rows of one transaction the second. Transaction ids only increase."""
    if one is None or other is None:
        return other or one
    return one if one.xid > other.xid else other
