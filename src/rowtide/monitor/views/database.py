"""The state of a database as pages and metrics show it, made of one snapshot; and the overview of all databases. Pure.

What could not be read is None or missing, never 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime, timedelta

from rowtide.agents.loop import RunOutcome
from rowtide.cdc.jobs.requests import AGENT
from rowtide.core.values import frozen
from rowtide.diagnosis import State
from rowtide.diagnosis.merge import MergeFacts
from rowtide.diagnosis.postgres.reading import LogFacts, PostgresWorkFacts
from rowtide.diagnosis.postgres.tracking_facts import TrackingFacts
from rowtide.diagnosis.result import Unread
from rowtide.diagnosis.tracked_tables import TrackedFacts
from rowtide.monitor.labels import number_of, without_users
from rowtide.monitor.snapshot import PolledFigures, PolledSnapshot, known_of
from rowtide.monitor.views.capture import (
    CaptureView,
    ConsumerView,
    LogView,
    PlaceView,
    TargetView,
    view_capture,
    view_consumers,
    view_log,
    view_places,
    view_targets,
)
from rowtide.monitor.views.hops import Hop, HopKind, list_hops
from rowtide.monitor.views.states import WORST_FIRST, CheckView, Judgement, judge, list_checks, worst_of
from rowtide.monitor.views.subscriptions import (
    MergeView,
    PublicationView,
    SubscriptionView,
    group_publications,
    view_merges,
    view_subscriptions,
)
from rowtide.replication.status import DeliveryStatus

KEPT = timedelta(hours=48)


@frozen
class ErrorView:
    """An error that an agent recorded: `source` is the agent (capture, a job's name, log reader, or distribution).

    `number` is as in docs/reference/errors.md, else the class of an error that has none. Of distribution also the
    subscription is known.
    """

    at: datetime
    source: str
    number: str
    publication: str | None = None
    subscriber: str | None = None


def view_errors(figures: PolledFigures, now: datetime) -> tuple[ErrorView, ...]:
    """Return the errors, newest first."""
    found = (error for error in _list(figures) if error.at >= now - KEPT)
    return tuple(sorted(found, key=lambda error: error.at, reverse=True))


def count_numbers(errors: Iterable[ErrorView]) -> tuple[tuple[str, int], ...]:
    """Return how often each number was recorded, the most frequent first."""
    return tuple(Counter(error.number for error in errors).most_common())


def _list(figures: PolledFigures) -> Iterator[ErrorView]:
    for scan in known_of(figures.scan_errors):
        if scan.at is not None:
            yield ErrorView(scan.at, "capture", _with_prefix(scan.code))
    for run in known_of(figures.runs):
        at = run.ended_at or run.started_at
        if run.outcome in (RunOutcome.FAILED, RunOutcome.LOST) and at is not None:
            yield ErrorView(at, run.job, number_of(run.message or "") or run.outcome.value)
    for one in known_of(figures.delivery_errors):
        if one.at is not None:
            source = "log reader" if one.publication is None else "distribution"
            subscriber = without_users(one.subscriber) if one.subscriber is not None else None
            yield ErrorView(one.at, source, _with_prefix(one.code), one.publication, subscriber)


def _with_prefix(code: str) -> str:
    return f"RT-{code}" if code.isdigit() else code


_LEAST_SKEW_S = 1.0
"""Smaller differences of clocks cannot be distinguished from the duration of a poll."""


@frozen
class TrackedView:
    """A tracked table."""

    table: str
    tombstones: int
    is_lost: bool


@frozen
class JobRunView:
    """A run of a job of the agent; `error` is the number of the error that it failed with."""

    job: str
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str
    retries: int
    error: str | None


@frozen
class DatabaseView:
    """Everything that a poll has found of a database, in the terms of pages and metrics.

    `unknown_since` is when it was last read, or polled first, if it cannot be read now, for `reason`. `agents` says
    which run, by name; `job_successes` when a job last succeeded.

    `checks` are all results, the worst first, `errors` those of the last 48 hours, newest first, `way` the stations of
    a change, `publications` the subscriptions by publication, `job_runs` the last runs, newest first. `delivered_here`
    are publications of other databases. `clock_skew_s` is how far the server's clock is ahead of this machine's, None
    where it is not, or not known: latencies between them are then wrong by that. `lists_subscriptions`: there are no
    subscriptions but these; else they could not be read.
    where it is not, or not known: latencies between them are then wrong by that. `table_changes` counts the changes of
    each table whose log is read, since the server's statistics began.
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
    checks: tuple[CheckView, ...] = ()
    errors: tuple[ErrorView, ...] = ()
    way: tuple[Hop, ...] = ()
    publications: tuple[PublicationView, ...] = ()
    job_runs: tuple[JobRunView, ...] = ()
    delivered_here: tuple[str, ...] = ()
    clock_skew_s: float | None = None
    lists_subscriptions: bool = False
    table_changes: Mapping[str, int] = field(default_factory=dict)


def make_view(snapshot: PolledSnapshot, *, unknown_since: datetime | None = None) -> DatabaseView:
    """Return the view of a snapshot; `unknown_since` where it has an error."""
    work, figures = snapshot.work, snapshot.figures
    log = _log_of(work)
    judgements = tuple(judge(snapshot.results))
    log_view = view_log(log, figures) if log is not None else None
    capture = view_capture(log, figures) if log is not None and log.capture.is_enabled else None
    delivery = log.delivery if log is not None and isinstance(log.delivery, DeliveryStatus) else None
    targets = tuple(view_targets(log)) if log is not None else ()
    subscriptions = tuple(view_subscriptions(delivery, snapshot.results)) if delivery is not None else ()
    merges = view_merges(snapshot.merge, snapshot.results) if isinstance(snapshot.merge, MergeFacts) else ()
    return DatabaseView(
        name=snapshot.database,
        is_up=snapshot.error is None,
        polled_at=snapshot.at,
        duration_s=snapshot.duration_s,
        unknown_since=unknown_since if snapshot.error is not None else None,
        reason=without_users(str(snapshot.error)) if snapshot.error is not None else None,
        judgements=judgements,
        agents=_list_agents(log) if log is not None else {},
        job_successes=_list_successes(log, figures),
        oldest_transactions_s=figures.oldest_s if figures is not None else {},
        log=log_view,
        capture=capture,
        places=tuple(view_places(snapshot, log)),
        consumers=tuple(view_consumers(log)) if log is not None else (),
        targets=targets,
        subscriptions=subscriptions,
        merges=merges,
        tracked=tuple(_view_tracked(snapshot, work)),
        checks=tuple(list_checks(snapshot.results)),
        errors=view_errors(figures, snapshot.at) if figures is not None else (),
        way=list_hops(judgements, log_view, capture, targets, subscriptions, merges),
        publications=tuple(group_publications(delivery.publications, subscriptions)) if delivery is not None else (),
        job_runs=tuple(_list_runs(figures)) if figures is not None else (),
        delivered_here=_list_delivered(work),
        clock_skew_s=_find_skew(snapshot, log),
        lists_subscriptions=delivery is not None,
        table_changes=_count_changes(figures),
    )


def _log_of(work: PostgresWorkFacts | None) -> LogFacts | None:
    """Return what is read through the log; of a standby it is unknown: leases and slots are the primary's."""
    if work is None or not isinstance(work.log, LogFacts) or work.server.identity.in_recovery:
        return None
    return work.log


def _count_changes(figures: PolledFigures | None) -> Mapping[str, int]:
    return {} if figures is None or isinstance(figures.table_changes, Unread) else figures.table_changes


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


def _view_tracked(snapshot: PolledSnapshot, work: PostgresWorkFacts | None) -> Iterator[TrackedView]:
    facts: tuple[TrackedFacts, ...] = () if isinstance(snapshot.tracked, Unread) else snapshot.tracked
    if work is not None and isinstance(work.tracking, TrackingFacts):
        facts = tuple(table.base for table in work.tracking.tables)
    for one in facts:
        yield TrackedView(one.tracked.name, one.tombstones.count, one.loss is not None)


def _list_runs(figures: PolledFigures) -> Iterator[JobRunView]:
    for run in reversed(figures.runs) if not isinstance(figures.runs, Unread) else ():
        has_failed = run.outcome in (RunOutcome.FAILED, RunOutcome.LOST)
        error = number_of(run.message or "") if has_failed else None
        yield JobRunView(run.job, run.started_at, run.ended_at, run.outcome.value, run.retries, error)


def _list_delivered(work: PostgresWorkFacts | None) -> tuple[str, ...]:
    return () if work is None or isinstance(work.delivered_here, Unread) else work.delivered_here


def _find_skew(snapshot: PolledSnapshot, log: LogFacts | None) -> float | None:
    """Return how far the server's clock, read during a poll, lies outside the poll's time by this machine's clock."""
    if log is None or isinstance(log.reading, Unread):
        return None
    ahead_s = (log.reading.status.now - snapshot.at).total_seconds()
    skew_s = ahead_s if ahead_s < 0 else max(ahead_s - snapshot.duration_s, 0.0)
    return skew_s if abs(skew_s) >= _LEAST_SKEW_S else None


@frozen
class StateChange:
    """A change of a subject's state between two polls; None: the subject did not exist before, or no longer exists."""

    at: datetime
    database: str
    area: str
    subject: str
    before: State | None
    after: State | None
    message: str


@frozen
class DatabaseSummary:
    """A database in the overview; `state` is its worst, `worst` are the subjects that are not healthy, worst first.

    `counts` says how many subjects are in each state, `areas` the worst state of each area.
    """

    name: str
    state: State
    is_up: bool
    polled_at: datetime
    unknown_since: datetime | None
    reason: str | None
    counts: Mapping[State, int]
    areas: Mapping[str, State]
    worst: tuple[Judgement, ...]
    slowest_s: float | None
    """The longest lag on the way of its changes, devices aside."""


@frozen
class Overview:
    """All databases, the worst first; `totals` counts databases by their states, `changes` are newest first."""

    databases: tuple[DatabaseSummary, ...]
    totals: Mapping[State, int]
    changes: tuple[StateChange, ...]


def make_overview(views: Iterable[DatabaseView], changes: Iterable[StateChange] = ()) -> Overview:
    """Return the overview of what the last poll of each database has found."""
    summaries = sorted(map(summarize, views), key=lambda one: (WORST_FIRST.index(one.state), one.name))
    counted = Counter(one.state for one in summaries)
    return Overview(
        tuple(summaries),
        {state: counted[state] for state in State},
        tuple(sorted(changes, key=lambda change: change.at, reverse=True)),
    )


def summarize(view: DatabaseView) -> DatabaseSummary:
    """Return a database as the overview shows it."""
    counted = Counter(one.state for one in view.judgements)
    by_area: dict[str, list[Judgement]] = {}
    for one in view.judgements:
        by_area.setdefault(one.area, []).append(one)
    lags = [hop.lag_s for hop in view.way if hop.lag_s is not None and hop.kind is not HopKind.DEVICES]
    unhealthy = [one for one in view.judgements if one.state is not State.HEALTHY]
    return DatabaseSummary(
        name=view.name,
        state=worst_of(view.judgements),
        is_up=view.is_up,
        polled_at=view.polled_at,
        unknown_since=view.unknown_since,
        reason=view.reason,
        counts={state: counted[state] for state in State},
        areas={area: worst_of(judged) for area, judged in by_area.items()},
        worst=tuple(sorted(unhealthy, key=lambda one: WORST_FIRST.index(one.state))),
        slowest_s=max(lags, default=None),
    )


def find_changes(before: DatabaseView, after: DatabaseView) -> Iterator[StateChange]:
    """Yield the subjects whose states differ between two polls of a database.

    Where one of them could not read the database, that alone has changed: of its subjects nothing is known.
    """
    if not (before.is_up and after.is_up):
        if before.is_up != after.is_up:
            was, now = (State.HEALTHY, State.FAILING) if before.is_up else (State.FAILING, State.HEALTHY)
            message = after.reason or "it can be read again"
            yield StateChange(after.polled_at, after.name, "database", "database", was, now, message)
        return
    known = {(one.area, one.subject): one for one in before.judgements}
    found = {(one.area, one.subject): one for one in after.judgements}
    for key, one in {**known, **found}.items():
        old = known[key].state if key in known else None
        new = found[key].state if key in found else None
        if old is not new:
            yield StateChange(after.polled_at, after.name, one.area, one.subject, old, new, one.message)
