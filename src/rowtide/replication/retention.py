"""How long the log store keeps what a subscription has not been delivered.

(SQL Server: @max_distretention.) One that lacks more is deactivated: its reader leaves the log store, which then lets
go of what nobody else needs. A subscriber that is gone holds up nobody, and fills no disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Column, Connection, Engine, Integer, Table, Text, func, insert, select, text, update

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import read_source
from rowtide.log.entries import ReaderLeft
from rowtide.log.manifest import Manifest
from rowtide.log.state import ManifestState, segments_between
from rowtide.log.store import Store
from rowtide.replication import definitions
from rowtide.replication.definitions import Subscription, SubscriptionState, metadata
from rowtide.replication.errors import DistributionRetentionInvalid, NotADistributor

MAX_RETENTION_HOURS = 72

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
    """Write down the retention of a new distribution database."""
    columns = distribution_databases.c
    if connection.execute(select(columns.name)).first() is None:
        connection.execute(insert(distribution_databases).from_select([columns.name], select(func.current_database())))


def change_max_retention(engine: Engine, database: str, hours: int) -> None:
    """Keep what is not delivered for so many hours.

    Raises `DistributionRetentionInvalid`, `DatabaseNotEnabled`, `NotADistributor`.
    """
    if hours < 1:
        raise DistributionRetentionInvalid(hours)
    with translated(), engine.begin() as connection:
        read_source(connection, database)
        if not definitions.is_made(connection):
            raise NotADistributor(database)
        connection.execute(update(distribution_databases).values(max_distretention=hours))


def read_max_retention(connection: Connection) -> timedelta:
    """Return how long what is not delivered is kept."""
    return timedelta(hours=connection.execute(select(distribution_databases.c.max_distretention)).scalar_one())


def find_oldest(store: Store, state: ManifestState, position: Position) -> datetime | None:
    """Return when the first transaction behind a position committed, None where the log store has none."""
    for segment in segments_between(state, position, state.position):
        from rowtide.log.segments import read_segment

        records = read_segment(store, segment.path, ("commit_lsn", "commit_time"))
        behind = records.filter(records["commit_lsn"].to_numpy() >= position.value)
        times = [time for time in behind["commit_time"].unique().to_pylist() if isinstance(time, datetime)]
        if times:
            return min(times)
    return None


def deactivate_expired(
    connection: Connection, store: Store, manifest: Manifest, subscriptions: Iterable[Subscription], now: datetime
) -> tuple[Subscription, ...]:
    """Deactivate those of some subscriptions that lack what is older than the retention; return them.

    Whoever is killed on the way leaves a reader that the next look finds behind again.
    """
    oldest_kept = now - read_max_retention(connection)
    state = manifest.refresh()
    expired = []
    for subscription in subscriptions:
        reader = state.readers.get(subscription.reader)
        oldest = find_oldest(store, state, reader.position) if reader is not None else None
        if oldest is not None and oldest < oldest_kept:
            _deactivate(connection, manifest, subscription)
            expired.append(subscription)
    return tuple(expired)


def server_time(connection: Connection) -> datetime:
    """Return the time of the clock that commits are stamped with."""
    now = connection.execute(select(func.clock_timestamp())).scalar_one()
    assert isinstance(now, datetime)
    return now.astimezone(UTC)


def _deactivate(connection: Connection, manifest: Manifest, subscription: Subscription) -> None:
    failpoint("deactivation.before")
    definitions.set_status(connection, subscription.agent_id, SubscriptionState.INACTIVE)
    manifest.append(ReaderLeft(subscription.reader))
    failpoint("deactivation.after")
