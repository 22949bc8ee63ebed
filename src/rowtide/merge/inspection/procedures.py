"""The procedures by which SQL Server's agent enumerates changes, one at a time, to examine a merge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.catalogue import find_article, read_nickname
from rowtide.merge.definitions import genhistory
from rowtide.merge.documented.dialect import CONTENTS_VIEW, TOMBSTONE_VIEW
from rowtide.merge.inspection.listings import read_rows
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.sending import ChangesRequest, EnumeratedSending, Enumeration
from rowtide.merge.progress import as_utc, list_retries
from rowtide.merge.session.pairing import Pairing
from rowtide.merge.session.spooling import Outgoing
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
