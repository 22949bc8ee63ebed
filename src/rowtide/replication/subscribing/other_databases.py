"""A subscriber must be another database than the publisher, and each of its tables must have one source.

Two URLs may lead to the same database, by another host name, a symbolic link or a parameter; and a copied database has
the original's records. Therefore the databases themselves are compared, before anything is created or dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg
from sqlalchemy import Connection

from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.databases.urls import parse_url
from rowtide.replication import definitions
from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.errors import (
    SubscriberIsPublisher,
    SubscriberKnownOtherwise,
    TableDeliveredAlready,
    TableDeliveredBack,
    TableDeliveredInRing,
)
from rowtide.replication.targets.identity import DatabaseIdentity
from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.targets.postgres.identity import read_identity


def require_other_database(
    connection: Connection, subscriber: str, publication: str, articles: Sequence[Article]
) -> None:
    """Require that a subscriber can have a publication's tables.

    Raises `SubscriberIsPublisher`, `SubscriberKnownOtherwise`, `TableDeliveredAlready`, `TableDeliveredBack`,
    `TableDeliveredInRing`, and what connecting to the subscriber raises.
    """
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    publisher, wanted = read_identity(driver), kind_of(subscriber).identify(subscriber)
    if wanted.database == publisher.database:
        raise SubscriberIsPublisher(subscriber)
    tables = _names(articles)
    for known in _find_same(connection, subscriber, wanted):
        if known.publication == publication:
            raise SubscriberKnownOtherwise(subscriber, publication, known.subscriber)
        for table in sorted(tables & _names(definitions.list_subscribed(connection, known.agent_id))):
            raise TableDeliveredAlready(table, subscriber, known.publication)
    for guid in publisher.receives & wanted.delivers.keys():
        for table in sorted(tables & wanted.delivers[guid].tables):
            raise TableDeliveredBack(subscriber, table)
    _require_no_ring(publisher, _Reached(subscriber, wanted, frozenset(tables)))


@dataclass(frozen=True, slots=True)
class _Reached:
    """A database to which tables are delivered; `path` lists the subscribers on the way, including it."""

    path: str
    database: DatabaseIdentity
    tables: frozenset[str]


def _require_no_ring(publisher: DatabaseIdentity, first: _Reached) -> None:
    """Follow the subscriber's own publications, as far as those databases can be reached and read.

    Raises `TableDeliveredInRing`.
    """
    reached = [first]
    followed: set[tuple[str | None, frozenset[str]]] = set()
    while reached:
        here = reached.pop()
        if (here.database.database, here.tables) in followed:
            continue
        followed.add((here.database.database, here.tables))
        for guid, delivered in here.database.delivers.items():
            tables = here.tables & delivered.tables
            if not tables:
                continue
            there = _identify(delivered.subscriber)
            # A copy of the publisher has the records of what it receives, too.
            is_back = guid in publisher.receives if there is None else there.database == publisher.database
            if is_back:
                raise TableDeliveredInRing(min(tables), here.path)
            if there is not None:
                reached.append(_Reached(f"{here.path}, {delivered.subscriber}", there, tables))


def _identify(url: str) -> DatabaseIdentity | None:
    """Return the database to which a URL leads; None if it cannot be reached, or publishes nothing."""
    if parse_url(url).kind.is_file:
        return None
    try:
        return kind_of(url).identify(url)
    except ConnectionFailed:
        return None


def _names(articles: Sequence[Article]) -> set[str]:
    return {f"{article.schema}.{article.table}" for article in articles}


def _find_same(connection: Connection, subscriber: str, wanted: DatabaseIdentity) -> Iterator[Subscription]:
    """Return the subscriptions of the same database; a copy has records of them too, but is another database."""
    for known in definitions.list_subscriptions(connection):
        if known.subscriber == subscriber or (known.guid in wanted.receives and _leads_to(known.subscriber, wanted)):
            yield known


def _leads_to(url: str, wanted: DatabaseIdentity) -> bool:
    """Return whether a URL may lead to a database; true if it cannot be reached."""
    try:
        return kind_of(url).identify(url).database == wanted.database
    except ConnectionFailed:
        return True
