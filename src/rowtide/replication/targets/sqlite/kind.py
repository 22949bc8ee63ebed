"""A SQLite file as a kind of subscriber."""

from __future__ import annotations

from rowtide.replication.targets.sqlite import identity, joining, snapshot_target, subscriber
from rowtide.replication.targets.sqlite.comparison import repairs, rows
from rowtide.replication.targets.sqlite.delivery import delivery
from rowtide.replication.targets.subscriber_kind import SubscriberKind

KIND = SubscriberKind(
    address=subscriber.address,
    identify=identity.identify,
    prepare=subscriber.prepare,
    creations=subscriber.creations,
    forget=subscriber.forget,
    # A batch is one transaction of one connection: none is left prepared.
    recover=lambda _url: (),
    # A file has another dialect, and the tables alone.
    make_scripted=lambda _url, _scripts: None,
    open_snapshot=snapshot_target.SqliteSnapshotTarget.open,
    open_delivery=delivery.SqliteDelivery.open,
    require_streams=subscriber.require_streams,
    find_status=joining.find_status,
    has_joined=joining.has_joined,
    # It drops tables under their views.
    is_used=lambda _url, _article: False,
    detach=joining.detach,
    open_rows=rows.open_subscribed,
    open_repair=repairs.open_repair,
    open_outbox=repairs.open_outbox,
    # Others do not write to a file's tables.
    list_conflicts=lambda _subscription: (),
    # A file numbers its rows behind those that it has.
    move_sequences=lambda _url, _published: (),
)
