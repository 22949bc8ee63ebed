"""Announcements in the log: rows of `rowtide.control`.

A row counts only in the transaction that its column `xid` names. A row that a restore or a replica copied announces
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime

from rowtide.core.lsn import CommitLsn
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
from rowtide.log.postgres.pgoutput.messages import Relation

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
