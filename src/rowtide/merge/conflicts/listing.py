"""Stored conflicts as they are listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import RowMapping, select

from rowtide.merge.catalogue import find_article, get_publication, list_articles, list_publications
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.definitions import conflicts_info
from rowtide.merge.errors.inspection import ConflictUnknown
from rowtide.merge.nodes.node import Node
from rowtide.merge.progress import as_utc


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
    losing_columns: str | None = field(repr=False)
    settled_row: str | None = field(repr=False)
    replaced_row: str | None = field(repr=False)


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
    return [as_kept(row, names) for row in node.connection.execute(ordered).mappings()]


def get_conflict(node: Node, conflict_id: str) -> KeptConflict:
    """Return a stored conflict. Raises `ConflictUnknown`."""
    names = {each.pubid: each.name for each in list_publications(node.connection)}
    found = select(conflicts_info).where(conflicts_info.c.conflict_id == conflict_id)
    row = node.connection.execute(found).mappings().one_or_none()
    if row is None:
        raise ConflictUnknown(conflict_id)
    return as_kept(row, names)


def as_kept(row: RowMapping, names: dict[str, str]) -> KeptConflict:
    """Return a row of the table of conflicts; `names` are those of publications, by their ids."""
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
        losing_columns=row["losing_columns"],
        settled_row=row["settled_row"],
        replaced_row=row["replaced_row"],
    )
