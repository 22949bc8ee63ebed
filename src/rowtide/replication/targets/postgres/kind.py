"""PostgreSQL as a kind of subscriber."""

from __future__ import annotations

from rowtide.replication.targets.postgres import snapshot_target, subscriber
from rowtide.replication.targets.postgres.comparison import repairs, rows, settlements
from rowtide.replication.targets.postgres.conflicts import versions
from rowtide.replication.targets.postgres.delivery.streams import requirements, several_connections
from rowtide.replication.targets.postgres.schema import needed_objects, tables
from rowtide.replication.targets.subscriber_kind import ServerSubscribers, SubscriberKind

KIND = SubscriberKind(
    address=subscriber.address,
    identify=subscriber.identify,
    prepare=subscriber.prepare,
    creations=subscriber.creations,
    forget=subscriber.forget,
    server=ServerSubscribers(
        recover=subscriber.recover_left,
        make_scripted=needed_objects.make_scripted,
        list_conflicts=versions.list_kept,
        settle_conflict=settlements.settle_conflict,
        move_sequences=tables.move,
        is_used=subscriber.is_used,
    ),
    open_snapshot=snapshot_target.PostgresSnapshotTarget.open,
    open_delivery=several_connections.open_delivery,
    require_streams=requirements.require_streams,
    find_status=subscriber.find_status,
    has_joined=subscriber.has_joined,
    detach=subscriber.detach,
    open_rows=rows.open_subscribed,
    open_repair=repairs.open_repair,
    open_outbox=repairs.open_outbox,
)
