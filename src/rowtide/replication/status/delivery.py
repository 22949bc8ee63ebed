"""How the agents of subscriptions stand, and since when changes wait for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from sqlalchemy import Connection, column, select, table, text

from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import is_begun, read_server_time
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.commit_times import find_oldest_waiting
from rowtide.log.store.location import open_store
from rowtide.log.store.state import ManifestState
from rowtide.replication.articles.articles import Article
from rowtide.replication.distributor import history, publication_records, subscription_records
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.history import HistoricState
from rowtide.replication.distributor.publication_records import BY_DEFAULT, Thresholds
from rowtide.replication.distributor.retention import read_max_retention
from rowtide.replication.distributor.subscription_records import Subscription, list_claims
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA as SUBSCRIBER_SCHEMA
from rowtide.storage.store import Store


@frozen
class SubscriptionDelivery:
    """How a transactional subscription is delivered.

    `runstatus` and `comments` are those of the newest row of its agent's history, None before the first; `delivered_by`
    is the host and process that it runs in, None while it runs in none. Changes since `oldest_waiting` wait in the log
    store, None where none does; the log store keeps them for the retention. `joining` tells what is copied of an
    article that joins a subscription, None of a subscription. `thresholds` are those of the publication.
    """

    publication: str
    subscriber: str
    is_paused: bool
    is_deactivated: bool
    runstatus: str | None
    comments: str | None
    oldest_waiting: datetime | None
    delivered_by: str | None = None
    joining: str | None = None
    thresholds: Thresholds = BY_DEFAULT


@frozen
class DeliveryStatus:
    """The publications of a database and their subscriptions."""

    now: datetime
    retention: timedelta
    publications: tuple[str, ...]
    subscriptions: tuple[SubscriptionDelivery, ...]


def read_delivery_status(
    connection: Connection, source: SourceDefinition, state: ManifestState
) -> DeliveryStatus | None:
    """Return how all subscriptions are delivered, None where nothing is published."""
    publications = tuple(publication_records.list_publications(connection))
    if not publications:
        return None
    last = history.list_last(connection)
    claims, thresholds = list_claims(connection), publication_records.read_thresholds(connection)
    now, store = read_server_time(connection), open_store(source.log_store)
    return DeliveryStatus(
        now=now,
        retention=read_max_retention(connection),
        publications=publications,
        subscriptions=tuple(
            replace(
                _describe(
                    subscription,
                    store,
                    state,
                    last.get(subscription.agent_id),
                    claims.get(subscription.agent_id),
                    subscription_records.list_subscribed(connection, subscription.agent_id),
                ),
                thresholds=thresholds.get(subscription.publication, BY_DEFAULT),
            )
            for subscription in subscription_records.list_subscriptions(connection)
        ),
    )


def list_delivered_here(connection: Connection) -> tuple[str, ...]:
    """Return the publications of other databases that are delivered into this one."""
    if not is_begun(connection, SUBSCRIBER_SCHEMA, _PROGRESS.name, made_with="MSreplication_articles"):
        return ()
    return tuple(connection.execute(select(_PROGRESS.c.publication).distinct().order_by("publication")).scalars())


def describe_joining(subscription: Subscription, articles: Iterable[Article]) -> str | None:
    """Describe how far an article that joins a subscription is; None of a subscription. Pure."""
    if subscription.joins is None:
        return None
    tables = ", ".join(article.qualified_name for article in articles)
    match subscription.state:
        case SubscriptionState.INACTIVE:
            return f"{tables} is not copied: paused"
        case SubscriptionState.WAITING:
            return f"{tables} is to be copied"
        case SubscriptionState.ACTIVE:
            return f"{tables} is copied; its commits are not whole yet"
        case SubscriptionState.READY:
            at = CommitLsn(subscription.ready_at.value) if subscription.ready_at is not None else "now"
            return f"{tables} is copied; its commits are whole from LSN {at} on, once it joins"
        case _:
            assert_never(subscription.state)


def list_left_prepared(connection: Connection) -> tuple[str, ...]:
    """Return the transactions that delivery prepared in this database more than a minute ago, and left (gids)."""
    return tuple(connection.execute(text(_LEFT_PREPARED)).scalars())


def _describe(
    subscription: Subscription,
    store: Store,
    state: ManifestState,
    last: HistoricState | None,
    delivered_by: str | None,
    articles: Sequence[Article],
) -> SubscriptionDelivery:
    reader = state.readers.get(subscription.reader)
    return SubscriptionDelivery(
        publication=subscription.publication,
        subscriber=subscription.subscriber,
        is_paused=subscription.state is SubscriptionState.INACTIVE,
        is_deactivated=reader is None and subscription.joins is None,
        runstatus=last.runstatus if last is not None else None,
        comments=last.comments if last is not None else None,
        oldest_waiting=find_oldest_waiting(store, state, reader.position) if reader is not None else None,
        delivered_by=delivered_by,
        joining=describe_joining(subscription, articles),
    )


_LEFT_PREPARED = """
select gid from pg_prepared_xacts
where database = current_database() and starts_with(gid, 'rowtide:') and prepared < now() - interval '1 minute'
order by prepared, gid
"""
_PROGRESS = table("MSreplication_subscriptions", column("publication"), schema=SUBSCRIBER_SCHEMA)
