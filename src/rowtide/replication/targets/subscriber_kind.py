"""What a kind of subscriber database offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.delivery import Delivery
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.snapshot.scripts import Script
from rowtide.replication.snapshot.target import SnapshotStatus, SnapshotTarget
from rowtide.replication.targets.compared_rows import SubscribedRows
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberKind:
    """What a kind of subscriber offers; subscribers are identified by URL, subscriptions by guid."""

    address: Callable[[str], str]
    """Return the URL as it is stored, valid wherever it is used. Raises `PasswordGiven`, `SubscriberWithoutFile`."""
    identify: Callable[[str], DatabaseIdentity]
    """Return the identity of the database that a URL leads to."""

    prepare: Callable[[str, NewSubscription], Sequence[str]]
    """Create delivery's objects and, for a snapshot, tables; return the unique constraints that these lack."""
    creations: Callable[[Iterable[Article]], Sequence[str]]
    """Return the statements that prepare a subscriber for articles."""
    forget: Forget
    recover: Callable[[str], Sequence[RecoveredTransaction]]
    """Commit or roll back the transactions that agents left prepared; return them."""
    make_scripted: Callable[[str, Sequence[Script]], None]
    """Create views and functions, or bring them up to date."""

    open_snapshot: Callable[[Subscription], OpenedSubscriber]
    """Connect, and take over from any earlier agent, to copy what has to be copied."""
    open_delivery: Callable[[Subscription, Sequence[Article]], Delivery]
    """Connect, and take over from any earlier agent, to deliver."""
    require_streams: Callable[[str, str, int], None]
    """Require that a subscription can be delivered in so many streams, and record that."""

    find_status: Callable[[str, str], SnapshotStatus | None]
    """Return how far the copy of a subscription is; None if the subscriber does not know the subscription."""
    has_joined: Callable[[str, str], bool]
    """Return whether the article of a joining subscription became one of the subscription that it joins."""
    is_used: Callable[[str, Article], bool]
    """Return whether an article's table cannot be dropped, because something else uses it, as views do."""
    detach: Callable[[str, str, Sequence[Article]], None]
    """Remove what delivery needs of articles that left a subscription; their rows stay."""

    open_rows: Callable[[Subscription, Sequence[Article]], AbstractContextManager[SubscribedRows]]
    """Read the subscriber in one snapshot, to compare its rows."""
    open_repair: Callable[[Subscription, Sequence[Article]], AbstractContextManager[RepairTransaction]]
    """Begin a repair, which is rolled back unless it is committed."""
    open_outbox: Callable[[Subscription], AbstractContextManager[RepairOutbox]]
    """Open what repairs have recorded at the subscriber."""
    list_conflicts: Callable[[Subscription], Sequence[KeptConflict]]
    """Return the conflicts that the subscriber has kept, newest first."""
    move_sequences: Callable[[str, Sequence[PublishedSequence]], Sequence[SyncedSequence]]
    """Move sequences to where the publisher's are, none of them back; return those that were moved."""
