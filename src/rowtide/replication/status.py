"""How far each subscription is: read from the distribution database and the log store, asking no subscriber."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine

from rowtide.core.lsn import Position
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import read_source
from rowtide.log.manifest import Manifest
from rowtide.log.state import ManifestState, segments_between
from rowtide.log.store import open_store
from rowtide.replication import definitions
from rowtide.replication.definitions import Subscription


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """A subscription; what it was told of being delivered is at most ten seconds old.

    `undelivered_rows` is an upper bound: the log store may hold rows of other tables too. `as_of`: all that was
    committed by then, by the publisher's clock, was read from its log.
    """

    publication: str
    subscriber: str
    articles: int
    delivered: Position | None
    read: Position
    as_of: datetime | None
    undelivered_rows: int
    undelivered_bytes: int


def read_status(engine: Engine, database: str, publication: str | None = None) -> tuple[SubscriptionStatus, ...]:
    """Return the subscriptions of a publication, or of all. Raises `DatabaseNotEnabled`, `PublicationUnknown`."""
    with translated(), engine.connect() as connection:
        source = read_source(connection, database)
        if publication is not None:
            definitions.get_publication(connection, publication)
        subscriptions = definitions.list_subscriptions(connection, publication)
    manifest = Manifest(open_store(source.log_store))
    manifest.load()
    return tuple(describe(subscription, manifest.state) for subscription in subscriptions)


def describe(subscription: Subscription, state: ManifestState) -> SubscriptionStatus:
    """Put together what was read of a subscription. Pure."""
    reader = state.readers.get(subscription.reader)
    undelivered = segments_between(state, reader.position if reader is not None else state.low, state.position)
    return SubscriptionStatus(
        publication=subscription.publication,
        subscriber=subscription.subscriber,
        articles=len(subscription.starts),
        delivered=reader.position if reader is not None else None,
        read=state.position,
        as_of=state.as_of,
        undelivered_rows=sum(segment.rows for segment in undelivered),
        undelivered_bytes=sum(segment.bytes for segment in undelivered),
    )
