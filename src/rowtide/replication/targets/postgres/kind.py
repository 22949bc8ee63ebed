"""PostgreSQL as a kind of subscriber."""

from __future__ import annotations

from rowtide.replication.targets.postgres import identity, joining, snapshot_target, subscriber
from rowtide.replication.targets.postgres.comparison import repairs, rows
from rowtide.replication.targets.postgres.conflicts import kept
from rowtide.replication.targets.postgres.delivery import opening
from rowtide.replication.targets.postgres.delivery.streams import group
from rowtide.replication.targets.postgres.schema import needed_objects, sequences
from rowtide.replication.targets.subscriber_kind import SubscriberKind

KIND = SubscriberKind(
    address=subscriber.address,
    identify=identity.identify,
    prepare=subscriber.prepare,
    creations=subscriber.creations,
    forget=subscriber.forget,
    recover=subscriber.recover_left,
    make_scripted=needed_objects.make_scripted,
    open_snapshot=snapshot_target.PostgresSnapshotTarget.open,
    open_delivery=opening.open_delivery,
    require_streams=group.require_streams,
    find_status=joining.find_status,
    has_joined=joining.has_joined,
    is_used=joining.is_used,
    detach=joining.detach,
    open_rows=rows.open_subscribed,
    open_repair=repairs.open_repair,
    open_outbox=repairs.open_outbox,
    list_conflicts=kept.list_kept,
    move_sequences=sequences.move,
)
