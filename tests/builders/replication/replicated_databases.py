"""A publisher and its subscribers on one server, delivered to in this process: in a line each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg

from builders.capture.captured_databases import LoggedDatabase
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.session_pool import keeping_sessions
from rowtide.handle import connect
from rowtide.log.store.maintenance import truncate
from rowtide.log.store.manifest import Manifest
from rowtide.replication.api import TransactionalReplication
from rowtide.replication.articles.articles import OmittedColumn
from rowtide.replication.distribution.calls.batch_limits import BatchLimits
from rowtide.replication.distribution.run_context import DeliveryContext, DeliveryReport, Watchers
from rowtide.replication.distributor import subscription_records
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.publishing.publisher_log import advance_placeholder
from rowtide.replication.running.joining_agent import JoiningAgent
from rowtide.replication.running.subscription_agent import Look, SubscriptionAgent
from rowtide.replication.subscription_settings import SettingsChanges, SyncType

PUBLICATION = "shop"
_ROUNDS = 6
"""Of the log reader and the agents, within which what is added while nothing else happens has joined."""


@dataclass
class Subscriber:
    """A database that changes are delivered to."""

    url: str
    session: psycopg.Connection[tuple[Any, ...]]

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, each in a transaction of its own; return the rows of the last."""
        cursor = self.session.cursor()
        for sql in statements:
            cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


def is_open(subscriber: Subscriber) -> bool:
    """Whether an agent has written in a transaction that is open."""
    others = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    return bool(subscriber.execute(f"{others} and backend_xid is not null and backend_type = 'client backend'"))


def list_subscriptions(publisher: LoggedDatabase) -> tuple[Subscription, ...]:
    """Return what the distribution database has."""
    with open_engine(publisher.url).connect() as connection:
        return subscription_records.list_subscriptions(connection)


def list_left_out(replicated: ReplicatedDatabase) -> tuple[OmittedColumn, ...]:
    """Return the columns that articles of the only subscription leave out."""
    (subscription,) = list_subscriptions(replicated.publisher)
    with open_engine(replicated.publisher.url).connect() as connection:
        articles = subscription_records.list_subscribed(connection, subscription.agent_id)
    return tuple(column for article in articles for column in article.left_out)


@contextmanager
def open_only_agent(
    publisher: LoggedDatabase,
    subscription: Subscription | None = None,
    limits: BatchLimits | None = None,
    watchers: Watchers | None = None,
    look: Look | None = None,
) -> Iterator[SubscriptionAgent]:
    """Open the agent of a subscription, or of the only one, to go step by step; it sees each change of subscriptions at
    once, or what `look` returns.
    """
    url, wanted = publisher.url, subscription or list_subscriptions(publisher)[0]
    settings = SettingsChanges()
    if limits is not None:
        settings = SettingsChanges(commit_batch_size=limits.transactions, commit_batch_threshold=limits.commands)
    context = DeliveryContext(url, open_engine(url), watchers=watchers or Watchers(), settings=settings)
    with SubscriptionAgent.open(context, wanted, look or partial(list_subscriptions, publisher)) as agent:
        yield agent


@keeping_sessions()
def deliver_all(publisher: LoggedDatabase, limits: BatchLimits | None = None) -> list[DeliveryReport]:
    """Read the log and deliver all that is committed now, in this process; return the batches.

    Articles that join subscriptions have joined at the end. As in a run, an agent's sessions serve the next.
    """
    reports: list[DeliveryReport] = []
    target = publisher.mark()
    publisher.read_log(target)
    listed = list_subscriptions(publisher)
    for _ in range(_ROUNDS):
        for subscription in listed:
            if subscription.joins is not None:
                join_level(publisher, subscription)
                continue
            # As in a run, which lists them now and then.
            look = partial(tuple, listed)
            with open_only_agent(publisher, subscription, limits, Watchers(on_batch=reports.append), look) as agent:
                while agent.step():
                    pass
                assert agent.position is not None
                assert agent.position.log > target
        listed = list_subscriptions(publisher)
        if all(one.joins is None for one in listed):
            return reports
        publisher.read_log(publisher.mark())
    raise AssertionError(f"articles that do not join: {listed}")


def join_level(publisher: LoggedDatabase, subscription: Subscription) -> None:
    """Let the agent of an article that joins do what it can do with what is read of the log."""
    url = publisher.url
    with JoiningAgent.open(DeliveryContext(url, open_engine(url)), subscription) as agent:
        while agent.step():
            pass


def publish_alone(publisher: LoggedDatabase, publication: str, *definitions: str) -> None:
    """Make tables and publish them, in a database whose log is read for publications alone."""
    replication = connect(publisher.url).replication
    publisher.execute(*definitions)
    replication.add_publication(publication, lake=str(publisher.lake))
    for sql in definitions:
        replication.add_article(publication, sql.split()[2])


def let_go(publisher: LoggedDatabase) -> Manifest:
    """Do what a run and its log reader do now and then: forget what nobody needs. For `publish_alone`."""
    manifest = publisher.manifest()
    advance_placeholder(open_engine(publisher.url), manifest)
    token = manifest.take_lease("log", "a test")
    truncate(publisher.store(), manifest, token, datetime.now(UTC))
    return manifest


@dataclass
class Publishing:
    """A publisher with publication `shop`."""

    publisher: LoggedDatabase
    replication: TransactionalReplication = field(init=False)

    def __post_init__(self) -> None:
        self.replication = connect(self.publisher.url).replication

    def publish(self, *definitions: str, **articles: Any) -> None:
        """Make tables at the publisher, and publish them, each with the options given for it."""
        self.publisher.execute(*definitions)
        self.publisher.enable()
        self.replication.add_publication(PUBLICATION)
        for table, options in articles.items():
            self.replication.add_article(PUBLICATION, table, **options)

    def deliver(self, limits: BatchLimits | None = None) -> list[DeliveryReport]:
        """Read the log and deliver all that is committed now, in this process; return the batches."""
        return deliver_all(self.publisher, limits)


@dataclass
class ReplicatedDatabase(Publishing):
    """A publisher, and one subscriber that has the same tables."""

    subscriber: Subscriber

    @keeping_sessions()
    def begin(self, *definitions: str, **articles: Any) -> None:
        """Make tables on both sides, publish them, each with the options given for it, and subscribe."""
        self.subscriber.execute(*definitions)
        self.publish(*definitions, **articles)
        self.subscribe()

    def publish_alone(self, *definitions: str) -> None:
        """Make tables and publish them, in a database whose log is read for publications alone."""
        publish_alone(self.publisher, PUBLICATION, *definitions)

    def subscribe(
        self,
        sync_type: SyncType = SyncType.REPLICATION_SUPPORT_ONLY,
        *,
        subscriber: Subscriber | None = None,
        **options: Any,
    ) -> None:
        """Subscribe; by itself, with the tables and rows that the subscriber has."""
        url = (subscriber or self.subscriber).url
        self.replication.add_subscription(PUBLICATION, url, sync_type=sync_type, **options)

    def open_agent(self, watchers: Watchers | None = None) -> AbstractContextManager[SubscriptionAgent]:
        """Open the agent of the only subscription, to go step by step."""
        return open_only_agent(self.publisher, watchers=watchers)

    def require_equal(self, *tables: str) -> None:
        """The subscriber's tables have the publisher's rows, to the letter."""
        for table in tables:
            query = f"select t::text from {table} t order by 1"
            assert self.subscriber.execute(query) == self.publisher.execute(query)

    @contextmanager
    def writer(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Open a transaction at the publisher; it commits at the end."""
        with self.publisher.transaction() as connection:
            yield connection
