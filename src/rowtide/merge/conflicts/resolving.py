"""List stored conflicts, and change their outcome afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from sqlalchemy import RowMapping, select, update

from rowtide.merge.articles import Article, Publication
from rowtide.merge.catalogue import find_article, get_publication, list_articles, list_publications, read_nickname
from rowtide.merge.conflicts.records import ConflictType, decode_row
from rowtide.merge.conflicts.resolution import Winner
from rowtide.merge.definitions import conflicts_info
from rowtide.merge.errors import ConflictNotAtHub, ConflictOfSubscriber, ConflictUnknown
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.retry import transact_at
from rowtide.merge.progress import as_utc, drop_retries
from rowtide.merge.versions.changes import Known, Row, TombstoneType, Write
from rowtide.merge.versions.comparison import Presence
from rowtide.merge.versions.lineage import Lineage, encode_columns

_CONCURRENT = (
    ConflictType.UPDATE_CONFLICT,
    ConflictType.COLUMN_UPDATE_CONFLICT,
    ConflictType.UPDATE_DELETE_WINS_CONFLICT,
    ConflictType.UPDATE_WINS_DELETE_CONFLICT,
    ConflictType.RECORD_DELETE_WINS_CONFLICT,
    ConflictType.RECORD_UPDATE_CONFLICT,
    ConflictType.RECORD_UPDATE_WINS_CONFLICT,
)

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


def resolve_conflict(hub: Node, conflict_id: str, winner: Winner) -> bool:
    """Let the other side win; return whether a row was written, which all nodes then receive as the hub's own change.

    Raises `ConflictUnknown`; `ConflictNotAtHub`; `ConflictOfSubscriber` for a row that the subscriber refused;
    `RowsRefused` if the hub refuses the row.
    """
    names = {each.pubid: each.name for each in list_publications(hub.connection)}
    found = hub.connection.execute(select(conflicts_info).where(conflicts_info.c.conflict_id == conflict_id)).mappings()
    row = found.one_or_none()
    if row is None:
        raise ConflictUnknown(conflict_id)
    conflict = _kept(row, names)
    publication = get_publication(hub.connection, conflict.publication)
    if publication.publisher != read_nickname(hub.connection):
        raise ConflictNotAtHub(conflict_id)
    if conflict.conflict_type in _NOT_TAKEN_THERE:
        raise ConflictOfSubscriber(conflict_id)
    return transact_at(hub, partial(_settle, hub, publication, conflict, winner))


def _settle(hub: Node, publication: Publication, conflict: KeptConflict, winner: Winner) -> bool:
    article = find_article(publication, list_articles(hub.connection, publication.pubid), conflict.article)
    loser = Winner.PUBLISHER if conflict.origin == publication.publisher else Winner.SUBSCRIBER
    known = hub.read_known(article, [conflict.rowguid]).get(conflict.rowguid)
    present = hub.read_rows(article, [conflict.rowguid]).get(conflict.rowguid)
    is_written = winner is loser or conflict.conflict_type not in _CONCURRENT
    if is_written:
        row = decode_row(article, conflict.losing_row) if winner is loser else present
        hub.write(article, [_decision(article, conflict, known, row)])
        if winner is not loser:
            drop_retries(hub.connection, conflict.origin, article.nickname, [conflict.rowguid])
    mine = conflicts_info.c.conflict_id == conflict.conflict_id
    hub.connection.execute(update(conflicts_info).where(mine).values(resolved_time=datetime.now(UTC)))
    return is_written


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
        origin=row["origin_datasource_id"],
    )
