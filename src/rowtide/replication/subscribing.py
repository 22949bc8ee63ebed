"""Subscriptions: made and dropped (SQL Server: sp_addsubscription, sp_dropsubscription)."""

from __future__ import annotations

import uuid

from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from rowtide.core.lsn import Position
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import read_source
from rowtide.log.entries import ReaderAdvanced, ReaderLeft
from rowtide.log.manifest import Manifest
from rowtide.log.postgres.membership import mark_log
from rowtide.log.store import open_store
from rowtide.replication import definitions
from rowtide.replication.definitions import Subscription, SubscriptionState
from rowtide.replication.errors import NothingToSubscribe, PasswordGiven, SubscriptionExists
from rowtide.replication.postgres import subscriber as postgres_subscriber
from rowtide.replication.postgres.subscriber import NewSubscription

_MARK = "rowtide.subscribe"


def add_subscription(engine: Engine, database: str, publication: str, subscriber: str) -> Subscription:
    """Let a subscriber have all changes of a publication that commit from now on.

    The subscriber is prepared before the subscription is known: what an interrupted call leaves there is of no effect.
    Raises `PasswordGiven`, `PublicationUnknown`, `SubscriptionExists`, `NothingToSubscribe`, `ArticleTableMissing`,
    `ProcedureUnfit`, `ProcedureEndsTransaction`, and what connecting raises.
    """
    if make_url(subscriber).password is not None:
        raise PasswordGiven(make_url(subscriber).render_as_string(hide_password=True))
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
        postgres_subscriber.prepare(subscriber, told)
        # What it needs is kept from here on; the log reader is not yet where it starts.
        manifest.append(ReaderAdvanced(definitions.reader_name(guid), state.position))
    return subscription


def drop_subscription(
    engine: Engine, database: str, publication: str, subscriber: str, *, ignores_subscriber: bool
) -> None:
    """End a subscription, and take what delivery needed away from the subscriber; its tables stay as they are.

    `ignores_subscriber`: the subscriber is gone, and not asked. Raises `PublicationUnknown`, `SubscriptionUnknown`, and
    what connecting raises. A repeat after a crash finds what is left.
    """
    with translated(), engine.begin() as connection:
        source = read_source(connection, database)
        subscription = definitions.get_subscription(connection, publication, subscriber)
        articles = definitions.list_subscribed(connection, subscription.agent_id)
        # A run that delivers it learns of its end here, not from what is taken away at the subscriber.
        definitions.set_status(connection, subscription.agent_id, SubscriptionState.INACTIVE)
    if not ignores_subscriber:
        postgres_subscriber.forget(subscriber, subscription.guid, articles)
    manifest = Manifest(open_store(source.log_store))
    manifest.load()
    manifest.append(ReaderLeft(subscription.reader))
    with translated(), engine.begin() as connection:
        definitions.drop_subscription(connection, subscription.agent_id)
