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
    address=subscriber.address,
    identify=identity.identify,
    prepare=subscriber.prepare,
    creations=subscriber.creations,
    forget=subscriber.forget,
    recover=subscriber.recover_left,
    make_scripted=scripted_objects.make_scripted,
    open_snapshot=snapshot_target.PostgresSnapshotTarget.open,
    open_delivery=deliveries.open_delivery,
    require_streams=capacity.require_streams,
    find_status=joining.find_status,
    has_joined=joining.has_joined,
    detach=joining.detach,
    open_rows=compared_rows.open_subscribed,
    open_repair=repairs.open_repair,
    open_outbox=repairs.open_outbox,
    list_conflicts=kept.list_kept,
    move_sequences=sequences.move,
)
