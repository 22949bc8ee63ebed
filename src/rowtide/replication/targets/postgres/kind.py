"""PostgreSQL as a kind of subscriber."""

from __future__ import annotations

from rowtide.replication.targets.postgres import (
    compared_rows,
    deliveries,
    identity,
    joining,
    repairs,
    scripted_objects,
    sequences,
    snapshot_target,
    subscriber,
)
from rowtide.replication.targets.postgres.conflicts import kept
from rowtide.replication.targets.postgres.streams import capacity
from rowtide.replication.targets.subscriber_kind import SubscriberKind

KIND = SubscriberKind(
    subscriber.address,
    identity.identify,
    subscriber.prepare,
    subscriber.forget,
    subscriber.creations,
    subscriber.recover_left,
    capacity.require_streams,
    deliveries.open_delivery,
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
