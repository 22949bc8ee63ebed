"""A run of replication: its context, and what it reports, as events and to the program that started it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import field

from sqlalchemy import Engine

from rowtide.agents.loop import OnRetry, ignore
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.events import catalogue as events
from rowtide.events.event import emit
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import ArticleEnded, CommandError
from rowtide.replication.snapshot.agent import SnapshotReport
from rowtide.replication.subscription_settings import SettingsChanges


@frozen
class DeliveryReport:
    """Result of one delivered batch.

    `latency_ms`: from the commit of its last transaction at the publisher to its own commit, by the publisher's and the
    subscriber's clocks.
    """

    subscriber: str
    reached: Position
    transactions: int
    commands: int
    seconds: float
    latency_ms: int | None


@frozen
class Trouble:
    """An error of one subscription's agent; it tries again after a pause, or has stopped (None)."""

    subscription: Subscription
    error: Exception
    pause_s: float | None


@frozen
class SkippedCommand:
    """A command that one subscriber was not given, for its error."""

    subscription: Subscription
    error: CommandError


@frozen
class DroppedTable:
    """A published table no longer exists; its subscription continues without it."""

    subscription: Subscription
    error: ArticleEnded


@frozen
class DeliveredElsewhere:
    """Another process (`holder`: its host and id) delivers a subscription; this run takes over when that one ends."""

    subscription: Subscription
    holder: str


@frozen
class Watchers:
    """Called from the threads of a run, several at once. `on_retry` is of the publisher and its log."""

    on_batch: Callable[[DeliveryReport], None] = ignore
    on_trouble: Callable[[Trouble], None] = ignore
    on_retry: OnRetry = ignore
    on_snapshot: Callable[[SnapshotReport], None] = ignore
    on_skipped: Callable[[SkippedCommand], None] = ignore
    on_dropped: Callable[[DroppedTable], None] = ignore
    on_elsewhere: Callable[[DeliveredElsewhere], None] = ignore


class BatchCounts:
    """Counts of the current batch."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.transactions = 0
        self.commands = 0
        self.last_lsn = -1

    def count(self, lsn: int, commands: int) -> None:
        """Count calls of a transaction."""
        self.commands += commands
        if lsn != self.last_lsn:
            self.transactions += 1
            self.last_lsn = lsn


@frozen
class DeliveryContext:
    """One run on one publisher, whose database `engine` leads to; `stop` ends it.

    Each subscription's agent has one of its own, with its own `stop` and watchers. `settings` replace those of the
    subscriptions.
    """

    url: str
    engine: Engine
    stop: threading.Event = field(default_factory=threading.Event)
    watchers: Watchers = field(default_factory=Watchers)
    settings: SettingsChanges = field(default_factory=SettingsChanges)


def emitting(watchers: Watchers) -> Watchers:
    """Return watchers that emit an event for each report, and pass it on. Retries are events already: `run_agent`."""

    def on_batch(report: DeliveryReport) -> None:
        amounts = report.transactions, report.commands, report.seconds, report.latency_ms
        emit(events.BatchDelivered(report.subscriber, report.reached, *amounts))
        watchers.on_batch(report)

    def on_trouble(trouble: Trouble) -> None:
        publication, subscriber = trouble.subscription.publication, trouble.subscription.subscriber
        if trouble.pause_s is None:
            emit(events.SubscriptionStopped(publication, subscriber, trouble.error))
        else:
            emit(events.SubscriptionRetries(publication, subscriber, trouble.pause_s, trouble.error))
        watchers.on_trouble(trouble)

    def on_snapshot(report: SnapshotReport) -> None:
        amounts = report.chunks, report.of_chunks, report.copied_bytes, report.seconds
        emit(events.SubscriberCopyAdvanced(report.subscriber, report.table, *amounts, report.waits_for))
        watchers.on_snapshot(report)

    def on_skipped(skipped: SkippedCommand) -> None:
        subscription = skipped.subscription
        emit(events.CommandSkipped(subscription.publication, subscription.subscriber, skipped.error))
        watchers.on_skipped(skipped)

    def on_dropped(dropped: DroppedTable) -> None:
        subscription = dropped.subscription
        emit(events.ArticleLeft(subscription.publication, subscription.subscriber, dropped.error))
        watchers.on_dropped(dropped)

    def on_elsewhere(elsewhere: DeliveredElsewhere) -> None:
        subscription = elsewhere.subscription
        emit(events.DeliveredByOther(subscription.publication, subscription.subscriber, elsewhere.holder))
        watchers.on_elsewhere(elsewhere)

    return Watchers(on_batch, on_trouble, watchers.on_retry, on_snapshot, on_skipped, on_dropped, on_elsewhere)
