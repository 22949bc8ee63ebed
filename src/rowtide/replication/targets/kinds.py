"""The kinds of subscriber databases, with what each offers. All branching by kind is here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from rowtide.databases.kinds import DatabaseKind
from rowtide.databases.urls import parse_url
from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.delivery import Delivery
from rowtide.replication.snapshot.scripts import Script
from rowtide.replication.snapshot.target import SnapshotStatus, SnapshotTarget
from rowtide.replication.targets.fingerprints import SubscribedRows
from rowtide.replication.targets.identity import DatabaseIdentity
from rowtide.replication.targets.kept_conflicts import KeptConflict
from rowtide.replication.targets.new_subscription import NewSubscription
from rowtide.replication.targets.postgres import compared_rows as postgres_rows
from rowtide.replication.targets.postgres import identity as postgres_identity
from rowtide.replication.targets.postgres import joining as postgres_joining
from rowtide.replication.targets.postgres import repairs as postgres_repairs
from rowtide.replication.targets.postgres import scripted_objects as postgres_scripted
from rowtide.replication.targets.postgres import sequences as postgres_sequences
from rowtide.replication.targets.postgres import snapshot_target as postgres_snapshot
from rowtide.replication.targets.postgres import subscriber as postgres_subscriber
from rowtide.replication.targets.postgres.conflicts import delivery as postgres_conflicts
from rowtide.replication.targets.postgres.conflicts import kept as postgres_kept
from rowtide.replication.targets.postgres.streams import capacity as postgres_capacity
from rowtide.replication.targets.postgres.streams import delivery as postgres_streams
from rowtide.replication.targets.recovered import RecoveredTransaction
from rowtide.replication.targets.repairing import RepairOutbox, RepairTransaction
from rowtide.replication.targets.sequences import PublishedSequence, SyncedSequence
from rowtide.replication.targets.sqlite import compared_rows as sqlite_rows
from rowtide.replication.targets.sqlite import delivery as sqlite_delivery
from rowtide.replication.targets.sqlite import identity as sqlite_identity
from rowtide.replication.targets.sqlite import joining as sqlite_joining
from rowtide.replication.targets.sqlite import repairs as sqlite_repairs
from rowtide.replication.targets.sqlite import snapshot_target as sqlite_snapshot
from rowtide.replication.targets.sqlite import subscriber as sqlite_subscriber


class Forget(Protocol):
    """Removes a subscription's objects; with `is_added_again`, what another to the same tables needs to know stays."""

    def __call__(self, url: str, guid: str, articles: Iterable[Article], *, is_added_again: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class SubscriberKind:
    """What a kind of subscriber offers; subscribers are identified by URL, subscriptions by guid.

    `address` returns the URL as stored, which is valid wherever it is used. `identify` returns the database it leads
    to. `creations` are the statements that prepare a subscriber for articles. `find_status`, `has_joined` and `detach`
    are of articles that join or leave a subscription.
    """

    address: Callable[[str], str]
    identify: Callable[[str], DatabaseIdentity]
    prepare: Callable[[str, NewSubscription], Sequence[str]]
    forget: Forget
    creations: Callable[[Iterable[Article]], Sequence[str]]
    recover: Callable[[str], Sequence[RecoveredTransaction]]
    require_streams: Callable[[str, str, int], None]
    open_delivery: Callable[[Subscription, Sequence[Article]], Delivery]
    open_snapshot: Callable[[Subscription], SnapshotTarget]
    open_rows: Callable[[Subscription, Sequence[Article]], AbstractContextManager[SubscribedRows]]
    list_conflicts: Callable[[Subscription], Sequence[KeptConflict]]
    open_repair: Callable[[Subscription, Sequence[Article]], AbstractContextManager[RepairTransaction]]
    open_outbox: Callable[[Subscription], AbstractContextManager[RepairOutbox]]
    move_sequences: Callable[[str, Sequence[PublishedSequence]], Sequence[SyncedSequence]]
    find_status: Callable[[str, str], SnapshotStatus | None]
    has_joined: Callable[[str, str], bool]
    detach: Callable[[str, str, Sequence[Article]], None]
    make_scripted: Callable[[str, Sequence[Script]], None]


def _open_postgres_delivery(subscription: Subscription, articles: Sequence[Article]) -> Delivery:
    if subscription.settings.detects_conflicts:
        return postgres_conflicts.ConflictDelivery.open(subscription, articles)
    return postgres_streams.open_delivery(subscription, articles)


KINDS: Mapping[DatabaseKind, SubscriberKind] = {
    DatabaseKind.POSTGRESQL: SubscriberKind(
        postgres_subscriber.address,
        postgres_identity.identify,
        postgres_subscriber.prepare,
        postgres_subscriber.forget,
        postgres_subscriber.creations,
        postgres_subscriber.recover_left,
        postgres_capacity.require_streams,
        _open_postgres_delivery,
        postgres_snapshot.PostgresSnapshotTarget.open,
        postgres_rows.open_subscribed,
        postgres_kept.list_kept,
        postgres_repairs.open_repair,
        postgres_repairs.open_outbox,
        postgres_sequences.move,
        postgres_joining.find_status,
        postgres_joining.has_joined,
        postgres_joining.detach,
        postgres_scripted.make_scripted,
    ),
    DatabaseKind.SQLITE: SubscriberKind(
        sqlite_subscriber.address,
        sqlite_identity.identify,
        sqlite_subscriber.prepare,
        sqlite_subscriber.forget,
        sqlite_subscriber.creations,
        # A batch is one transaction of one connection.
        lambda _url: (),
        sqlite_subscriber.require_streams,
        sqlite_delivery.SqliteDelivery.open,
        sqlite_snapshot.SqliteSnapshotTarget.open,
        sqlite_rows.open_subscribed,
        # Others do not write to a file's tables.
        lambda _subscription: (),
        sqlite_repairs.open_repair,
        sqlite_repairs.open_outbox,
        # A file numbers its rows behind those that it has.
        lambda _url, _published: (),
        sqlite_joining.find_status,
        sqlite_joining.has_joined,
        sqlite_joining.detach,
        # Another dialect: a file has the tables alone.
        lambda _url, _scripts: None,
    ),
}


def kind_of(url: str) -> SubscriberKind:
    """Return the kind of subscriber that a URL names. Raises `UrlNotRead`, `DatabaseKindUnknown`."""
    return KINDS[parse_url(url).kind]
