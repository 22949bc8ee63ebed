"""Merge publications and their subscriptions, as the hub knows them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from rowtide.core.values import frozen
from rowtide.diagnosis import CheckResult
from rowtide.diagnosis.merge import MergeFacts
from rowtide.log.postgres.slot import seconds_between
from rowtide.merge.status import MergeStatus
from rowtide.monitor.labels import number_of, without_users
from rowtide.monitor.views.judgements import MERGE_STATES


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


def list_worst(merge: MergeView, most: int | None = None) -> tuple[MergeSubscriptionView, ...]:
    """Return subscriptions, those that want a person first, then those that expire soonest; at most so many."""
    order = ("failed", "expired", "rows_refused", "expiring", "never_synchronised", "healthy")
    ranked = sorted(
        merge.subscriptions,
        key=lambda one: (
            order.index(one.state),
            one.expires_in_s if one.expires_in_s is not None else float("inf"),
            one.subscriber,
        ),
    )
    return tuple(ranked[:most])


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
