"""Subscriptions: made and dropped (SQL Server: sp_addsubscription, sp_dropsubscription)."""

from __future__ import annotations

import uuid

from sqlalchemy import Engine

from rowtide.core.lsn import Position
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import read_source
from rowtide.log.entries import ReaderAdvanced, ReaderLeft
from rowtide.log.manifest import Manifest
from rowtide.log.postgres.membership import mark_log
from rowtide.log.store import open_store
from rowtide.replication import definitions
from rowtide.replication.definitions import NewSubscription, Subscription
from rowtide.replication.errors import NothingToSubscribe, SubscriptionExists
from rowtide.replication.subscribers import kind_of

_MARK = "rowtide.subscribe"


def add_subscription(engine: Engine, database: str, publication: str, subscriber: str) -> Subscription:
    """Let a subscriber have all changes of a publication that commit from now on.

    The subscriber is prepared before the subscription is known: what an interrupted call leaves there is of no effect.
    Raises `SubscriberKindUnknown`, `PublicationUnknown`, `SubscriptionExists`, `NothingToSubscribe`, and what preparing
    such a subscriber raises.
    """
    kind = kind_of(subscriber)
    subscriber = kind.address(subscriber)
    guid = str(uuid.uuid4())
    with translated(), engine.begin() as connection:
        source = read_source(connection, database)
        publication_id = definitions.get_publication(connection, publication)
        if any(known.subscriber == subscriber for known in definitions.list_subscriptions(connection, publication)):
            raise SubscriptionExists(publication, subscriber)
        articles = definitions.list_articles(connection, publication_id)
        if not articles:
            raise NothingToSubscribe(publication)
        manifest = Manifest(open_store(source.log_store))
        manifest.load()
        state = manifest.state
        start = Position.of(state.epoch, mark_log(connection, _MARK))
        starts = {article.article_id: start for article in articles}
        subscription = Subscription(0, publication, subscriber, guid, starts)
        definitions.add_subscription(connection, publication_id, subscription)
        told = NewSubscription(guid, publication, source.system_identifier, start, articles)
        kind.prepare(subscriber, told)
        # What it needs is kept from here on; the log reader is not yet where it starts.
        manifest.append(ReaderAdvanced(definitions.reader_name(guid), state.position))
    return subscription


def drop_subscription(
    engine: Engine, database: str, publication: str, subscriber: str, *, ignores_subscriber: bool
) -> None:
    """End a subscription, and take what delivery needed away from the subscriber; its tables stay as they are.

    `ignores_subscriber`: the subscriber is gone, and not asked. Raises `SubscriberKindUnknown`, `PublicationUnknown`,
    `SubscriptionUnknown`, and what connecting raises. A repeat after a crash finds what is left.
    """
    kind = kind_of(subscriber)
    subscriber = kind.address(subscriber)
    with translated(), engine.connect() as connection:
        source = read_source(connection, database)
        subscription = definitions.get_subscription(connection, publication, subscriber)
        articles = definitions.list_subscribed(connection, subscription.agent_id)
    if not ignores_subscriber:
        kind.forget(subscriber, subscription.guid, articles)
    manifest = Manifest(open_store(source.log_store))
    manifest.load()
    manifest.append(ReaderLeft(subscription.reader))
    with translated(), engine.begin() as connection:
        definitions.drop_subscription(connection, subscription.agent_id)
