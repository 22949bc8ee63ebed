"""What a node knows of its merges: the part of `rowtide.connect(url).merge` that changes no row.

It includes the procedures by which SQL Server's agent enumerates changes one at a time, to examine a merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select

from rowtide.core.values import frozen
from rowtide.merge.articles import DEFAULT_LIMITS, Article
from rowtide.merge.catalogue import find_article, read_nickname
from rowtide.merge.conflicts.stored_conflicts import DescribedConflict, MergeConflict, describe_conflict, list_conflicts
from rowtide.merge.definitions import genhistory
from rowtide.merge.documented_views.dialect import CONTENTS_VIEW, TOMBSTONE_VIEW
from rowtide.merge.errors.publishing import ArticleTableNotFound
from rowtide.merge.errors.rows import ConflictUnknown
from rowtide.merge.exchange_state import as_utc, list_retries
from rowtide.merge.inspection.listings import (
    DocumentedTable,
    MergeArticle,
    MergeFilter,
    MergeIdentityRange,
    MergePublication,
    MergeSession,
    list_identity_ranges,
    list_merge_articles,
    list_merge_filters,
    list_merge_publications,
    list_sessions,
    read_rows,
    read_table,
)
from rowtide.merge.inspection.row_replicas import RowReplica, explain
from rowtide.merge.nodes.connecting import MergeHandle, address, knows, open_node
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.sending import ChangesRequest, EnumeratedSending, Enumeration
from rowtide.merge.session.pairing import Pairing, pair
from rowtide.merge.session.spool import Outgoing
from rowtide.merge.status import MergeStatus, list_status
from rowtide.merge.versions.changes import RowChange, TombstoneType
from rowtide.merge.versions.comparison import Combine, Conflict, Lineage, Nothing, compare


@frozen
class MergeGeneration:
    """A closed generation of the node itself; MSmerge_genhistory says more of it."""

    generation: int
    guidsrc: str
    coldate: datetime


@frozen
class EnumeratedChange:
    """A change that one node has for another; `change` is upsert, delete or leave.

    `generation` is the sender's: None for a row that enters a partition without a change of its own. `lineage` has the
    version of each node's last change that the row includes, by its nickname.
    """

    article: str
    tablenick: int
    rowguid: str
    generation: int | None
    change: str
    lineage: str


@frozen
class RowMetadata:
    """What a change of a row would do at the other node.

    `applied_as` is insert, update, delete, nothing, or the kind of conflict; states are live, deleted or unknown.
    """

    article: str
    rowguid: str
    applied_as: str
    sent_state: str
    sent_lineage: str
    known_state: str
    known_lineage: str


def make_generation(node: Node) -> MergeGeneration | None:
    """Close the open generation, if it has changes (SQL Server: sp_MSmakegeneration); return the last closed one."""
    with node.changes.enumerating():
        pass
    closed = select(genhistory).where(genhistory.c.nickname == read_nickname(node.connection))
    last = node.connection.execute(closed.order_by(genhistory.c.generation.desc()).limit(1)).one_or_none()
    return None if last is None else MergeGeneration(last.generation, last.guidsrc, as_utc(last.coldate))


def enumerate_changes(
    hub: Node, subscriber: Node, pairing: Pairing, *, is_upload: bool
) -> tuple[EnumeratedChange, ...]:
    """Return what one end has for the other since what both know to be sent (SQL Server: sp_MSenumchanges).

    The start is the lower of the sender's sentgen and the receiver's recgen. Rows to be sent again are included.
    Nothing is written: changes of the open generation have its prospective number.
    """
    sender, _, request = _direction(hub, subscriber, pairing, is_upload=is_upload)
    with sender.changes.previewing() as preview:
        found = [(article, change) for article, changes in _read(preview, request) for change in changes]
    rowguids = [change.rowguid for _, change in found]
    generations = {
        (row["tablenick"], row["rowguid"]): row["generation"]
        for view in (CONTENTS_VIEW, TOMBSTONE_VIEW)
        for row in read_rows(sender, view, rowguids)
    }
    return tuple(
        _enumerated(article, change, generations.get((article.nickname, change.rowguid))) for article, change in found
    )


def get_metadata(
    hub: Node, subscriber: Node, pairing: Pairing, table: str, rowguids: Sequence[str], *, is_upload: bool
) -> tuple[RowMetadata, ...]:
    """Return whether changes of rows are to be applied as inserts, updates or deletes (SQL Server: sp_MSgetmetadata).

    Nothing is written. Rows of which the sender knows nothing are omitted. Raises `MergeArticleUnknown`.
    """
    article = find_article(pairing.publication, pairing.articles, table)
    sender, receiver, _ = _direction(hub, subscriber, pairing, is_upload=is_upload)
    asked = [rowguid.lower() for rowguid in rowguids]
    with sender.changes.previewing() as there, receiver.changes.previewing() as here:
        known = {change.rowguid: change for change in here.again(article, asked)}
        return tuple(_compared(article, change, known.get(change.rowguid)) for change in there.again(article, asked))


def _direction(hub: Node, subscriber: Node, pairing: Pairing, *, is_upload: bool) -> tuple[Node, Node, ChangesRequest]:
    if is_upload:
        since = min(pairing.at_subscriber.sent, pairing.at_hub.received)
        again = list_retries(hub.connection, pairing.at_hub.nickname)
        return subscriber, hub, ChangesRequest(pairing.articles, since, pairing.hub, again, {})
    since = min(pairing.at_hub.sent, pairing.at_subscriber.received)
    again = list_retries(subscriber.connection, pairing.hub)
    return hub, subscriber, ChangesRequest(pairing.going_down, since, pairing.at_hub.nickname, again, pairing.filters)


def _read(sender: Enumeration, request: ChangesRequest) -> Iterator[tuple[Article, list[RowChange]]]:
    articles = {article.nickname: article for article in request.articles}
    with Outgoing(EnumeratedSending(sender, request), request).spool() as spool:
        for nickname, changes in spool.batches():
            yield articles[nickname], changes


def _enumerated(article: Article, change: RowChange, generation: Any) -> EnumeratedChange:
    kind = "upsert"
    if change.row is None:
        kind = "leave" if change.tombstone is TombstoneType.LEFT else "delete"
    return EnumeratedChange(
        article.name, article.nickname, change.rowguid, generation, kind, _said(change.version.lineage)
    )


def _compared(article: Article, sent: RowChange, known: RowChange | None) -> RowMetadata:
    return RowMetadata(
        article.name,
        sent.rowguid,
        _applied_as(sent, known),
        sent.version.presence.value,
        _said(sent.version.lineage),
        "unknown" if known is None else known.version.presence.value,
        "" if known is None else _said(known.version.lineage),
    )


def _applied_as(sent: RowChange, known: RowChange | None) -> str:
    if known is None:
        return "nothing" if sent.row is None else "insert"
    match compare(sent.version, known.version):
        case Nothing():
            return "nothing"
        case Conflict(kind):
            return f"conflict: {kind.value}"
        case Combine():
            return "update"
        case _ if sent.row is None:
            return "nothing" if known.row is None else "delete"
        case _:
            return "insert" if known.row is None else "update"


def _said(lineage: Lineage) -> str:
    return " ".join(f"{change.nickname:012x}:{change.version}" for change in lineage.changes)


class MergeInspection(MergeHandle):
    """Lists, documented tables, and the procedures of enumeration."""

    def list_conflicts(self, publication: str | None = None, article: str | None = None) -> Sequence[MergeConflict]:
        """Return the conflicts that this node keeps, oldest first.

        Raises `MergePublicationUnknown`, `MergeArticleUnknown`.
        """
        with open_node(self.url) as node:
            return list_conflicts(node, publication, article) if knows(node, publication) else ()

    conflicts = list_conflicts
    """As `synchronise`."""

    def describe_conflict(self, conflict_id: str) -> DescribedConflict:
        """Return a conflict that this node keeps, with who wrote its versions and when, where that is known.

        Raises `ConflictUnknown`.
        """
        with open_node(self.url) as node:
            if not node.tables.is_prepared():
                raise ConflictUnknown(conflict_id)
            return describe_conflict(node, conflict_id)

    def list_publications(self) -> Sequence[MergePublication]:
        """Return the publications that this node takes part in (SQL Server: sp_helpmergepublication)."""
        with open_node(self.url) as node:
            return list_merge_publications(node) if node.tables.is_prepared() else ()

    def list_articles(self, publication: str | None = None) -> Sequence[MergeArticle]:
        """Return merged tables (SQL Server: sp_helpmergearticle). Raises `MergePublicationUnknown`."""
        with open_node(self.url) as node:
            return list_merge_articles(node, publication) if knows(node, publication) else ()

    def list_identity_ranges(self, publication: str | None = None) -> Sequence[MergeIdentityRange]:
        """Return the identity ranges that this node knows (SQL Server: MSmerge_identity_range).

        Raises `MergePublicationUnknown`.
        """
        with open_node(self.url) as node:
            return list_identity_ranges(node, publication) if knows(node, publication) else ()

    def list_filters(self, publication: str | None = None) -> Sequence[MergeFilter]:
        """Return row and join filters (SQL Server: sp_helpmergefilter). Raises `MergePublicationUnknown`."""
        with open_node(self.url) as node:
            return list_merge_filters(node, publication) if knows(node, publication) else ()

    def status(self, publication: str | None = None) -> Sequence[MergeStatus]:
        """Return publications and subscriptions as this node knows them. Raises `MergePublicationUnknown`."""
        with open_node(self.url) as node:
            return list_status(node, publication) if knows(node, publication) else ()

    def list_history(self, publication: str | None = None) -> Sequence[MergeSession]:
        """Return the sessions of past synchronisations, newest first. Raises `MergePublicationUnknown`."""
        with open_node(self.url) as hub:
            return list_sessions(hub, publication) if knows(hub, publication) else ()

    def read_table(self, name: str) -> DocumentedTable:
        """Return a table that SQL Server documents, such as MSmerge_contents.

        What the agent has yet to look at counts already. Raises `DocumentedTableUnknown`.
        """
        with open_node(self.url) as node:
            return read_table(node, name)

    def make_generation(self) -> MergeGeneration | None:
        """Close the open generation, if it has changes (SQL Server: sp_MSmakegeneration); return the last closed one.

        Synchronisations do this themselves.
        """
        with open_node(self.url) as node:
            return make_generation(node) if node.tables.is_prepared() else None

    def enum_changes(self, publication: str, subscriber: str, *, upload: bool = False) -> Sequence[EnumeratedChange]:
        """Return what the hub has for a subscriber, or with `upload` the subscriber for the hub, without sending it.

        (SQL Server: sp_MSenumchanges.) Nothing is written. Raises `MergePublicationUnknown`,
        `MergeSubscriptionUnknown`.
        """
        with self._open_hub(publication) as hub, open_node(subscriber, DEFAULT_LIMITS) as node:
            pairing = pair(hub, node, publication, address(subscriber))
            return enumerate_changes(hub, node, pairing, is_upload=upload)

    def get_metadata(
        self, publication: str, subscriber: str, table: str, rowguids: Sequence[str], *, upload: bool = False
    ) -> Sequence[RowMetadata]:
        """Return whether rows of the hub are inserts, updates or deletes at a subscriber, by their versions.

        (SQL Server: sp_MSgetmetadata.) With `upload`, what rows of the subscriber are at the hub. Nothing is written.
        Raises `MergePublicationUnknown`, `MergeSubscriptionUnknown`, `MergeArticleUnknown`.
        """
        with self._open_hub(publication) as hub, open_node(subscriber, DEFAULT_LIMITS) as node:
            pairing = pair(hub, node, publication, address(subscriber))
            return get_metadata(hub, node, pairing, table, rowguids, is_upload=upload)

    def list_row_replicas(self, table: str, rowguid: str) -> Sequence[RowReplica]:
        """Return what each node is known to have of a row, and why (SQL Server: sp_showrowreplicainfo).

        Raises `ArticleTableNotFound`.
        """
        with open_node(self.url) as node:
            if not node.tables.is_prepared():
                raise ArticleTableNotFound(table)
            return explain(node, table, rowguid)
