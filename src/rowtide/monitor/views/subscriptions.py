"""Subscriptions of replication and of merge, as pages and metrics show them: state, lag, errors. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum

from rowtide.core.values import frozen
from rowtide.diagnosis import CheckResult, Code
from rowtide.diagnosis.capture import LATE_S
from rowtide.diagnosis.merge import MergeFacts
from rowtide.log.postgres.backlog import seconds_between
from rowtide.merge.status import MergeStatus
from rowtide.monitor.labels import number_of, without_users
from rowtide.monitor.views.states import MERGE_STATES
from rowtide.replication.distributor.history import RunStatus
from rowtide.replication.status import DeliveryStatus, SubscriptionDelivery

SUBSCRIPTION_STATES = {
    Code.SUBSCRIPTION_DEACTIVATED: "deactivated",
    Code.SUBSCRIPTION_EXPIRING: "expiring",
    Code.SUBSCRIPTION_PAUSED: "paused",
    Code.SUBSCRIPTION_FAILED: "failed",
    Code.SUBSCRIPTION_RETRYING: "retrying",
    Code.SUBSCRIPTION_NEVER_RUN: "never_run",
    Code.SUBSCRIPTION_STOPPED: "stopped",
    Code.SUBSCRIPTION_LATE: "late",
    Code.SUBSCRIPTION_HEALTHY: "healthy",
}
"""States of a subscription, by its code in `health`."""


class MonitorState(StrEnum):
    """How Replication Monitor ranks a subscription, the worst first (SQL Server: monitorranking)."""

    ERROR = "error"
    CRITICAL = "performance critical"
    """Changes have waited for longer than the publication's latency threshold."""
    EXPIRING = "expiring or expired"
    UNINITIALIZED = "uninitialized"
    RETRYING = "retrying"
    NOT_RUNNING = "not running"
    RUNNING = "running"


class Quality(StrEnum):
    """Latency in parts of its threshold: up to 34, 59, 84 and 99 percent, and above."""

    EXCELLENT = "excellent"
    GOOD = "good"
    FAIR = "fair"
    POOR = "poor"
    CRITICAL = "critical"


_MONITOR_STATES = {
    "deactivated": MonitorState.EXPIRING,
    "expiring": MonitorState.EXPIRING,
    "paused": MonitorState.NOT_RUNNING,
    "failed": MonitorState.ERROR,
    "retrying": MonitorState.RETRYING,
    "never_run": MonitorState.UNINITIALIZED,
    "stopped": MonitorState.NOT_RUNNING,
    "late": MonitorState.CRITICAL,
}
_QUALITIES = (
    (0.35, Quality.EXCELLENT),
    (0.60, Quality.GOOD),
    (0.85, Quality.FAIR),
    (1.0, Quality.POOR),
)


@frozen
class SubscriptionView:
    """A transactional subscription; `state` is a value of `SUBSCRIPTION_STATES`.

    `margin_s` is how long its changes are still kept; counts are of whole segments. `waits_s` is the age of the oldest
    change that is not delivered, 0 where none waits; `delivered_by` is the host and process that delivers.
    `rate` is in commands a second, as the agent recorded it at `recorded_at`; `error` the number of the error that it
    has stopped with, or tries again after.
    """

    publication: str
    subscriber: str
    state: str
    latency_s: float | None
    undelivered_commands: int
    undelivered_bytes: int
    margin_s: float
    total_commands: int | None
    waits_s: float = 0.0
    threshold_s: float = LATE_S
    delivered_by: str | None = None
    rate: float | None = None
    recorded_at: datetime | None = None
    runstatus: str | None = None
    error: str | None = None

    @property
    def monitor_state(self) -> MonitorState:
        """The state that Replication Monitor would show: one whose agent rests is not running, however healthy."""
        is_running = self.delivered_by is not None
        return _MONITOR_STATES.get(self.state, MonitorState.RUNNING if is_running else MonitorState.NOT_RUNNING)

    @property
    def quality(self) -> Quality | None:
        """The quality of its latency, None before it is known."""
        found = [self.waits_s, *([self.latency_s] if self.latency_s is not None else [])]
        if self.latency_s is None and not self.waits_s:
            return None
        share = max(found) / self.threshold_s
        return next((quality for below, quality in _QUALITIES if share < below), Quality.CRITICAL)

    @property
    def catch_up_s(self) -> float | None:
        """The estimated time until nothing waits, at its last rate; None where no agent runs, or no rate is known."""
        if not self.undelivered_commands:
            return 0.0
        if self.delivered_by is None or not self.rate:
            return None
        return self.undelivered_commands / self.rate


@frozen
class PublicationView:
    """A publication with its subscriptions, the worst first."""

    name: str
    subscriptions: tuple[SubscriptionView, ...]


def view_subscriptions(delivery: DeliveryStatus, results: Iterable[CheckResult]) -> Iterator[SubscriptionView]:
    """Yield the subscriptions of a database."""
    states = {
        result.subject: SUBSCRIPTION_STATES[result.code] for result in results if result.code in SUBSCRIPTION_STATES
    }
    for one in delivery.subscriptions:
        # An article that joins a subscription is listed beside it.
        if one.joining is None:
            yield _view_subscription(one, delivery, states)


def group_publications(
    publications: Iterable[str], subscriptions: Iterable[SubscriptionView]
) -> Iterator[PublicationView]:
    """Yield the publications by name, also those without subscriptions, each with its worst subscription first."""
    order = list(MonitorState)
    listed = list(subscriptions)
    for name in sorted({*publications, *(one.publication for one in listed)}):
        own = [one for one in listed if one.publication == name]
        yield PublicationView(
            name, tuple(sorted(own, key=lambda one: (order.index(one.monitor_state), one.subscriber)))
        )


def _view_subscription(
    one: SubscriptionDelivery, delivery: DeliveryStatus, states: Mapping[str, str]
) -> SubscriptionView:
    waits_s = max(seconds_between(one.oldest_waiting, delivery.now) or 0.0, 0.0)
    has_error = one.runstatus in (RunStatus.FAIL.words, RunStatus.RETRY.words)
    return SubscriptionView(
        publication=one.publication,
        subscriber=without_users(one.subscriber),
        state=states.get(f"subscription {one.publication} to {one.subscriber}", "healthy"),
        latency_s=one.latency_s,
        undelivered_commands=one.undelivered_rows,
        undelivered_bytes=one.undelivered_bytes,
        margin_s=delivery.retention.total_seconds() - waits_s,
        total_commands=one.total_commands,
        waits_s=waits_s,
        threshold_s=one.thresholds.latency_s or LATE_S,
        delivered_by=one.delivered_by,
        rate=one.delivery_rate,
        recorded_at=one.recorded_at,
        runstatus=one.runstatus,
        error=number_of(one.comments or "") if has_error else None,
    )


@frozen
class MergeSubscriptionView:
    """A merge subscription, as the hub knows it; `state` is a value of `MERGE_STATES`.

    `priority` decides conflicts; `partition` is the host name by which its rows are filtered, None without one.
    `is_running` says that it synchronises now, `error` is the number of the error that its last run failed with. Of a
    device that synchronises over HTTP, `device` is its name, `contact_age_s` the time since its last contact, and
    `tokens_refused` how often it was refused since then.
    """

    publication: str
    subscriber: str
    state: str
    sync_age_s: float | None
    expires_in_s: float | None
    rows_refused: int
    last_sync: datetime | None = None
    expires: datetime | None = None
    subscriber_type: str | None = None
    priority: float | None = None
    partition: str | None = None
    is_running: bool = False
    error: str | None = None
    device: str | None = None
    contact_age_s: float | None = None
    client_version: str | None = None
    tokens_refused: int | None = None


@frozen
class MergeView:
    """A merge publication with its subscriptions; `role` is this node's: publisher or subscriber."""

    publication: str
    conflicts_open: int
    subscriptions: tuple[MergeSubscriptionView, ...]
    role: str = "publisher"
    articles: tuple[str, ...] = ()
    retention_days: int | None = None


def view_merges(facts: MergeFacts, results: Iterable[CheckResult]) -> tuple[MergeView, ...]:
    """Return the publications in the order in which the hub lists them."""
    states = {result.subject: MERGE_STATES[result.code] for result in results if result.code in MERGE_STATES}
    by_publication: dict[str, list[MergeStatus]] = {}
    for listed in facts.listed:
        by_publication.setdefault(listed.publication, []).append(listed)
    return tuple(
        MergeView(
            name,
            listed[0].open_conflicts,
            tuple(_view_merge_subscription(one, facts.now, states) for one in listed if one.subscriber is not None),
            listed[0].role,
            listed[0].articles,
            listed[0].retention_days,
        )
        for name, listed in by_publication.items()
    )


def count_states(merge: MergeView) -> Mapping[str, int]:
    """Return how many subscriptions of a merge publication are in each state."""
    counted = Counter(one.state for one in merge.subscriptions)
    return {state: counted[state] for state in MERGE_STATES.values()}


def list_worst(merge: MergeView) -> tuple[MergeSubscriptionView, ...]:
    """Return the subscriptions, those that need a person first, then those that expire soonest."""
    order = ("failed", "expired", "rows_refused", "expiring", "never_synchronised", "healthy")
    ranked = sorted(
        merge.subscriptions,
        key=lambda one: (
            order.index(one.state),
            one.expires_in_s if one.expires_in_s is not None else float("inf"),
            one.subscriber,
        ),
    )
    return tuple(ranked)


def _view_merge_subscription(one: MergeStatus, now: datetime, states: Mapping[str, str]) -> MergeSubscriptionView:
    return MergeSubscriptionView(
        publication=one.publication,
        subscriber=without_users(one.subscriber or ""),
        state=states.get(f"merge subscription {one.publication}, {one.subscriber}", "healthy"),
        sync_age_s=seconds_between(one.last_sync, now),
        expires_in_s=(one.expires - now).total_seconds() if one.expires is not None else None,
        rows_refused=one.rows_refused or 0,
        last_sync=one.last_sync,
        expires=one.expires,
        subscriber_type=one.subscriber_type,
        priority=one.priority,
        partition=one.host_name,
        is_running=one.state == "running",
        error=number_of(one.summary or "") if one.state == "failed" else None,
        device=one.device,
        contact_age_s=seconds_between(one.last_contact, now),
        client_version=one.client_version,
        tokens_refused=one.tokens_refused,
    )
