"""Tracer tokens: the latency from a commit to the log store, and from there to each subscriber.

(SQL Server: sp_posttracertoken, MStracer_tokens, MStracer_history.) A token is a message in the publisher's log, which
travels like the changes around it. Times are from three clocks: the publisher's, the log reader's, the agent's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Engine,
    ForeignKey,
    Identity,
    Integer,
    Table,
    delete,
    func,
    insert,
    select,
    update,
)

from rowtide.core.errors import RowtideError
from rowtide.core.formats import StoreFormat
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.events.catalogue import TracerArrived, TracerNotRecorded
from rowtide.events.event import emit
from rowtide.log.membership import Traced
from rowtide.log.postgres.membership import announce_token
from rowtide.log.store.location import open_own_manifest
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.distributor.definitions import agents, metadata, publications
from rowtide.replication.distributor.history import HISTORY_RETENTION
from rowtide.replication.distributor.location import distributor
from rowtide.replication.distributor.publisher import read_source

tracer_tokens = Table(
    "MStracer_tokens",
    metadata,
    Column("tracer_id", BigInteger, Identity(), primary_key=True),
    Column("publication_id", Integer, ForeignKey(publications.c.publication_id, ondelete="cascade"), nullable=False),
    Column("posted_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("publisher_commit", DateTime(timezone=True)),
    Column("distributor_commit", DateTime(timezone=True), comment="when it was durable in the log store"),
)

tracer_history = Table(
    "MStracer_history",
    metadata,
    Column("parent_tracer_id", BigInteger, ForeignKey(tracer_tokens.c.tracer_id, ondelete="cascade"), primary_key=True),
    Column("agent_id", Integer, ForeignKey(agents.c.id, ondelete="cascade"), primary_key=True),
    Column("subscriber_commit", DateTime(timezone=True)),
)


@frozen
class TracerArrival:
    """A token at one subscriber, latencies in seconds; None for what has not happened or is not known."""

    tracer_id: int
    publisher_commit: datetime | None
    distributor_latency: float | None
    subscriber: str | None
    subscriber_latency: float | None
    overall_latency: float | None


def post_token(engine: Engine, database: str, publication: str) -> int:
    """Post a token to all subscribers of a publication; return its id. Raises `PublicationUnknown`."""
    with translated(), engine.begin() as connection:
        read_source(connection, database)
        publication_id = publication_records.get_publication(connection, publication)
        posted = insert(tracer_tokens).values(publication_id=publication_id).returning(tracer_tokens.c.tracer_id)
        tracer_id = int(distributor(connection).execute(posted).scalar_one())
        for subscription in subscription_records.list_subscriptions(connection, publication):
            if subscription.joins is not None:
                continue
            expected = {"parent_tracer_id": tracer_id, "agent_id": subscription.agent_id}
            distributor(connection).execute(insert(tracer_history).values(expected))
        # Announced once it is recorded: an agent that gets the token completes its row.
        connection.execute(announce_token(publication, tracer_id))
    return tracer_id


def record_arrival(engine: Engine, agent_id: int, subscriber: str, token: Traced) -> None:
    """Record that a subscriber has committed a token; if that fails, the token stays pending."""
    now = datetime.now(UTC)
    arrived = (tracer_history.c.parent_tracer_id == token.tracer_id) & (tracer_history.c.agent_id == agent_id)
    passed = tracer_tokens.c.tracer_id == token.tracer_id
    times = {"publisher_commit": token.committed_at, "distributor_commit": token.stored_at}
    try:
        with translated(), engine.begin() as connection:
            distributor(connection).execute(update(tracer_tokens).where(passed).values(times))
            distributor(connection).execute(update(tracer_history).where(arrived).values(subscriber_commit=now))
    except RowtideError as error:
        emit(TracerNotRecorded(error))
    stored = token.stored_at
    log_s = None if stored is None else (stored - token.committed_at).total_seconds()
    delivery_s = None if stored is None else (now - stored).total_seconds()
    emit(TracerArrived(token.publication, subscriber, log_s, delivery_s))


def list_tokens(engine: Engine, database: str, publication: str) -> Sequence[TracerArrival]:
    """Return the tokens of a publication by subscriber, newest first. Raises `PublicationUnknown`."""
    with translated(), engine.connect() as connection:
        source = read_source(connection, database, StoreFormat.require_readable)
        publication_id = publication_records.get_publication(connection, publication)
        query = (
            select(tracer_tokens, tracer_history.c.subscriber_commit, agents.c.subscriber)
            .select_from(tracer_tokens.outerjoin(tracer_history).outerjoin(agents))
            .where(tracer_tokens.c.publication_id == publication_id)
            .order_by(tracer_tokens.c.tracer_id.desc(), agents.c.id)
        )
        rows = distributor(connection).execute(query).all()
    manifest = open_own_manifest(source)
    stored = {event.tracer_id: event for event in manifest.state.events if isinstance(event, Traced)}
    return [_describe(row, stored) for row in rows]


def forget_old(connection: Connection, now: datetime, *, limit: int) -> bool:
    """Delete a batch of tokens older than the history's retention; return whether there are more."""
    old = select(tracer_tokens.c.tracer_id).where(tracer_tokens.c.posted_at < now - HISTORY_RETENTION).limit(limit)
    return (
        distributor(connection).execute(delete(tracer_tokens).where(tracer_tokens.c.tracer_id.in_(old))).rowcount
        == limit
    )


def _describe(row: Any, stored: Mapping[int, Traced]) -> TracerArrival:
    """Return a token's arrival; a token that no agent has read yet may be in the log store already."""
    publisher, distributor, subscriber = row.publisher_commit, row.distributor_commit, row.subscriber_commit
    if distributor is None and row.tracer_id in stored:
        publisher, distributor = stored[row.tracer_id].committed_at, stored[row.tracer_id].stored_at
    return TracerArrival(
        tracer_id=row.tracer_id,
        publisher_commit=publisher,
        distributor_latency=_seconds(publisher, distributor),
        subscriber=row.subscriber,
        subscriber_latency=_seconds(distributor, subscriber),
        overall_latency=_seconds(publisher, subscriber),
    )


def _seconds(since: datetime | None, until: datetime | None) -> float | None:
    return round((until - since).total_seconds(), 3) if since is not None and until is not None else None
