"""What is done about conflicts of a new subscription, and whether they can be found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import psycopg
from sqlalchemy import Connection, text

from rowtide.core.operations import Operation
from rowtide.core.redaction import redact
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import ServerIdentity, read_server_identity
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import NOT_CONNECTED, translated
from rowtide.databases.urls import DatabaseKind, parse_url
from rowtide.log.catalogue import find_source
from rowtide.log.postgres.provision import disown_source
from rowtide.log.postgres.stream.stream import ReplicationStream, StreamIdentity, TimelineFork
from rowtide.log.source_definition import SourceDefinition
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.conflicts import Resolver
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.conflicts import (
    CommitTimesNotKept,
    ConflictsFixed,
    ConflictsNotDetectable,
    ConflictsUndecided,
    ForwardingUndecided,
    TableDeliveredAlready,
    TableDeliveredBack,
    TableDeliveredInRing,
    TableDeliveredTwice,
)
from rowtide.replication.errors.subscribing import NotAPromotedCopy, SubscriberIsPublisher, SubscriberKnownOtherwise
from rowtide.replication.subscription_settings import SubscriptionSettings
from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.targets.postgres.subscriber import forget_copied, read_identity
from rowtide.replication.targets.subscriber_kind import DatabaseIdentity, Originators

# A subscriber must be another database than the publisher, and each change must reach it once and go no further back.
# Two URLs may lead to the same database, by another host name, a symbolic link or a parameter; and a copied database
# has the original's records. Therefore the databases themselves are compared, before anything is created or dropped.
# Subscribe a promoted physical copy of the publisher, such as a standby or a base backup (SQL Server: backup).


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


_APPLICATION = "rowtide subscription"


def find_promotion(connection: Connection, subscriber: str) -> int:
    """Return the log position at which a copy left the publisher's history.

    Raises `NotAPromotedCopy`, and as connecting does; the role needs the right to replicate there.
    """
    if parse_url(subscriber).kind is not DatabaseKind.POSTGRESQL:
        raise NotAPromotedCopy(subscriber, "it is a file")
    with translated(), open_engine(subscriber, application_name=_APPLICATION).connect() as opened:
        copy = read_server_identity(opened)
    stream = ReplicationStream.connect(subscriber, application_name=_APPLICATION)
    try:
        identity = stream.identify()
        forks = stream.read_timeline_history(identity.timeline)
    finally:
        stream.close()
    found = find_fork(read_server_identity(connection), copy, identity, forks)
    if isinstance(found, str):
        raise NotAPromotedCopy(subscriber, found)
    return found


def find_fork(
    publisher: ServerIdentity, copy: ServerIdentity, identity: StreamIdentity, forks: Sequence[TimelineFork]
) -> int | str:
    """Return the log position at which a copy left the publisher's history, or why there is none. Pure."""
    if identity.system_identifier != publisher.system_identifier:
        return f"its server is another (system {identity.system_identifier}, not {publisher.system_identifier})"
    if copy.database_id != publisher.database_id:
        return f"it has another database of that server (oid {copy.database_id}, not {publisher.database_id})"
    if copy.in_recovery:
        return "it is still a standby"
    ends = {fork.timeline: fork.end for fork in forks}
    if publisher.timeline not in ends:
        return f"its timeline {identity.timeline} did not leave the publisher's, {publisher.timeline}"
    return ends[publisher.timeline]


def remove_copied(source: SourceDefinition, subscriber: str, subscribed: Sequence[str]) -> frozenset[str]:
    """Remove from a copy what rowtide keeps in the publisher, and in its subscribers unless `subscribed` names it.

    Slot, publications, event triggers, schemas and replica identities. A copy that has become a publisher of its own
    keeps that. Returns the ids of the articles that were published when it was promoted; none where a repeat completes
    it after a crash.
    """
    engine = open_engine(subscriber, application_name=_APPLICATION)
    with translated(), engine.connect() as connection:
        is_copied = find_source(connection) == source
        articles = publication_records.list_all_articles(connection) if is_copied else ()
    if is_copied:
        disown_source(engine, source)
    forget_copied(subscriber, subscribed)
    return frozenset(article.article_id for article in articles)


_OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)


def choose_resolver(
    ends: Ends, subscriber: str, articles: Sequence[Article], settings: SubscriptionSettings, *, forwards: bool
) -> SubscriptionSettings:
    """Return the settings of a new subscription with its resolver: stop, unless given, where others write the tables.

    Raises `ConflictsUndecided`, `ConflictsNotDetectable`.
    """
    tables = {article.qualified_name for article in articles}
    if settings.conflicts is None and _is_written_by_others(ends, tables, forwards=forwards):
        settings = replace(settings, conflicts=Resolver.STOP)
    if not settings.detects_conflicts:
        return settings
    require_detectable(subscriber, articles, settings, forwards=forwards)
    for guid, delivered in ends.subscriber.delivers.items():
        if guid in ends.publisher.receives and delivered.conflicts is None:
            for table in sorted(tables & delivered.tables):
                raise ConflictsUndecided(table, subscriber)
    return settings


def require_detectable(
    subscriber: str, articles: Sequence[Article], settings: SubscriptionSettings, *, forwards: bool
) -> None:
    """Raise `ConflictsNotDetectable` unless conflicts of all articles can be found as the settings want it."""
    if not settings.detects_conflicts:
        return
    reason = None
    if parse_url(subscriber).kind is not DatabaseKind.POSTGRESQL:
        reason = "the subscriber is a file, to which nobody else delivers"
    elif settings.skip_errors:
        reason = "--skip-errors leaves commands out"
    elif settings.streams > 1:
        reason = "--streams divides a batch among connections"
    elif forwards and settings.conflicts is Resolver.LAST_COMMIT_TIME:
        reason = "with --forward it is not known where a change was made"
    for article in articles:
        found = reason or _find_constraint(article)
        if found is not None:
            raise ConflictsNotDetectable(article.qualified_name, found)


def require_commit_times(connection: Connection, database: str, settings: SubscriptionSettings) -> None:
    """Raise `CommitTimesNotKept` if the last commit time decides, and the publisher's server does not keep it."""
    if settings.conflicts is Resolver.LAST_COMMIT_TIME:
        with translated():
            setting = connection.execute(text("select current_setting('track_commit_timestamp')")).scalar_one()
        if setting != "on":
            raise CommitTimesNotKept(redact(database))


def require_kept(before: SubscriptionSettings, after: SubscriptionSettings) -> None:
    """Raise `ConflictsFixed` if a subscription that looks for conflicts is not to any more: it has no procedures."""
    if before.detects_conflicts and not after.detects_conflicts:
        raise ConflictsFixed


def _is_written_by_others(ends: Ends, tables: set[str], *, forwards: bool) -> bool:
    """Whether the subscriber delivers tables back to the publisher, or others deliver them to it."""
    if forwards:
        return False
    is_back = any(
        guid in ends.publisher.receives and tables & delivered.tables
        for guid, delivered in ends.subscriber.delivers.items()
    )
    others = (one for one in ends.subscriber.receives.values() if one.publisher != ends.publisher.database)
    return is_back or any(tables & one.tables for one in others if one.tables is not None)


def _find_constraint(article: Article) -> str | None:
    commands = [article.command(operation) for operation in _OPERATIONS]
    if not article.key_columns:
        return "it has no primary key"
    if article.before_images is not BeforeImages.FULL:
        return "the log has no whole old rows"
    if article.filter_clause is not None:
        return "it has a row filter"
    if article.is_partitioned:
        return "it is partitioned"
    if any(command.procedure is not None for command in commands):
        return "it has custom procedures"
    if any(command.call_format is CallFormat.NONE for command in commands):
        return "not all operations are delivered"
    return None
