"""What a synchronisation would send, and what of it would conflict (SQL Server: sp_showpendingchanges).

Nothing is written. Both ends are read as a synchronisation reads them, and versions are compared in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rowtide.merge.articles import Article
from rowtide.merge.catalogue import get_publication, list_articles
from rowtide.merge.handlers import find_handler
from rowtide.merge.nodes.enumerated_sending import EnumeratedSending
from rowtide.merge.nodes.node import Enumeration, Node, Request
from rowtide.merge.partitions.filters import bind_articles
from rowtide.merge.progress import list_retries, list_subscriptions
from rowtide.merge.session.pairing import Pairing, require_in_step
from rowtide.merge.session.spooling import Outgoing
from rowtide.merge.versions.changes import RowChange
from rowtide.merge.versions.comparison import Conflict, compare


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A row that is to be sent; `conflict` is the kind of conflict that it would meet at the hub, if any.

    The kind's first word is what the subscriber did: update-update, update-delete, delete-update.
    """

    article: str
    rowguid: str
    is_delete: bool
    conflict: str | None = None


@dataclass(frozen=True, slots=True)
class PendingChanges:
    """What one end has to send of an article; `direction` is upload or download.

    `conflicts` is None if they were not looked for, and of downloads: conflicts are found at the hub.
    """

    publication: str
    subscriber: str
    direction: str
    article: str
    pending_deletes: int
    pending_ins_and_upd: int
    conflicts: int | None
    rows: tuple[PendingRow, ...] = field(repr=False)


def list_downloads(hub: Node, publication_name: str, subscriber: str | None = None) -> list[PendingChanges]:
    """Return what a hub has for its subscribers, or for one, as far as the hub alone can tell.

    Raises `MergePublicationUnknown`.
    """
    publication = get_publication(hub.connection, publication_name)
    articles = [each for each in list_articles(hub.connection, publication.pubid) if not each.is_upload_only]
    found: list[PendingChanges] = []
    with hub.previewing() as preview:
        for subscription in list_subscriptions(hub.connection, publication.pubid):
            if subscriber in (None, subscription.subscriber):
                filters = bind_articles(articles, subscription.partition, realigns=publication.realigns)
                request = Request(articles, subscription.sent, subscription.nickname, {}, filters)
                sent = _read(preview, request)
                found += _counted(publication.name, subscription.subscriber, "download", articles, sent)
    return found


def list_pending(
    hub: Node, subscriber: Node, pairing: Pairing, *, finds_conflicts: bool = False
) -> list[PendingChanges]:
    """Return what a synchronisation would send in each direction; uploads first.

    What the hub would make of uploaded conflicts is not counted as a download. Raises `NodeCopied`, `NodeRestored`,
    `SubscriptionExpired`, `DefinitionsDiffer`.
    """
    require_in_step(hub, subscriber, pairing)
    names = pairing.publication.name, pairing.at_hub.subscriber
    up = min(pairing.at_subscriber.sent, pairing.at_hub.received)
    down = min(pairing.at_hub.sent, pairing.at_subscriber.received)
    again = list_retries(hub.connection, pairing.at_hub.nickname)
    uploads = Request(pairing.articles, up, pairing.hub, again, {})
    again = list_retries(subscriber.connection, pairing.hub)
    downloads = Request(pairing.going_down, down, pairing.at_hub.nickname, again, pairing.filters)
    with hub.previewing() as ours, subscriber.previewing() as theirs:
        sent = _read(theirs, uploads)
        if finds_conflicts:
            sent = _judged(sent, ours)
        found = _counted(*names, "upload", pairing.articles, sent, finds_conflicts=finds_conflicts)
        return [*found, *_counted(*names, "download", pairing.going_down, _read(ours, downloads))]


Batches = Iterator[tuple[Article, Sequence[tuple[RowChange, str | None]]]]
"""Changes of articles, each with the kind of its conflict."""


def _read(sender: Enumeration, request: Request) -> Batches:
    articles = {article.nickname: article for article in request.articles}
    with Outgoing(EnumeratedSending(sender, request), request).spool() as spool:
        for nickname, changes in spool.batches():
            yield articles[nickname], [(change, None) for change in changes]


def _judged(batches: Batches, hub: Enumeration) -> Batches:
    for article, changes in batches:
        there = {change.rowguid: change for change in hub.again(article, [change.rowguid for change, _ in changes])}
        yield article, [(change, _conflict(article, change, there.get(change.rowguid))) for change, _ in changes]


def _conflict(article: Article, sent: RowChange, there: RowChange | None) -> str | None:
    if there is None:
        return None
    said = compare(sent.version, there.version)
    if not isinstance(said, Conflict):
        return None
    is_choosing = article.additive_column is None and find_handler(article) is None
    return None if sent.row == there.row and is_choosing else said.kind.value


def _counted(
    publication: str,
    subscriber: str,
    direction: str,
    articles: Sequence[Article],
    batches: Batches,
    *,
    finds_conflicts: bool = False,
) -> Iterator[PendingChanges]:
    """Yield the articles that have changes."""
    rows: dict[str, list[PendingRow]] = {article.name: [] for article in articles}
    for article, changes in batches:
        rows[article.name] += [
            PendingRow(article.name, change.rowguid, change.row is None, conflict) for change, conflict in changes
        ]
    for name, listed in rows.items():
        if listed:
            deletes = sum(row.is_delete for row in listed)
            conflicts = sum(row.conflict is not None for row in listed) if finds_conflicts else None
            upserts = len(listed) - deletes
            yield PendingChanges(publication, subscriber, direction, name, deletes, upserts, conflicts, tuple(listed))
