"""Conflicts as they are recorded: the losing version, the winning one, and the reason."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum

from sqlalchemy import ColumnElement, Connection, delete, insert, literal, select, update

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.definitions import (
    LACKS_CHARACTERS,
    conflicts_info,
    retries,
    subscriptions,
)
from rowtide.merge.versions.changes import Row, RowChange
from rowtide.merge.versions.comparison import (
    ConcurrentChangeKind,
    Conflict,
    RowVersion,
    columns_lost,
)

Stored = Mapping[str, str | None] | list[str] | None
"""What a conflict's JSON holds: a row by column name, names of columns, or the absence of a row."""


class ConflictType(IntEnum):
    """What conflicted (SQL Server: MSmerge_conflicts_info.conflict_type)."""

    UPDATE_CONFLICT = 1
    COLUMN_UPDATE_CONFLICT = 2
    UPDATE_DELETE_WINS_CONFLICT = 3
    UPDATE_WINS_DELETE_CONFLICT = 4
    UPLOAD_INSERT_FAILED = 5
    DOWNLOAD_INSERT_FAILED = 6
    UPLOAD_DELETE_FAILED = 7
    DOWNLOAD_DELETE_FAILED = 8
    UPLOAD_UPDATE_FAILED = 9
    DOWNLOAD_UPDATE_FAILED = 10
    RECORD_DELETE_WINS_CONFLICT = 12
    RECORD_UPDATE_CONFLICT = 13
    RECORD_UPDATE_WINS_CONFLICT = 14
    UPLOAD_ROW_NOT_HELD = 20
    """SQL Server has no such type."""


_REASONS = {
    ConflictType.UPDATE_CONFLICT: "the same row was updated at both nodes",
    ConflictType.COLUMN_UPDATE_CONFLICT: "the same column was updated at both nodes",
    ConflictType.UPDATE_DELETE_WINS_CONFLICT: "a row that was deleted at one node was updated at the other: it is gone",
    ConflictType.UPDATE_WINS_DELETE_CONFLICT: "a row that was updated at one node was deleted at the other: it stays",
    ConflictType.RECORD_DELETE_WINS_CONFLICT: "the other node's logical record remained, which does not have the row",
    ConflictType.RECORD_UPDATE_CONFLICT: "the other node's logical record remained, in which the row is another",
    ConflictType.RECORD_UPDATE_WINS_CONFLICT: "the other node's logical record remained, which has the row",
}

AS_WON: Row = ()
"""Stands for the winning row; no row is without columns."""
_INVALID = re.compile("[\ud800-\udfff]")
REFUSALS = (
    ConflictType.DOWNLOAD_INSERT_FAILED,
    ConflictType.DOWNLOAD_UPDATE_FAILED,
    ConflictType.DOWNLOAD_DELETE_FAILED,
)
"""What a subscriber says of the hub's rows."""
_FAILURES = (
    *REFUSALS,
    ConflictType.UPLOAD_INSERT_FAILED,
    ConflictType.UPLOAD_UPDATE_FAILED,
    ConflictType.UPLOAD_DELETE_FAILED,
)


@frozen
class ConflictRecord:
    """A conflict; a row is None if that side had deleted it.

    `origin` is the nickname of the node whose version lost, `origin_datasource` its name; `parents` are the rows that
    the losing row references, as in `RowChange`; `losing_columns` are those that the losing version changed, None for
    all. `settled_row` is the row as the hub was left with, where that is not the winning one as it was read there.
    """

    conflict_id: str
    pubid: str
    article: Article
    rowguid: str
    conflict_type: ConflictType
    origin: int
    reason_code: str
    reason_text: str
    losing_row: Row | None
    winning_row: Row | None
    losing_lineage: bytes
    origin_datasource: str
    parents: tuple[str | None, ...] = ()
    losing_columns: tuple[str, ...] | None = None
    settled_row: Row | None = AS_WON


def type_of(conflict: Conflict, *, update_wins: bool) -> ConflictType:
    """Return SQL Server's conflict type, which depends on the winner."""
    if conflict.kind is ConcurrentChangeKind.UPDATE_UPDATE:
        return ConflictType.COLUMN_UPDATE_CONFLICT if conflict.columns else ConflictType.UPDATE_CONFLICT
    return ConflictType.UPDATE_WINS_DELETE_CONFLICT if update_wins else ConflictType.UPDATE_DELETE_WINS_CONFLICT


def failure_type(change: RowChange, *, is_upload: bool, is_live: bool) -> ConflictType:
    """Return SQL Server's conflict type of a change that a node refused."""
    if change.row is None:
        return ConflictType.UPLOAD_DELETE_FAILED if is_upload else ConflictType.DOWNLOAD_DELETE_FAILED
    if is_live:
        return ConflictType.UPLOAD_UPDATE_FAILED if is_upload else ConflictType.DOWNLOAD_UPDATE_FAILED
    return ConflictType.UPLOAD_INSERT_FAILED if is_upload else ConflictType.DOWNLOAD_INSERT_FAILED


def reason_of(conflict_type: ConflictType) -> str:
    """Describe a conflict type in words."""
    return _REASONS[conflict_type]


def identify(rowguid: str, *versions: bytes) -> str:
    """Return the id of a conflict: the same two versions of a row always give the same id."""
    return hashlib.sha256(b"/".join([rowguid.encode(), *versions])).hexdigest()[:32]


def names_lost(article: Article, lost: RowVersion, won: RowVersion | None) -> tuple[str, ...] | None:
    """Return the columns that a version changed without the other's knowledge; None: the whole row."""
    places = None if won is None else columns_lost(lost, won)
    return None if places is None else tuple(article.columns[place].name for place in sorted(places))


def identify_refusal(rowguid: str, losing_lineage: bytes, code: str, subid: str) -> str:
    """Return the id, at the hub, of a subscriber's refusal of a row, which says whose refusal it is."""
    return identify(rowguid, losing_lineage, code.encode(), subid.encode())


def settle_failures(connection: Connection, article: Article, rowguids: Sequence[str], source: int) -> None:
    """Mark conflicts of rows as settled that this node refused of `source`, and has accepted since.

    In the caller's transaction.
    """
    is_open = _open_failures(article, rowguids) & (conflicts_info.c.origin_datasource_id == source)
    connection.execute(update(conflicts_info).where(is_open).values(resolved_time=datetime.now(UTC)))


def settle_refusals(connection: Connection, article: Article, rowguids: Sequence[str], subid: str) -> None:
    """Mark conflicts of rows as settled that a subscriber refused, and has accepted since; those of no other one.

    In the caller's transaction.
    """
    c = conflicts_info.c
    is_open = _open_failures(article, rowguids) & c.conflict_type.in_(REFUSALS)
    listed = connection.execute(select(c.conflict_id, c.rowguid, c.losing_lineage, c.reason_code).where(is_open)).all()
    if not listed:
        return
    others = connection.execute(select(subscriptions.c.subid).where(subscriptions.c.subid != subid)).scalars().all()
    settled = [
        row.conflict_id
        for row in listed
        # Earlier versions recorded one conflict for all who refuse a version.
        if all(
            row.conflict_id != identify_refusal(row.rowguid, bytes(row.losing_lineage), row.reason_code, other)
            for other in others
        )
    ]
    of_ids = c.conflict_id.in_(settled)
    connection.execute(update(conflicts_info).where(of_ids).values(resolved_time=datetime.now(UTC)))


def _open_failures(article: Article, rowguids: Sequence[str]) -> ColumnElement[bool]:
    c = conflicts_info.c
    of_rows = (c.tablenick == article.nickname) & c.rowguid.in_(rowguids)
    return of_rows & c.resolved_time.is_(None) & c.conflict_type.in_(_FAILURES)


def record(connection: Connection, conflict: ConflictRecord) -> None:
    """Write a conflict in the caller's transaction. Idempotent: a known id is not written again."""
    values = {
        "conflict_id": conflict.conflict_id,
        "pubid": conflict.pubid,
        "article": conflict.article.name,
        "tablenick": conflict.article.nickname,
        "rowguid": conflict.rowguid,
        "conflict_type": int(conflict.conflict_type),
        "origin_datasource": conflict.origin_datasource,
        "origin_datasource_id": conflict.origin,
        "reason_code": conflict.reason_code,
        "reason_text": conflict.reason_text,
        "losing_row": _encode_row(connection, conflict.article, conflict.losing_row),
        "winning_row": _encode_row(connection, conflict.article, conflict.winning_row),
        "losing_lineage": conflict.losing_lineage,
        "parents": json.dumps(conflict.parents) if any(conflict.parents) else None,
        "losing_columns": None if conflict.losing_columns is None else json.dumps(conflict.losing_columns),
        "settled_row": (
            None
            if conflict.settled_row in (AS_WON, conflict.winning_row)
            else encode_presence(connection, conflict.article, conflict.settled_row)
        ),
    }
    known = conflicts_info.alias()
    is_known = select(known.c.conflict_id).where(known.c.conflict_id == conflict.conflict_id).exists()
    row = select(*(literal(value, conflicts_info.c[name].type) for name, value in values.items())).where(~is_known)
    connection.execute(insert(conflicts_info).from_select(list(values), row, include_defaults=False))


def forget_conflicts(connection: Connection, pubid: str, before: datetime) -> None:
    """Remove a publication's conflicts older than a time, in the caller's transaction.

    Those of rows that are still refused stay.
    """
    is_asked = (retries.c.tablenick == conflicts_info.c.tablenick) & (retries.c.rowguid == conflicts_info.c.rowguid)
    is_old = (conflicts_info.c.pubid == pubid) & (conflicts_info.c.MSrepl_create_time < before)
    connection.execute(delete(conflicts_info).where(is_old & ~select(retries.c.rowguid).where(is_asked).exists()))


def _encode_row(connection: Connection, article: Article, row: Row | None) -> str | None:
    """Return a row as a JSON object of texts, by column name."""
    if row is None:
        return None
    return _encode(connection, {column.name: value for column, value in zip(article.columns, row, strict=True)})


def encode_presence(connection: Connection, article: Article, row: Row | None) -> str:
    """Return a row as `record` writes it, or JSON's null for the absence of one."""
    return _encode_row(connection, article, row) or json.dumps(None)


def rename_columns(connection: Connection, pubid: str, nickname: int, renamed: Mapping[str, str]) -> None:
    """Let the stored rows of an article have its columns' new names, in the caller's transaction."""
    c = conflicts_info.c
    named = (c.losing_row, c.winning_row, c.losing_columns, c.settled_row, c.replaced_row)
    kept = select(c.conflict_id, *named).where((c.pubid == pubid) & (c.tablenick == nickname))
    for conflict_id, *texts in connection.execute(kept).all() if renamed else ():
        values = {
            column.name: None if text is None else _encode(connection, _renamed(json.loads(text), renamed))
            for column, text in zip(named, texts, strict=True)
        }
        connection.execute(update(conflicts_info).where(c.conflict_id == conflict_id).values(values))


def _renamed(stored: Stored, renamed: Mapping[str, str]) -> Stored:
    if isinstance(stored, list):
        return [renamed.get(name, name) for name in stored]
    return None if stored is None else {renamed.get(name, name): value for name, value in stored.items()}


def _encode(connection: Connection, values: Stored) -> str:
    """Return JSON, with its own escapes for characters that the database may not have, and for what is not UTF-8."""
    encoded = json.dumps(values, ensure_ascii=bool(connection.info.get(LACKS_CHARACTERS)))
    return _INVALID.sub(lambda found: f"\\u{ord(found.group()):04x}", encoded)
