"""Subscribe a promoted physical copy of the publisher, such as a standby or a base backup (SQL Server: backup)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from rowtide.databases.postgres.catalogue import ServerIdentity, read_server_identity
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import DatabaseKind, parse_url
from rowtide.log.catalogue import find_source
from rowtide.log.postgres.provision import disown_source
from rowtide.log.postgres.stream.stream import ReplicationStream, StreamIdentity, TimelineFork
from rowtide.log.source_definition import SourceDefinition
from rowtide.replication.distributor import publication_records
from rowtide.replication.errors.subscribing import NotAPromotedCopy
from rowtide.replication.targets.postgres.subscriber import forget_copied

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
