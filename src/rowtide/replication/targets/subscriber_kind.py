"""What a kind of subscriber database offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.delivery import Delivery
from rowtide.replication.snapshot.scripts import Script
from rowtide.replication.snapshot.target import SnapshotStatus, SnapshotTarget
from rowtide.replication.targets.fingerprints import SubscribedRows
from rowtide.replication.targets.identity import DatabaseIdentity
from rowtide.replication.targets.kept_conflicts import KeptConflict
from rowtide.replication.targets.new_subscription import NewSubscription
from rowtide.replication.targets.recovered import RecoveredTransaction
from rowtide.replication.targets.repairing import RepairOutbox, RepairTransaction
from rowtide.replication.targets.sequences import PublishedSequence, SyncedSequence


class Forget(Protocol):
    """Removes a subscription's objects; with `is_added_again`, what another to the same tables needs to know stays."""

    def __call__(self, url: str, guid: str, articles: Iterable[Article], *, is_added_again: bool) -> None: ...


class OpenedSubscriber(SnapshotTarget, Protocol):
    """A subscriber as its agent opens it, which is copied to as long as there is something to copy."""

    def deliver(self, subscription: Subscription, articles: Sequence[Article]) -> Delivery:
        """Return delivery in place of this, once nothing has to be copied; it closes what this holds.

        Raises as `open_delivery`.
        """


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
    open_snapshot: Callable[[Subscription], OpenedSubscriber]
    open_rows: Callable[[Subscription, Sequence[Article]], AbstractContextManager[SubscribedRows]]
    list_conflicts: Callable[[Subscription], Sequence[KeptConflict]]
    open_repair: Callable[[Subscription, Sequence[Article]], AbstractContextManager[RepairTransaction]]
    open_outbox: Callable[[Subscription], AbstractContextManager[RepairOutbox]]
    move_sequences: Callable[[str, Sequence[PublishedSequence]], Sequence[SyncedSequence]]
    find_status: Callable[[str, str], SnapshotStatus | None]
    has_joined: Callable[[str, str], bool]
    detach: Callable[[str, str, Sequence[Article]], None]
    make_scripted: Callable[[str, Sequence[Script]], None]
