"""Where the changes of a new subscription come from, and whether its subscriber can have the tables.

A subscriber must be another database than the publisher, and each change must reach it once and go no further back. Two
URLs may lead to the same database, by another host name, a symbolic link or a parameter; and a copied database has the
original's records. Therefore the databases themselves are compared, before anything is created or dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import psycopg
from sqlalchemy import Connection

from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import NOT_CONNECTED
from rowtide.databases.urls import parse_url
from rowtide.replication.articles.articles import Article
from rowtide.replication.distributor import subscription_records
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.conflicts import (
    ForwardingUndecided,
    TableDeliveredAlready,
    TableDeliveredBack,
    TableDeliveredInRing,
    TableDeliveredTwice,
)
from rowtide.replication.errors.subscribing import SubscriberIsPublisher, SubscriberKnownOtherwise
from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.targets.postgres.subscriber import read_identity
from rowtide.replication.targets.subscriber_kind import DatabaseIdentity, Originators


@frozen
class Ends:
    """The two databases of a subscription."""

    publisher: DatabaseIdentity
    subscriber: DatabaseIdentity

    @classmethod
    def read(cls, connection: Connection, subscriber: str) -> Ends:
        """Read both; the connection is the publisher's. Raises what connecting to the subscriber raises."""
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        return cls(read_identity(driver), kind_of(subscriber).identify(subscriber))


def plan_originators(
    connection: Connection,
    ends: Ends,
    subscriber: str,
    publication: str,
    articles: Sequence[Article],
    *,
    forward: bool | None,
    into: int | None = None,
    is_promoted_copy: bool = False,
) -> Originators:
    """Return where the changes of a new subscription come from, if its subscriber can have the tables.

    `into` is the agent of the subscription that the articles join, beside which, and beside whatever joins it
    meanwhile, they are. A copy of the publisher's server that was promoted has the publisher's identity, but is another
    database.

    With `forward`, they include what the publisher receives. Raises `SubscriberIsPublisher`,
    `SubscriberKnownOtherwise`, `TableDeliveredAlready`, `TableDeliveredBack`, `TableDeliveredInRing`,
    `TableDeliveredTwice`, `ForwardingUndecided`.
    """
    publisher, wanted = ends.publisher, ends.subscriber
    if wanted.database == publisher.database and not (is_promoted_copy or into):
        raise SubscriberIsPublisher(subscriber)
    tables = _names(articles)
    for known in _find_same(connection, subscriber, wanted):
        if into is not None and into in (known.agent_id, known.joins):
            continue
        if known.publication == publication:
            raise SubscriberKnownOtherwise(subscriber, publication, known.subscriber)
        for table in sorted(tables & _names(subscription_records.list_subscribed(connection, known.agent_id))):
            raise TableDeliveredAlready(table, subscriber, known.publication)
    if forward is None:
        _require_nothing_lost(publisher, wanted, subscriber, tables)
    carried = {table: _carried(publisher, table, forwards=bool(forward)) for table in sorted(tables)}
    for table in carried if forward else ():
        if wanted.database in carried[table] or _delivers_unknown(wanted, publisher, table):
            raise TableDeliveredBack(subscriber, table)
    onward = _require_once(publisher, _Reached(subscriber, wanted, carried))
    assert publisher.database is not None
    databases = frozenset(database for carriers in carried.values() for database in carriers)
    return Originators(publisher.database, databases, frozenset(tables), onward)


def _carried(publisher: DatabaseIdentity, table: str, *, forwards: bool) -> frozenset[str]:
    """Return the databases whose changes of a table a subscription carries."""
    assert publisher.database is not None
    received = [one.find_origins(table) for one in publisher.receives.values()] if forwards else []
    return frozenset({publisher.database}).union(*received)


def _require_nothing_lost(
    publisher: DatabaseIdentity, wanted: DatabaseIdentity, subscriber: str, tables: Iterable[str]
) -> None:
    """Raise `ForwardingUndecided` if the publisher receives changes that the subscriber does not get from elsewhere."""
    for table in sorted(tables):
        here = frozenset[str]().union(*(one.find_origins(table) for one in publisher.receives.values()))
        there = frozenset[str]().union(*(one.find_origins(table) for one in wanted.receives.values()))
        if here - there - {wanted.database}:
            raise ForwardingUndecided(table, subscriber)


def _delivers_unknown(wanted: DatabaseIdentity, publisher: DatabaseIdentity, table: str) -> bool:
    """Whether the subscriber delivers a table here by a subscription that records no originators."""
    return any(
        publisher.receives[guid].databases is None and table in delivered.tables
        for guid, delivered in wanted.delivers.items()
        if guid in publisher.receives
    )


@frozen
class _Reached:
    """A database to which changes are delivered; `path` lists the subscribers on the way, including it.

    `carried` are the databases that made them, by table; `by` is the guid of the last subscription on the way.
    """

    path: str
    database: DatabaseIdentity
    carried: Mapping[str, frozenset[str]]
    by: frozenset[str] = frozenset()


def _require_once(publisher: DatabaseIdentity, first: _Reached) -> tuple[tuple[str, str], ...]:
    """Follow the subscriber's own publications that forward, where those databases can be reached and read.

    Returns these subscriptions, by subscriber's URL and guid. Raises `TableDeliveredInRing`, `TableDeliveredTwice`.
    """
    reached = [first]
    followed: set[tuple[str | None, frozenset[str]]] = set()
    onward: list[tuple[str, str]] = []
    while reached:
        here = reached.pop()
        key = (here.database.database, frozenset(here.carried))
        if key in followed:
            continue
        followed.add(key)
        _require_not_twice(publisher, here)
        for guid, delivered in here.database.delivers.items():
            carried = {table: here.carried[table] for table in here.carried.keys() & delivered.tables}
            if not carried or not delivered.forwards:
                continue
            there = _identify(delivered.subscriber)
            # A copy of the publisher has the records of what it receives, too.
            is_back = guid in publisher.receives if there is None else there.database == publisher.database
            if is_back:
                raise TableDeliveredInRing(min(carried), here.path)
            if there is not None:
                onward.append((delivered.subscriber, guid))
                reached.append(_Reached(f"{here.path}, {delivered.subscriber}", there, carried, frozenset({guid})))
    return tuple(onward)


def _require_not_twice(publisher: DatabaseIdentity, here: _Reached) -> None:
    # The publisher's own subscriptions are compared by its records: a subscriber may keep one that was dropped.
    others = [
        received
        for guid, received in here.database.receives.items()
        if guid not in here.by and received.publisher != publisher.database
    ]
    for table, databases in here.carried.items():
        if any(received.find_origins(table) & databases for received in others):
            raise TableDeliveredTwice(table, here.path)


def _identify(url: str) -> DatabaseIdentity | None:
    """Return the database to which a URL leads; None if it cannot be reached, or publishes nothing."""
    if parse_url(url).kind.is_file:
        return None
    try:
        return kind_of(url).identify(url)
    except NOT_CONNECTED:
        return None


def _names(articles: Sequence[Article]) -> set[str]:
    return {article.qualified_name for article in articles}


def _find_same(connection: Connection, subscriber: str, wanted: DatabaseIdentity) -> Iterator[Subscription]:
    """Return the subscriptions of the same database; a copy has records of them too, but is another database."""
    for known in subscription_records.list_subscriptions(connection):
        if known.subscriber == subscriber or (known.guid in wanted.receives and _leads_to(known.subscriber, wanted)):
            yield known


def _leads_to(url: str, wanted: DatabaseIdentity) -> bool:
    """Return whether a URL may lead to a database; true if it cannot be reached."""
    try:
        return kind_of(url).identify(url).database == wanted.database
    except NOT_CONNECTED:
        return True
