"""Which delivery the agent of a PostgreSQL subscription gets."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.delivery import Delivery
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.targets.postgres.connecting import closed_on_error
from rowtide.replication.targets.postgres.delivery.conflict_detection import ConflictDelivery
from rowtide.replication.targets.postgres.delivery.delivery import PostgresDelivery
from rowtide.replication.targets.postgres.delivery.streams.delivery import StreamsDelivery
from rowtide.replication.targets.postgres.delivery.table_relations import SubscriberTables
from rowtide.replication.targets.postgres.recovery import TakenOver, open_agent
from rowtide.replication.targets.postgres.written_tables import open_written


def open_delivery(subscription: Subscription, articles: Sequence[Article] = ()) -> Delivery:
    """Connect and take over from any earlier agent. Calls of articles that are not given are sent one by one.

    Raises `ConnectionFailed`, `ReplicationRoleRefused`, `SubscriberUnprepared`, `TriggersUnsent`,
    `PreparedTransactionsLacking`, `TableOwnerNotHeld`, `OwnerTriggersDeferred`, `RowsHidden`.
    """
    return deliver_over(open_agent(subscription), subscription, articles)


def deliver_over(taken: TakenOver, subscription: Subscription, articles: Sequence[Article]) -> Delivery:
    """Deliver over the connection of an agent that has taken over. Raises as `open_delivery`."""
    connection, settings = taken.connection, subscription.settings
    with closed_on_error(connection):
        written = open_written(connection, subscription.subscriber, articles, settings.run_as)
        if settings.detects_conflicts:
            return ConflictDelivery(taken, subscription, articles, written)
        tables = SubscriberTables.read(connection, articles, written)
        kind = PostgresDelivery if settings.streams == 1 else StreamsDelivery
        return kind(taken, subscription, articles, tables, written)
