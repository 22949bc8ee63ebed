"""A SQLite file as a kind of subscriber."""

from __future__ import annotations

from rowtide.replication.targets.sqlite import (
    compared_rows,
    delivery,
    identity,
    joining,
    repairs,
    snapshot_target,
    subscriber,
)
from rowtide.replication.targets.subscriber_kind import SubscriberKind

KIND = SubscriberKind(
    subscriber.address,
    identity.identify,
    subscriber.prepare,
    subscriber.forget,
    subscriber.creations,
    # A batch is one transaction of one connection.
    lambda _url: (),
    subscriber.require_streams,
    delivery.SqliteDelivery.open,
    snapshot_target.SqliteSnapshotTarget.open,
    compared_rows.open_subscribed,
    # Others do not write to a file's tables.
    lambda _subscription: (),
    repairs.open_repair,
    repairs.open_outbox,
    # A file numbers its rows behind those that it has.
    lambda _url, _published: (),
    joining.find_status,
    joining.has_joined,
    joining.detach,
    # Another dialect: a file has the tables alone.
    lambda _url, _scripts: None,
)
