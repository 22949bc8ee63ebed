"""A publisher and its subscribers on one server, delivered to in this process: in a line each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from builders.captured_databases import LoggedDatabase
from rowtide.databases.postgres.connect import open_engine
from rowtide.handle import connect
from rowtide.replication.api import TransactionalReplication
from rowtide.replication.distribution.agent import DeliveryReport
from rowtide.replication.distribution.batches import BatchLimits
from rowtide.replication.running import open_agents

PUBLICATION = "shop"


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


def deliver_all(publisher: LoggedDatabase, limits: BatchLimits | None = None) -> list[DeliveryReport]:
    """Read the log and deliver all that is committed now, in this process; return the batches."""
    reports: list[DeliveryReport] = []
    target = publisher.mark()
    publisher.read_log(target)
    url = publisher.url
    with open_agents(open_engine(url), url, None, limits or BatchLimits(), reports.append) as agents:
        for agent in agents:
            while agent.step():
                pass
            assert agent.position.log > target
    return reports


@dataclass
class ReplicatedDatabase:
    """A publisher with publication `shop`, and one subscriber that has the same tables."""

    publisher: LoggedDatabase
    subscriber: Subscriber
    replication: TransactionalReplication = field(init=False)

    def __post_init__(self) -> None:
        self.replication = connect(self.publisher.url).replication

    def begin(self, *definitions: str, **articles: Any) -> None:
        """Make tables on both sides, publish them, each with the options given for it, and subscribe."""
        for sql in definitions:
            self.publisher.execute(sql)
            self.subscriber.execute(sql)
        self.publisher.enable()
        self.replication.add_publication(PUBLICATION)
        for table, options in articles.items():
            self.replication.add_article(PUBLICATION, table, **options)
        self.replication.add_subscription(PUBLICATION, self.subscriber.url)

    def deliver(self, limits: BatchLimits | None = None) -> list[DeliveryReport]:
        """Read the log and deliver all that is committed now, in this process; return the batches."""
        return deliver_all(self.publisher, limits)

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
