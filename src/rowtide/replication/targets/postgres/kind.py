"""PostgreSQL as a kind of subscriber."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.delivery import Delivery
from rowtide.replication.targets.postgres import (
    compared_rows,
    identity,
    joining,
    repairs,
    scripted_objects,
    sequences,
    snapshot_target,
    subscriber,
)
from rowtide.replication.targets.postgres.conflicts import delivery as conflicts
from rowtide.replication.targets.postgres.conflicts import kept
from rowtide.replication.targets.postgres.streams import capacity
from rowtide.replication.targets.postgres.streams import delivery as streams
from rowtide.replication.targets.subscriber_kind import SubscriberKind


def _open_delivery(subscription: Subscription, articles: Sequence[Article]) -> Delivery:
    if subscription.settings.detects_conflicts:
        return conflicts.ConflictDelivery.open(subscription, articles)
    return streams.open_delivery(subscription, articles)


KIND = SubscriberKind(
    subscriber.address,
    identity.identify,
    subscriber.prepare,
    subscriber.forget,
    subscriber.creations,
    subscriber.recover_left,
    capacity.require_streams,
    _open_delivery,
    snapshot_target.PostgresSnapshotTarget.open,
    compared_rows.open_subscribed,
    kept.list_kept,
    repairs.open_repair,
    repairs.open_outbox,
    sequences.move,
    joining.find_status,
    joining.has_joined,
    joining.detach,
    scripted_objects.make_scripted,
)
