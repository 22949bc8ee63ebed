"""Subscriptions are added with the snapshot that they begin with, and dropped."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from rowtide.merge.articles import Article, Publication, SubscriberType, Subscription
from rowtide.merge.catalogue import (
    find_publication,
    get_publication,
    list_articles,
    put_article,
    put_publication,
    read_nickname,
    renew_nickname,
    set_purged,
)
from rowtide.merge.changes import Row
from rowtide.merge.errors import MergeSubscriptionExists, MergeSubscriptionUnknown, SubscriberHasTable
from rowtide.merge.lineage import Lineage
from rowtide.merge.node import Enumeration, Node
from rowtide.merge.progress import (
    list_subscriptions,
    put_subscription,
    remove_retries_of,
    remove_subscription,
    set_subscription,
)
from rowtide.merge.publishing import forget_publication
from rowtide.merge.synchronisation import Pairing, has_met

Progress = Callable[[str, int], None]
"""Told an article, and how many of its rows are there."""


def add_subscription(
    hub: Node,
    subscriber: Node,
    publication_name: str,
    subscriber_name: str,
    *,
    subscriber_type: SubscriberType = SubscriberType.CLIENT,
    priority: float = 0.0,
    on_progress: Progress = lambda _article, _rows: None,
) -> Subscription:
    """Subscribe a database: its tables are made and filled (SQL Server: sp_addmergesubscription, automatic).

    The subscriber gets all of it in one transaction; where it was interrupted, a repeat goes on. Raises
    `MergePublicationUnknown`, `MergeSubscriptionExists`, `SubscriberHasTable`.
    """
    publication = get_publication(hub.connection, publication_name)
    subscriber.tables.prepare()
    if find_publication(subscriber.connection, publication_name) is not None:
        raise MergeSubscriptionExists(subscriber_name, publication_name)
    articles = list_articles(hub.connection, publication.pubid)
    for article in articles:
        if subscriber.tables.is_there(article):
            raise SubscriberHasTable(article.qualified_name)
    nickname = read_nickname(subscriber.connection)
    subscription = Subscription(
        subid=str(uuid4()),
        pubid=publication.pubid,
        subscriber=subscriber_name,
        nickname=nickname,
        subscriber_type=subscriber_type,
        priority=priority,
        state=secrets.token_hex(16),
    )
    with hub.transaction():
        for begun in list_subscriptions(hub.connection, publication.pubid):
            if begun.subscriber == subscriber_name or begun.nickname == nickname:
                remove_subscription(hub.connection, begun.subid)
        put_subscription(hub.connection, subscription)
    with hub.enumerating() as snapshot:
        generation = snapshot.generation
        at_subscriber = replace(subscription, nickname=publication.publisher, received=generation)
        with subscriber.transaction():
            _fill(hub, subscriber, publication, articles, snapshot, on_progress)
            put_subscription(subscriber.connection, at_subscriber)
    with hub.transaction():
        set_subscription(hub.connection, subscription.subid, sentgen=generation)
    return replace(subscription, sent=generation)


def reinitialize(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    *,
    on_progress: Progress = lambda _article, _rows: None,
) -> None:
    """Fill a subscriber's tables anew; what only it has is lost (SQL Server: sp_reinitmergesubscription).

    The subscriber gets all of it in one transaction; where it was interrupted, a repeat goes on. A node that was
    restored, or is a copy, becomes another one: its numbers of changes were given out before.
    """
    subid, mark = pairing.at_hub.subid, secrets.token_hex(16)
    session = max(pairing.at_hub.session, pairing.at_subscriber.session) + 1
    with hub.transaction():
        set_subscription(hub.connection, subid, session=session)
    begun = {"session": session, "replicastate": mark, "next_replicastate": None, "settledgen": 0}
    with hub.enumerating() as snapshot:
        generation = snapshot.generation
        with subscriber.transaction():
            if not has_met(subscriber, pairing):
                renew_nickname(subscriber.connection)
            _refill(subscriber, pairing.articles, snapshot, on_progress)
            remove_retries_of(subscriber.connection, pairing.hub)
            set_subscription(
                subscriber.connection, subid, replnickname=pairing.hub, sentgen=0, recgen=generation, **begun
            )
            nickname = read_nickname(subscriber.connection)
    with hub.transaction():
        remove_retries_of(hub.connection, pairing.at_hub.nickname)
        set_subscription(
            hub.connection,
            subid,
            replnickname=nickname,
            sentgen=generation,
            recgen=0,
            last_sync_date=datetime.now(UTC),
            **begun,
        )


def drop_subscription(hub: Node, subscriber: Node | None, publication_name: str, subscriber_name: str) -> None:
    """End a subscription at both ends; its tables and rows stay (SQL Server: sp_dropmergesubscription).

    Without a node for the subscriber, at the hub alone. Raises `MergePublicationUnknown`, `MergeSubscriptionUnknown`.
    """
    publication = get_publication(hub.connection, publication_name)
    known = list_subscriptions(hub.connection, publication.pubid)
    found = [one for one in known if one.subscriber == subscriber_name]
    own = None
    if subscriber is not None and subscriber.tables.is_prepared():
        own = find_publication(subscriber.connection, publication_name)
    if not found and own is None:
        raise MergeSubscriptionUnknown(subscriber_name, publication_name)
    if subscriber is not None and own is not None:
        with subscriber.transaction():
            for one in list_subscriptions(subscriber.connection, own.pubid):
                remove_subscription(subscriber.connection, one.subid)
            forget_publication(subscriber, own)
    with hub.transaction():
        for one in found:
            remove_subscription(hub.connection, one.subid)
            remove_retries_of(hub.connection, one.nickname)


def _fill(
    hub: Node,
    subscriber: Node,
    publication: Publication,
    articles: Sequence[Article],
    snapshot: Enumeration,
    on_progress: Progress,
) -> None:
    """Make and fill all tables in the caller's transaction; what is written later is tracked."""
    put_publication(subscriber.connection, publication)
    subscriber.tables.make([(article, hub.tables.describe(article.qualified_name)) for article in articles])
    subscriber.defer_constraints()
    for article in articles:
        subscriber.tables.load(article, _told(article, snapshot.rows(article), on_progress))
    for article in articles:
        put_article(
            subscriber.connection,
            publication.pubid,
            article,
            purged_lineage=_included(article, snapshot),
            preserve_rowguidcol=True,
        )
        subscriber.tables.track(article)


def _refill(subscriber: Node, articles: Sequence[Article], snapshot: Enumeration, on_progress: Progress) -> None:
    """Fill the tables anew in the caller's transaction."""
    subscriber.defer_constraints()
    for article in reversed(articles):
        subscriber.tables.untrack(article)
        subscriber.tables.clear(article)
    for article in articles:
        subscriber.tables.load(article, _told(article, snapshot.rows(article), on_progress))
    for article in articles:
        set_purged(subscriber.connection, article.nickname, _included(article, snapshot))
        subscriber.tables.track(article)


def _included(article: Article, snapshot: Enumeration) -> bytes:
    """Return all that an article's rows include: who changes them later is compared with that."""
    return Lineage.of(change for each in snapshot.lineages(article) for change in Lineage.decode(each).changes).encode()


def _told(
    article: Article, batches: Iterator[Sequence[tuple[str, Row]]], on_progress: Progress
) -> Iterator[Sequence[tuple[str, Row]]]:
    rows = 0
    for batch in batches:
        yield batch
        rows += len(batch)
        on_progress(article.name, rows)
