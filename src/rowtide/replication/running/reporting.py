"""What a run of replication reports, as events."""

from __future__ import annotations

from rowtide.events import catalogue as events
from rowtide.events.emission import emit
from rowtide.replication.distribution.watchers import (
    DeliveredElsewhere,
    DeliveryReport,
    DroppedTable,
    SkippedCommand,
    Trouble,
    Watchers,
)
from rowtide.replication.snapshot.agent import SnapshotReport


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
