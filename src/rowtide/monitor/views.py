"""How a database stands, as pages and metrics show it: made of one snapshot. Pure.

What could not be read is None or missing, never 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from rowtide.agents.runs import RunOutcome
from rowtide.cdc.jobs.administration import AGENT
from rowtide.cdc.status import capture_lag_s, unpublished_segments
from rowtide.core.values import frozen
from rowtide.diagnosis import Area, CheckResult, Code, State
from rowtide.diagnosis.merge import MergeFacts
from rowtide.diagnosis.places import PlaceFacts
from rowtide.diagnosis.postgres.reading import LogFacts, PostgresWorkFacts
from rowtide.diagnosis.postgres.tracking_facts import TrackingFacts
from rowtide.diagnosis.result import Unread
from rowtide.diagnosis.tracked_tables import TrackedFacts
from rowtide.log.postgres.backlog import seconds_between
from rowtide.merge.status import MergeStatus
from rowtide.monitor.labels import without_users
from rowtide.monitor.snapshot import PolledCopy, PolledFigures, PolledSnapshot
from rowtide.replication.status import DeliveryStatus, SubscriptionDelivery
from rowtide.targets.definitions import TableState

_HOUR_S = 3600.0


@frozen
class Judgement:
    """What `health` says of a subject, the worst of it."""

    area: str
    subject: str
    state: State
    code: str
    message: str


@frozen
class SlotView:
    """The replication slot; sizes in bytes, `safe_bytes` None where nothing limits it."""

    name: str
    wal_status: str
    invalidation_reason: str
    retained_bytes: int | None
    safe_bytes: int | None


@frozen
class LogView:
    """How far the log is read, and its store."""

    lag_bytes: int | None
    lag_s: float | None
    slot: SlotView | None
    store_bytes: int | None
    unread_bytes: int | None


@frozen
class CaptureView:
    """How far capture is; `gaps` counts those that are recorded in the log store."""

    lag_s: float | None
    gaps: int | None
    copying: tuple[PolledCopy, ...] = ()


@frozen
class ConsumerView:
    """A named consumer; `margin_s` is how long cleanup still waits for it, negative if it no longer does."""

    name: str
    lag_s: float
    margin_s: float


@frozen
class TargetView:
    """A table of a target; `lag_s` is None before the first apply."""

    target: str
    instance: str
    lag_s: float | None
    is_stopped: bool


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
"""States of a subscription, by what `health` says of it."""


@frozen
class SubscriptionView:
    """A transactional subscription; `state` is a value of `SUBSCRIPTION_STATES`.

    `margin_s` is how long its changes are still kept; counts are of whole segments.
    """

    publication: str
    subscriber: str
    state: str
    latency_s: float | None
    undelivered_commands: int
    undelivered_bytes: int
    margin_s: float
    total_commands: int | None


MERGE_STATES = {
    Code.MERGE_NEVER_SYNCHRONISED: "never_synchronised",
    Code.MERGE_EXPIRED: "expired",
    Code.MERGE_FAILED: "failed",
    Code.MERGE_EXPIRING: "expiring",
    Code.MERGE_ROWS_REFUSED: "rows_refused",
    Code.MERGE_SUBSCRIPTION_HEALTHY: "healthy",
}
"""States of a merge subscription, by what `health` says of it."""


@frozen
class MergeSubscriptionView:
    """A merge subscription, as the hub knows it; `state` is a value of `MERGE_STATES`."""

    publication: str
    subscriber: str
    state: str
    sync_age_s: float | None
    expires_in_s: float | None
    rows_refused: int


@frozen
class MergeView:
    """A merge publication with its subscriptions."""

    publication: str
    conflicts_open: int
    subscriptions: tuple[MergeSubscriptionView, ...]


@frozen
class TrackedView:
    """A tracked table."""

    table: str
    tombstones: int
    is_lost: bool


@frozen
class PlaceView:
    """A folder that rowtide writes."""

    place: str
    free_bytes: int


@frozen
class DatabaseView:
    """Everything that a poll has found of a database, in the terms of pages and metrics.

    `unknown_since` is when it was last read, or polled first, if it cannot be read now, for `reason`. `agents` says
    which run, by name; `job_successes` when a job last succeeded.
    """

    name: str
    is_up: bool
    polled_at: datetime
    duration_s: float
    unknown_since: datetime | None
    reason: str | None
    judgements: tuple[Judgement, ...]
    agents: Mapping[str, bool]
    job_successes: Mapping[str, datetime]
    oldest_transactions_s: Mapping[str, float]
    log: LogView | None = None
    capture: CaptureView | None = None
    places: tuple[PlaceView, ...] = ()
    consumers: tuple[ConsumerView, ...] = ()
    targets: tuple[TargetView, ...] = ()
    subscriptions: tuple[SubscriptionView, ...] = ()
    merges: tuple[MergeView, ...] = ()
    tracked: tuple[TrackedView, ...] = ()


def make_view(snapshot: PolledSnapshot, *, unknown_since: datetime | None = None) -> DatabaseView:
    """Return the view of a snapshot; `unknown_since` where it has an error."""
    work, figures = snapshot.work, snapshot.figures
    log = work.log if work is not None and isinstance(work.log, LogFacts) else None
    return DatabaseView(
        name=snapshot.database,
        is_up=snapshot.error is None,
        polled_at=snapshot.at,
        duration_s=snapshot.duration_s,
        unknown_since=unknown_since if snapshot.error is not None else None,
        reason=str(snapshot.error) if snapshot.error is not None else None,
        judgements=tuple(_judge(snapshot.results)),
        agents=_list_agents(log) if log is not None else {},
        job_successes=_list_successes(log, figures),
        oldest_transactions_s=figures.oldest_s if figures is not None else {},
        log=_view_log(log, figures) if log is not None else None,
        capture=_view_capture(log, figures) if log is not None and log.capture.is_enabled else None,
        places=tuple(_view_places(snapshot, log)),
        consumers=tuple(
            ConsumerView(one.consumer, one.lag_seconds, one.hours_left * _HOUR_S)
            for one in (log.capture.consumers if log is not None else ())
        ),
        targets=tuple(_view_targets(log)) if log is not None else (),
        subscriptions=tuple(_view_subscriptions(log, snapshot.results)) if log is not None else (),
        merges=_view_merges(snapshot.merge, snapshot.results) if isinstance(snapshot.merge, MergeFacts) else (),
        tracked=tuple(_view_tracked(snapshot, work)),
    )


_WORST_FIRST = list(State)


def _judge(results: Iterable[CheckResult]) -> Iterator[Judgement]:
    """Return one judgement of each subject; the subscriptions of a merge publication are one subject."""
    found: dict[tuple[str, str], Judgement] = {}
    for result in results:
        key = str(result.area), _subject_of(result)
        known = found.get(key)
        if known is None or _WORST_FIRST.index(result.state) < _WORST_FIRST.index(known.state):
            found[key] = Judgement(*key, result.state, str(result.code), without_users(result.message))
    yield from found.values()


def _subject_of(result: CheckResult) -> str:
    if result.area is Area.MERGE and result.code in MERGE_STATES:
        return f"{result.subject.partition(', ')[0]}, all subscribers"
    return without_users(result.subject)


def _list_agents(log: LogFacts) -> dict[str, bool]:
    """Return which agents run; distribution counts only if every subscription that is active is delivered."""
    agents = {"log_reader": log.capture.log_reader is not None}
    if log.capture.is_enabled and log.capturing is not None and not isinstance(log.capturing, Unread):
        agents["capture"] = log.capturing.capture is not None
    if log.cleanup is not None and not isinstance(log.cleanup, Unread):
        agents[AGENT] = log.cleanup.agent is not None
    if isinstance(log.delivery, DeliveryStatus):
        active = [one for one in log.delivery.subscriptions if not (one.is_paused or one.is_deactivated)]
        if active:
            agents["distribution"] = all(one.delivered_by is not None for one in active)
    return agents


def _list_successes(log: LogFacts | None, figures: PolledFigures | None) -> dict[str, datetime]:
    found: dict[str, datetime] = {}
    if figures is not None and not isinstance(figures.runs, Unread):
        for run in figures.runs:
            if run.outcome is RunOutcome.SUCCEEDED and run.ended_at is not None:
                found[run.job] = max(run.ended_at, found.get(run.job, run.ended_at))
    if log is not None and log.cleanup is not None and not isinstance(log.cleanup, Unread):
        cleaned = log.cleanup.last_cleaned
        if cleaned is not None:
            found["cleanup"] = max(cleaned, found.get("cleanup", cleaned))
    return found


def _view_log(log: LogFacts, figures: PolledFigures | None) -> LogView:
    capture, state = log.capture, log.capture.state
    reading = log.reading.status if not isinstance(log.reading, Unread) else None
    slot = capture.slot
    reason = (figures.invalidation if figures is not None else None) or ""
    return LogView(
        lag_bytes=reading.unread_bytes if reading is not None else None,
        lag_s=reading.lag_s if reading is not None else None,
        slot=SlotView(slot.name, slot.wal_status, reason, slot.kept_bytes, slot.safe_bytes)
        if slot is not None
        else None,
        store_bytes=sum(segment.bytes for segment in state.segments) if state is not None else None,
        unread_bytes=sum(segment.bytes for segment in unpublished_segments(state))
        if state is not None and capture.is_enabled
        else None,
    )


def _view_capture(log: LogFacts, figures: PolledFigures | None) -> CaptureView:
    state = log.capture.state
    reading = log.reading.status if not isinstance(log.reading, Unread) else None
    copying = figures.copying if figures is not None and not isinstance(figures.copying, Unread) else ()
    return CaptureView(
        lag_s=capture_lag_s(state, reading) if state is not None and reading is not None else None,
        gaps=len(state.gaps) if state is not None else None,
        copying=copying,
    )


def _view_places(snapshot: PolledSnapshot, log: LogFacts | None) -> Iterator[PlaceView]:
    places = [*(log.places if log is not None else ()), *([snapshot.place] if snapshot.place is not None else ())]
    for place in places:
        if isinstance(place, PlaceFacts) and not place.is_missing:
            yield PlaceView(place.subject, place.free_bytes)


def _view_targets(log: LogFacts) -> Iterator[TargetView]:
    if not isinstance(log.lake.targets, Unread):
        for one in log.lake.targets:
            yield TargetView(one.target, one.instance, one.lag_seconds, one.state == TableState.STOPPED)


def _view_subscriptions(log: LogFacts, results: Iterable[CheckResult]) -> Iterator[SubscriptionView]:
    if not isinstance(log.delivery, DeliveryStatus):
        return
    states = {
        result.subject: SUBSCRIPTION_STATES[result.code] for result in results if result.code in SUBSCRIPTION_STATES
    }
    for one in log.delivery.subscriptions:
        # An article that joins a subscription is listed beside it.
        if one.joining is None:
            yield _view_subscription(one, log.delivery, states)


def _view_subscription(
    one: SubscriptionDelivery, delivery: DeliveryStatus, states: Mapping[str, str]
) -> SubscriptionView:
    waits_s = seconds_between(one.oldest_waiting, delivery.now) or 0.0
    return SubscriptionView(
        publication=one.publication,
        subscriber=without_users(one.subscriber),
        state=states.get(f"subscription {one.publication} to {one.subscriber}", "healthy"),
        latency_s=one.latency_s,
        undelivered_commands=one.undelivered_rows,
        undelivered_bytes=one.undelivered_bytes,
        margin_s=delivery.retention.total_seconds() - waits_s,
        total_commands=one.total_commands,
    )


def _view_merges(facts: MergeFacts, results: Iterable[CheckResult]) -> tuple[MergeView, ...]:
    states = {result.subject: MERGE_STATES[result.code] for result in results if result.code in MERGE_STATES}
    by_publication: dict[str, list[MergeStatus]] = {}
    for listed in facts.listed:
        by_publication.setdefault(listed.publication, []).append(listed)
    return tuple(
        MergeView(
            name,
            listed[0].open_conflicts,
            tuple(_view_merge_subscription(one, facts.now, states) for one in listed if one.subscriber is not None),
        )
        for name, listed in by_publication.items()
    )


def _view_merge_subscription(one: MergeStatus, now: datetime, states: Mapping[str, str]) -> MergeSubscriptionView:
    return MergeSubscriptionView(
        publication=one.publication,
        subscriber=without_users(one.subscriber or ""),
        state=states.get(f"merge subscription {one.publication}, {one.subscriber}", "healthy"),
        sync_age_s=seconds_between(one.last_sync, now),
        expires_in_s=(one.expires - now).total_seconds() if one.expires is not None else None,
        rows_refused=one.rows_refused or 0,
    )


def _view_tracked(snapshot: PolledSnapshot, work: PostgresWorkFacts | None) -> Iterator[TrackedView]:
    facts: tuple[TrackedFacts, ...] = () if isinstance(snapshot.tracked, Unread) else snapshot.tracked
    if work is not None and isinstance(work.tracking, TrackingFacts):
        facts = tuple(table.base for table in work.tracking.tables)
    for one in facts:
        yield TrackedView(one.tracked.name, one.tombstones.count, one.loss is not None)


def count_states(merge: MergeView) -> Mapping[str, int]:
    """Return how many subscriptions of a merge publication are in each state."""
    counted = Counter(one.state for one in merge.subscriptions)
    return {state: counted[state] for state in MERGE_STATES.values()}
