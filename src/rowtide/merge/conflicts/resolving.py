"""List stored conflicts, and change their outcome afterwards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from sqlalchemy import RowMapping, or_, select, update

from rowtide.merge.articles import INTEGERS, Article, Publication
from rowtide.merge.catalogue import find_article, get_publication, list_articles, list_publications, read_nickname
from rowtide.merge.conflicts.records import ConflictType, decode_row
from rowtide.merge.conflicts.resolution import Winner
from rowtide.merge.definitions import conflicts_info
from rowtide.merge.errors.inspection import ConflictNotAtHub, ConflictOfSubscriber, ConflictUnknown, ParentInInbox
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.retry import transact_at
from rowtide.merge.progress import as_utc, drop_retries
from rowtide.merge.versions.changes import Known, Row, TombstoneType, Write
from rowtide.merge.versions.comparison import Presence
from rowtide.merge.versions.lineage import Lineage, encode_columns
from rowtide.merge.versions.references import with_key

_SETTLED = (
    ConflictType.UPDATE_CONFLICT,
    ConflictType.COLUMN_UPDATE_CONFLICT,
    ConflictType.UPDATE_DELETE_WINS_CONFLICT,
    ConflictType.UPDATE_WINS_DELETE_CONFLICT,
    ConflictType.RECORD_DELETE_WINS_CONFLICT,
    ConflictType.RECORD_UPDATE_CONFLICT,
    ConflictType.RECORD_UPDATE_WINS_CONFLICT,
    ConflictType.UPLOAD_ROW_NOT_HELD,
)
"""Types of conflicts whose winner all nodes have, or get, anyway."""

_NOT_TAKEN_THERE = (
    ConflictType.DOWNLOAD_INSERT_FAILED,
    ConflictType.DOWNLOAD_UPDATE_FAILED,
    ConflictType.DOWNLOAD_DELETE_FAILED,
)


@dataclass(frozen=True, slots=True)
class KeptConflict:
    """A stored conflict (SQL Server: sp_helpmergeconflictrows, sp_helpmergedeleteconflictrows).

    Rows are JSON objects of texts; None stands for a delete.
    """

    conflict_id: str
    publication: str
    article: str
    rowguid: str
    conflict_type: int
    conflict: str
    origin_datasource: str
    reason_code: str
    reason_text: str
    losing_row: str | None
    winning_row: str | None
    create_time: datetime
    resolved_time: datetime | None
    losing_lineage: bytes = field(repr=False)
    parents: str | None = field(repr=False)
    origin: int = field(repr=False)


def list_conflicts(node: Node, publication: str | None = None, article: str | None = None) -> Sequence[KeptConflict]:
    """Return the conflicts that a node keeps, oldest first.

    Raises `MergePublicationUnknown`, `MergeArticleUnknown`.
    """
    names = {each.pubid: each.name for each in list_publications(node.connection)}
    statement = select(conflicts_info)
    if publication is not None:
        found = get_publication(node.connection, publication)
        statement = statement.where(conflicts_info.c.pubid == found.pubid)
        if article is not None:
            chosen = find_article(found, list_articles(node.connection, found.pubid), article)
            statement = statement.where(conflicts_info.c.tablenick == chosen.nickname)
    ordered = statement.order_by(conflicts_info.c.MSrepl_create_time, conflicts_info.c.conflict_id)
    return [_kept(row, names) for row in node.connection.execute(ordered).mappings()]


def get_conflict(node: Node, conflict_id: str) -> KeptConflict:
    """Return a stored conflict. Raises `ConflictUnknown`."""
    names = {each.pubid: each.name for each in list_publications(node.connection)}
    found = select(conflicts_info).where(conflicts_info.c.conflict_id == conflict_id)
    row = node.connection.execute(found).mappings().one_or_none()
    if row is None:
        raise ConflictUnknown(conflict_id)
    return _kept(row, names)


def resolve_conflict(hub: Node, conflict_id: str, winner: Winner) -> bool:
    """Let the other side win; return whether a row was written, which all nodes then receive as the hub's own change.

    Rows that lost with a parent return with it, or stay away with it. Columns that the table did not have then keep
    their values, or get their defaults. Raises `ConflictUnknown`; `ConflictNotAtHub`; `ConflictOfSubscriber` for a row
    that the subscriber refused; `ParentInInbox` if a parent of the row is not there; `RowsRefused` if the hub refuses
    the row.
    """
    conflict = get_conflict(hub, conflict_id)
    publication = get_publication(hub.connection, conflict.publication)
    if publication.publisher != read_nickname(hub.connection):
        raise ConflictNotAtHub(conflict_id)
    if conflict.conflict_type in _NOT_TAKEN_THERE:
        raise ConflictOfSubscriber(conflict_id)
    return transact_at(hub, partial(_settle, hub, publication, conflict, winner))


def _settle(hub: Node, publication: Publication, conflict: KeptConflict, winner: Winner) -> bool:
    listed = list_articles(hub.connection, publication.pubid)
    article = find_article(publication, listed, conflict.article)
    loser = Winner.PUBLISHER if conflict.origin == publication.publisher else Winner.SUBSCRIBER
    is_written = winner is loser or conflict.conflict_type not in _SETTLED
    if winner is loser and conflict.losing_row is not None:
        _restore(hub, publication, listed, conflict)
    elif is_written:
        known = hub.read_known(article, [conflict.rowguid]).get(conflict.rowguid)
        present = hub.read_rows(article, [conflict.rowguid]).get(conflict.rowguid)
        hub.write(article, [_decision(article, conflict, known, None if winner is loser else present)])
        if winner is not loser:
            drop_retries(hub.connection, conflict.origin, article.nickname, [conflict.rowguid])
    _conclude(hub, conflict)
    for child in _descendants(hub, publication, conflict):
        if winner is loser:
            _restore(hub, publication, listed, child)
        _conclude(hub, child)
    return is_written


def _conclude(hub: Node, conflict: KeptConflict) -> None:
    mine = conflicts_info.c.conflict_id == conflict.conflict_id
    hub.connection.execute(update(conflicts_info).where(mine).values(resolved_time=datetime.now(UTC)))


def _restore(hub: Node, publication: Publication, listed: Sequence[Article], conflict: KeptConflict) -> None:
    """Write a losing row with the keys that its parents have, and a new one if another row has its own.

    Raises `ParentInInbox` if a parent is not at the hub.
    """
    assert conflict.losing_row is not None
    article, row = decode_row(find_article(publication, listed, conflict.article), conflict.losing_row)
    parents = {each.nickname: each for each in listed}
    rowguids: list[str | None] = json.loads(conflict.parents) if conflict.parents else []
    for reference, rowguid in zip(article.references, rowguids, strict=False):
        parent = parents.get(reference.parent)
        if rowguid is not None and parent is not None:
            key = hub.read_rows(parent.only(reference.parent_columns), [rowguid]).get(rowguid)
            if key is None:
                raise ParentInInbox(conflict.conflict_id, article.name, parent.name, rowguid)
            row = with_key(article, reference, row, key)
    known = hub.read_known(article, [conflict.rowguid]).get(conflict.rowguid)
    present = hub.read_rows(article, [conflict.rowguid]).get(conflict.rowguid)
    if hub.find_key_holder(article, row) not in (None, conflict.rowguid):
        row = _with_free_key(hub, article, row, present)
    hub.write(article, [_decision(article, conflict, known, row)])


def _with_free_key(hub: Node, article: Article, row: Row, present: Row | None) -> Row:
    """Return a row with the key that it has now, or the next one that is free, which only single numbers get."""
    places = [place for place, column in enumerate(article.columns) if column.key_ordinal is not None]
    if present is not None:
        return tuple(present[place] if place in places else value for place, value in enumerate(row))
    if len(places) != 1 or article.columns[places[0]].type_text not in INTEGERS:
        return row
    (key,) = hub.next_keys(article, 1)
    return (*row[: places[0]], key, *row[places[0] + 1 :])


def _descendants(hub: Node, publication: Publication, conflict: KeptConflict) -> list[KeptConflict]:
    """Return the unresolved conflicts of rows that lost with another, parents before their children."""
    found: dict[str, KeptConflict] = {}
    above = [conflict.rowguid]
    while above:
        is_open = conflicts_info.c.resolved_time.is_(None) & (conflicts_info.c.pubid == publication.pubid)
        is_child = or_(*(conflicts_info.c.parents.contains(rowguid) for rowguid in above))
        rows = hub.connection.execute(select(conflicts_info).where(is_open & is_child)).mappings()
        below = {each.conflict_id: each for each in (_kept(row, {publication.pubid: publication.name}) for row in rows)}
        new = {conflict_id: each for conflict_id, each in below.items() if conflict_id not in found}
        found |= new
        above = [each.rowguid for each in new.values()]
    return list(found.values())


def _decision(article: Article, conflict: KeptConflict, known: Known | None, row: Row | None) -> Write:
    """Return a row as the hub's own change that includes the current version and the losing one."""
    lineage, columns = Lineage.decode(conflict.losing_lineage), None
    if known is not None:
        lineage = lineage.joined(known.version.lineage)
        columns = None if known.version.columns is None else encode_columns(known.version.columns)
    return Write(
        rowguid=conflict.rowguid,
        row=row,
        is_live=known is not None and known.version.presence is Presence.LIVE,
        lineage=lineage.encode(),
        last=None,
        columns=columns,
        origin=None,
        own_columns=frozenset(range(len(article.columns))) if article.column_tracking else frozenset(),
        tombstone=TombstoneType.USER if known is not None else TombstoneType.SYSTEM,
    )


def _kept(row: RowMapping, names: dict[str, str]) -> KeptConflict:
    resolved = row["resolved_time"]
    return KeptConflict(
        conflict_id=row["conflict_id"],
        publication=names[row["pubid"]],
        article=row["article"],
        rowguid=row["rowguid"],
        conflict_type=row["conflict_type"],
        conflict=ConflictType(row["conflict_type"]).name.lower().replace("_", " "),
        origin_datasource=row["origin_datasource"],
        reason_code=row["reason_code"],
        reason_text=row["reason_text"],
        losing_row=row["losing_row"],
        winning_row=row["winning_row"],
        create_time=as_utc(row["MSrepl_create_time"]),
        resolved_time=None if resolved is None else as_utc(resolved),
        losing_lineage=bytes(row["losing_lineage"]),
        parents=row["parents"],
        origin=row["origin_datasource_id"],
    )
