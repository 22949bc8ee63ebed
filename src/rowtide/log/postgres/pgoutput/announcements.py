"""Announcements in the log: rows of `rowtide.control`.

A row counts only in the transaction that its column `xid` names, so a row that was copied by a restore or a replica
announces nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime

from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.log import membership
from rowtide.log.postgres.pgoutput.messages import Relation

HEAD = f"{membership.SCHEMA}\0{membership.TABLE}\0".encode()
"""The bytes of the table's Relation message after the oid."""

_WITHOUT_RECORD = (membership.Announcement.HEARTBEAT, membership.Announcement.TRACER, membership.Announcement.MARK)
_OF_LOG_LAYER = (membership.Announcement.HEARTBEAT, membership.Announcement.MARK)
"""Never written in a subtransaction, unlike those of event triggers."""


@frozen
class Announced:
    """An announcement; `payload` is the content of its log record, if it has one. `row` is that of a mark or a
    heartbeat.
    """

    kind: str
    content: str
    row: membership.ControlRow | None = None

    @property
    def has_record(self) -> bool:
        return self.kind not in _WITHOUT_RECORD

    def payload(self) -> str:
        return json.dumps({"kind": self.kind, "content": self.content}, ensure_ascii=False)


def is_control(relation: Relation) -> bool:
    """Return whether a table is the table of announcements; no other role can create a table of that name."""
    return (relation.schema, relation.name) == (membership.SCHEMA, membership.TABLE)


def of_row(row: Mapping[str, bytes | None], xid: int) -> Announced | None:
    """Return what a row announces; None if it was not written by this transaction. Raises `ValueError`."""
    written_by, written_at, kind, content = (row.get(name) for name in ("xid", "written_at", "kind", "content"))
    if written_by != str(xid).encode():
        return None
    if kind is None or content is None:
        raise ValueError("it has no kind or no content")
    name = kind.decode(errors="backslashreplace")
    is_named = name in _OF_LOG_LAYER
    written = membership.ControlRow(xid, written_at.decode()) if is_named and written_at is not None else None
    return Announced(name, _as_json(content), written)


_UNDECODABLE = re.compile("[\udc80-\udcff]")
_MISSING_VALUE = re.compile(r'("missing_value"\s*:\s*)"((?:[^"\\]|\\.)*)"')


def _as_json(content: bytes) -> str:
    """Return an announcement's JSON. Bytes that are not UTF-8 (a SQL_ASCII database) are escaped as they are in names.

    A column's first value has none in place of them: another value is worse than one that is not known.
    """
    text = content.decode(errors="surrogateescape")
    if _UNDECODABLE.search(text) is None:
        return text
    text = _MISSING_VALUE.sub(lambda found: f"{found[1]}null" if _UNDECODABLE.search(found[2]) else found[0], text)
    # Two backslashes: in JSON one escapes the next character.
    return _UNDECODABLE.sub(lambda found: rf"\\x{ord(found[0]) - 0xDC00:02x}", text)


def read_event(announced: Announced, lsn: CommitLsn, time: datetime) -> membership.Event | None:
    """Return the event of an announcement, None for a mark. Raises `ValueError` for unexpected content."""
    read = _READ.get(announced.kind)
    if read is None:
        raise ValueError("this version of rowtide does not know that kind")
    return read(announced.content, lsn, time)


_READ: dict[str, Callable[[str, CommitLsn, datetime], membership.Event | None]] = {
    membership.Announcement.ENABLE: lambda content, lsn, _time: membership.Enabled(
        lsn, membership.decode_member(content)
    ),
    membership.Announcement.DISABLE: lambda content, lsn, _time: membership.Disabled(
        lsn, membership.decode_disable(content)
    ),
    membership.Announcement.DDL: lambda content, lsn, _time: membership.Altered(
        lsn, membership.decode_alteration(content)
    ),
    membership.Announcement.HEARTBEAT: lambda _content, lsn, time: membership.Heartbeat(lsn, time),
    membership.Announcement.TRACER: membership.decode_token,
    membership.Announcement.MARK: lambda _content, _lsn, _time: None,
}
