"""Retention of undelivered changes in the log store (SQL Server: @max_distretention).

A subscription that lacks older changes is deactivated: its reader is removed, so that the log store can remove what no
other reader needs. A lost subscriber thus cannot fill the disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    Table,
    Text,
    func,
    insert,
    select,
    text,
    update,
)

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.query_memo import made_once
from rowtide.log.store.entries import ReaderLeft
from rowtide.log.store.location import find_oldest_waiting
from rowtide.log.store.manifest import Manifest
from rowtide.replication.distributor import definitions
from rowtide.replication.distributor.definitions import (
    SubscriptionState,
    metadata,
)
from rowtide.replication.distributor.location import distributor
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.subscription_records import Subscription, set_status
from rowtide.replication.errors.delivery import DistributionRetentionInvalid, NotADistributor
from rowtide.replication.subscription_settings import (
    MAX_RETENTION_HOURS,
)

distribution_databases = Table(
    "MSdistributiondbs",
    metadata,
    Column("name", Text, primary_key=True),
    Column("min_distretention", Integer, nullable=False, server_default=text("0"), comment="hours"),
    Column(
        "max_distretention",
        Integer,
        nullable=False,
        server_default=text(str(MAX_RETENTION_HOURS)),
        comment="hours that a subscription may be behind",
    ),
)


def record_defaults(connection: Connection) -> None:
    """Record the retention of a new distribution database."""
    columns = distribution_databases.c
    if distributor(connection).execute(select(columns.name)).first() is None:
        distributor(connection).execute(
            insert(distribution_databases).from_select([columns.name], select(func.current_database()))
        )


def change_max_retention(engine: Engine, database: str, hours: int) -> None:
    """Set how many hours undelivered changes are kept.

    Raises `DistributionRetentionInvalid`, `DatabaseNotPublished`, `NotADistributor`.
    """
    if hours < 1:
        raise DistributionRetentionInvalid(hours)
    with translated(), engine.begin() as connection:
        read_source(connection, database)
        if not definitions.is_made(connection):
            raise NotADistributor(database)
        distributor(connection).execute(update(distribution_databases).values(max_distretention=hours))


@made_once
def read_max_retention(connection: Connection) -> timedelta:
    """Return how long undelivered changes are kept."""
    return timedelta(
        hours=distributor(connection).execute(select(distribution_databases.c.max_distretention)).scalar_one()
    )


def deactivate_expired(
    connection: Connection, manifest: Manifest, subscriptions: Iterable[Subscription], now: datetime
) -> tuple[Subscription, ...]:
    """Deactivate the subscriptions that lack changes older than the retention; return them.

    If the process is killed in between, the remaining reader is found expired the next time.
    """
    oldest_kept = now - read_max_retention(connection)
    state = manifest.refresh()
    expired = []
    for subscription in subscriptions:
        reader = state.readers.get(subscription.reader)
        oldest = find_oldest_waiting(manifest.store, state, reader.position) if reader is not None else None
        if oldest is not None and oldest < oldest_kept:
            _deactivate(connection, manifest, subscription)
            expired.append(subscription)
    return tuple(expired)


def _deactivate(connection: Connection, manifest: Manifest, subscription: Subscription) -> None:
    failpoint("deactivation.before")
    set_status(connection, subscription.agent_id, SubscriptionState.INACTIVE)
    manifest.append(ReaderLeft(subscription.reader))
    failpoint("deactivation.after")
