"""A subscriber is another database than the publisher, and each of its tables is delivered from one place.

Two URLs may lead to one database, by another host name, a link to a file or a parameter; and one that was copied has
the records of the original. So databases are compared, before anything is made or dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
from sqlalchemy import Connection

from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.replication import definitions
from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.errors import (
    SubscriberIsPublisher,
    SubscriberKnownOtherwise,
    TableDeliveredAlready,
    TableDeliveredBack,
)
from rowtide.replication.identity import DatabaseIdentity
from rowtide.replication.postgres.identity import read_identity
from rowtide.replication.subscribers import kind_of


def require_other_database(
    connection: Connection, subscriber: str, publication: str, articles: Sequence[Article]
) -> None:
    """Require that a subscriber can have a publication's tables.

    Raises `SubscriberIsPublisher`, `SubscriberKnownOtherwise`, `TableDeliveredAlready`, `TableDeliveredBack`, and what
    connecting to the subscriber raises.
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
        for table in sorted(tables & wanted.delivers[guid]):
            raise TableDeliveredBack(subscriber, table)


def _names(articles: Sequence[Article]) -> set[str]:
    return {f"{article.schema}.{article.table}" for article in articles}


def _find_same(connection: Connection, subscriber: str, wanted: DatabaseIdentity) -> Iterator[Subscription]:
    """Return the subscriptions of the same database; a copy of it has records of them, and is another."""
    for known in definitions.list_subscriptions(connection):
        if known.subscriber == subscriber or (known.guid in wanted.receives and _leads_to(known.subscriber, wanted)):
            yield known


def _leads_to(url: str, wanted: DatabaseIdentity) -> bool:
    """Tell whether a URL leads to a database; one that cannot be reached may."""
    try:
        return kind_of(url).identify(url).database == wanted.database
    except ConnectionFailed:
        return True
