"""Stored conflicts, read: as listings show them, who wrote their versions, and the notes about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from datetime import datetime

from sqlalchemy import Connection, RowMapping, func, select

from rowtide.core.values import frozen
from rowtide.merge.catalogue import find_article, get_publication, list_articles, list_publications
from rowtide.merge.conflicts.records import ConflictType, identify
from rowtide.merge.definitions import (
    conflicts_info,
    genhistory,
    replinfo,
    subscriptions,
)
from rowtide.merge.errors.rows import ConflictUnknown
from rowtide.merge.exchange_state import as_utc
from rowtide.merge.nodes.node import Node
from rowtide.merge.versions.comparison import Lineage, NodeChange


@frozen
class MergeConflict:
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
    losing_columns: str | None = field(repr=False)
    settled_row: str | None = field(repr=False)
    replaced_row: str | None = field(repr=False)


def list_conflicts(node: Node, publication: str | None = None, article: str | None = None) -> Sequence[MergeConflict]:
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
    return [as_kept(row, names) for row in node.connection.execute(ordered).mappings()]


ConflictsMark = tuple[int, int, datetime | None, datetime | None]
"""Differs where conflicts were recorded, deleted or decided about in between."""


def read_conflicts_mark(connection: Connection) -> ConflictsMark:
    """Return a mark of the conflicts that a node keeps."""
    c = conflicts_info.c
    counted = select(
        func.count(), func.count(c.resolved_time), func.max(c.MSrepl_create_time), func.max(c.resolved_time)
    )
    count, resolved, created, decided = connection.execute(counted).one()
    return count, resolved, created, decided


def get_conflict(node: Node, conflict_id: str) -> MergeConflict:
    """Return a stored conflict. Raises `ConflictUnknown`."""
    names = {each.pubid: each.name for each in list_publications(node.connection)}
    found = select(conflicts_info).where(conflicts_info.c.conflict_id == conflict_id)
    row = node.connection.execute(found).mappings().one_or_none()
    if row is None:
        raise ConflictUnknown(conflict_id)
    return as_kept(row, names)


@frozen
class VersionWriter:
    """The node that wrote a version of a row, None for the hub, and the synchronisations between which it did."""

    subscriber: str | None
    earliest: datetime | None
    latest: datetime


@frozen
class DescribedConflict:
    """A stored conflict, and who wrote its versions, where that is known."""

    conflict: MergeConflict
    loser: VersionWriter | None
    winner: VersionWriter | None


def describe_conflict(node: Node, conflict_id: str) -> DescribedConflict:
    """Return a stored conflict with the writers of its versions. Raises `ConflictUnknown`."""
    kept = get_conflict(node, conflict_id)
    return DescribedConflict(kept, *find_writers(node, kept))


def find_writers(node: Node, kept: MergeConflict) -> tuple[VersionWriter | None, VersionWriter | None]:
    """Return who wrote the losing and the winning version, and when, if the node still has the generations.

    A conflict's id is a digest of both versions' last changes: of the known generations, the winner's is the one that
    gives the id.
    """
    lost = NodeChange(kept.origin, Lineage.decode(kept.losing_lineage).version_of(kept.origin))
    closed: dict[int, dict[int, datetime]] = {}
    for nickname, generation, at in node.connection.execute(
        select(genhistory.c.nickname, genhistory.c.generation, genhistory.c.coldate)
    ):
        closed.setdefault(nickname, {})[generation] = as_utc(at)
    known = (NodeChange(nickname, generation) for nickname, times in closed.items() for generation in times)
    won = next((change for change in known if kept.conflict_id in _ids_of(kept.rowguid, lost, change)), None)
    own = node.connection.scalar(select(replinfo.c.nickname))
    names = dict(node.connection.execute(select(subscriptions.c.replnickname, subscriptions.c.subscriber_server)).all())

    def describe(change: NodeChange | None) -> VersionWriter | None:
        times = closed.get(change.nickname, {}) if change is not None else {}
        if change is None or change.version not in times or (change.nickname != own and change.nickname not in names):
            return None
        earlier = max((one for one in times if one < change.version), default=None)
        return VersionWriter(
            names[change.nickname] if change.nickname != own else None,
            times[earlier] if earlier is not None else None,
            times[change.version],
        )

    return describe(lost), describe(won)


def _ids_of(rowguid: str, lost: NodeChange, won: NodeChange) -> tuple[str, str]:
    """Return the ids of a conflict that the subscriber, or the hub, has lost."""
    return identify(rowguid, lost.encode(), won.encode()), identify(rowguid, won.encode(), lost.encode())


def as_kept(row: RowMapping, names: dict[str, str]) -> MergeConflict:
    """Return a row of the table of conflicts; `names` are those of publications, by their ids."""
    resolved = row["resolved_time"]
    return MergeConflict(
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
        losing_columns=row["losing_columns"],
        settled_row=row["settled_row"],
        replaced_row=row["replaced_row"],
    )
