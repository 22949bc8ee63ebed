"""Metrics of one command, counted from the events that it emits: what no poll sees, and what cron jobs leave behind.

Series have the names of the monitor's where they mean the same. They begin with the command, as Prometheus expects of
counters.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from rowtide.agents.loop import RunOutcome
from rowtide.cdc.scans.metrics import ScanPhase
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.events.catalogue import (
    AgentFailed,
    AgentRetries,
    ArticleValidated,
    BatchDelivered,
    CyclePublished,
    GatewayAnswered,
    JobEnded,
    JobFailed,
    RowsCaptured,
    SubscriptionRetries,
    SubscriptionStopped,
    Synchronised,
    TracerArrived,
)
from rowtide.events.event import Emitted
from rowtide.monitor.counters import Histogram
from rowtide.monitor.labels import without_users

AgentSeries = tuple[str, tuple[str, ...]]
"""A metric's name, and the values of its labels in their order, the database first."""
_CAPTURE = "capture"
_WAIT = "wait"
"""The step of long polls, whose durations say nothing about the gateway."""
_NO_TOKEN = 401
MOST_INSTANCES = 200
"""Limit of instances whose rows are counted by name; the rows of all others are counted together, without a name."""


@frozen
class AgentFigures:
    """The counters at one time."""

    values: dict[AgentSeries, float]
    histograms: dict[AgentSeries, Histogram]


def merge_figures(found: Iterable[AgentFigures]) -> AgentFigures:
    """Combine the metrics of several processes that share no series."""
    values: dict[AgentSeries, float] = {}
    histograms: dict[AgentSeries, Histogram] = {}
    for one in found:
        values |= one.values
        histograms |= one.histograms
    return AgentFigures(values, histograms)


class AgentCounter:
    """Counts the events of a command for a database; thread-safe."""

    def __init__(self, database: str, job: str) -> None:
        """`job` is the job of events without one of their own."""
        self._database = database
        self._job = job
        self._values: dict[AgentSeries, float] = {}
        self._histograms: dict[AgentSeries, Histogram] = {}
        self._instances: set[str] = set()
        self._using = threading.Lock()

    def note(self, emitted: Emitted) -> None:
        """Count an event."""
        with self._using:
            self._count(emitted, emitted.scope.job or self._job)

    def note_end(self, *, has_failed: bool) -> None:
        """Record how the command ended."""
        with self._using:
            self._end(self._job, has_failed=has_failed, at=datetime.now(UTC))

    def copy(self) -> AgentFigures:
        """Return the present metrics."""
        with self._using:
            return AgentFigures(dict(self._values), dict(self._histograms))

    def _count(self, emitted: Emitted, job: str) -> None:
        match emitted.event:
            case RowsCaptured(instance, inserts, updates, deletes):
                self._count_rows(instance, {"insert": inserts, "update": updates, "delete": deletes})
            case CyclePublished(_, _, _, _, _, seconds, _):
                self._measure("rowtide_capture_cycle_duration_seconds", (ScanPhase.DONE.label,), seconds)
            case BatchDelivered(subscriber, _, _, commands, _, _):
                # A batch has commands of all publications of a subscriber.
                self._add("rowtide_subscription_commands_total", ("", without_users(subscriber)), commands)
            case SubscriptionRetries(publication, subscriber, _, error) | SubscriptionStopped(
                publication, subscriber, error
            ):
                labels = (publication, without_users(subscriber), _number_of(error))
                self._add("rowtide_subscription_errors_total", labels, 1)
            case TracerArrived(publication, subscriber, log_s, delivery_s):
                for hop, seconds_of_hop in (("log", log_s), ("delivery", delivery_s)):
                    if seconds_of_hop is not None:
                        labels = (publication, without_users(subscriber), hop)
                        self._measure("rowtide_tracer_seconds", labels, seconds_of_hop)
            case Synchronised(publication, _, _, _, _, _, seconds):
                self._measure("rowtide_merge_sync_duration_seconds", (publication,), seconds)
            case ArticleValidated(publication, subscriber, article, is_equal):
                labels = (publication, without_users(subscriber), article)
                self._set("rowtide_validation_failed", labels, float(not is_equal))
            case GatewayAnswered(hub=hub, step=step, status=status, rows_up=up, rows_down=down, seconds=seconds):
                self._count_request(hub, step, status, seconds)
                for direction, rows in (("up", up), ("down", down)):
                    if rows:
                        self._add("rowtide_gateway_rows_total", (direction,), rows, hub)
            case JobEnded(RunOutcome.SUCCEEDED):
                self._end(job, has_failed=False, at=emitted.time)
            case AgentRetries(_, error):
                self._count_capture_error(job, error)
            case JobFailed(_, error) | AgentFailed(error):
                self._count_capture_error(job, error)
                self._end(job, has_failed=True, at=emitted.time)
            case _:
                pass

    def _count_request(self, hub: str, step: str, status: int, seconds: float) -> None:
        """Count a request of a device; requests to unknown addresses are one series."""
        self._add("rowtide_gateway_requests_total", (step, str(status)), 1, hub)
        if status == _NO_TOKEN:
            self._add("rowtide_gateway_refused_tokens_total", (), 1, hub)
        if step != _WAIT:
            self._measure("rowtide_gateway_request_duration_seconds", (step,), seconds, hub)

    def _count_rows(self, instance: str, rows: Mapping[str, int]) -> None:
        if len(self._instances) < MOST_INSTANCES:
            self._instances.add(instance)
        name = instance if instance in self._instances else ""
        for operation, count in rows.items():
            if count:
                self._add("rowtide_capture_rows_total", (name, operation), count)

    def _count_capture_error(self, job: str, error: Exception) -> None:
        if job == _CAPTURE:
            self._add("rowtide_capture_errors_total", (_number_of(error),), 1)

    def _end(self, job: str, *, has_failed: bool, at: datetime) -> None:
        self._set("rowtide_job_failed", (job,), float(has_failed))
        if not has_failed:
            self._set("rowtide_job_last_success_timestamp_seconds", (job,), at.timestamp())

    def _set(self, name: str, labels: tuple[str, ...], value: float) -> None:
        self._values[name, (self._database, *labels)] = value

    def _add(self, name: str, labels: tuple[str, ...], amount: float, database: str | None = None) -> None:
        series = name, (self._database if database is None else database, *labels)
        self._values[series] = self._values.get(series, 0.0) + amount

    def _measure(self, name: str, labels: tuple[str, ...], seconds: float, database: str | None = None) -> None:
        series = name, (self._database if database is None else database, *labels)
        self._histograms[series] = self._histograms.get(series, Histogram()).add(seconds)


def _number_of(error: Exception) -> str:
    return f"RT-{error.number}" if isinstance(error, RowtideError) else type(error).__name__
