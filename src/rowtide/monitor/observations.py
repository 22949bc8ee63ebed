"""What counters count: taken from one snapshot. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rowtide.cdc.jobs.definitions import JobType
from rowtide.cdc.scans.metrics import ScanPhase
from rowtide.diagnosis.merge import MergeFacts
from rowtide.diagnosis.result import Unread
from rowtide.monitor.labels import without_users
from rowtide.monitor.snapshot import (
    DIRECTIONS,
    Cycle,
    MergedRows,
    NumberedError,
    PolledFigures,
    PolledSnapshot,
    TokenArrival,
)
from rowtide.monitor.tallies import CountedEvent, Durations, Events, Observation, Present, Total
from rowtide.monitor.views import DatabaseView

_MICROSECONDS = 1_000_000


def observe(snapshot: PolledSnapshot, view: DatabaseView) -> Iterator[Observation]:
    """Yield what a poll has found of everything that is counted; what could not be read is left out."""
    if view.capture is not None and view.capture.gaps is not None:
        yield Total("rowtide_capture_gaps_total", (), view.capture.gaps)
    for one in view.subscriptions:
        if one.total_commands is not None:
            labels = (("publication", one.publication), ("subscriber", one.subscriber))
            yield Total("rowtide_subscription_commands_total", labels, one.total_commands)
    if snapshot.figures is not None:
        yield from _observe_figures(snapshot.figures)
    if isinstance(snapshot.merge, MergeFacts) and snapshot.figures is not None:
        yield from _observe_merge(snapshot.figures)
    if view.lists_subscriptions:
        # Last: errors and tokens of a subscription that is gone stay in the history for a while.
        yield Present("subscriber", frozenset(one.subscriber for one in view.subscriptions))


def _observe_figures(figures: PolledFigures) -> Iterator[Observation]:
    if figures.capture_rows is not None and not isinstance(figures.capture_rows, Unread):
        yield Total("rowtide_capture_rows_total", (), figures.capture_rows)
    if not isinstance(figures.cycles, Unread):
        cycles = [CountedEvent(one.number, (("phase", one.phase),), one.duration_s) for one in _ended(figures.cycles)]
        yield Durations("rowtide_capture_cycle_duration_seconds", "", cycles)
    if not isinstance(figures.scan_errors, Unread):
        errors = [CountedEvent(one.id, (("number", one.code),)) for one in figures.scan_errors]
        yield Events("rowtide_capture_errors_total", "", errors)
    if not isinstance(figures.runs, Unread):
        for job in JobType:
            begun = [
                CountedEvent(run.id, (("agent", job.value),), 1.0 + run.retries)
                for run in figures.runs
                if run.job == job.value
            ]
            yield Events("rowtide_agent_restarts_total", job.value, begun)
    if not isinstance(figures.delivery_errors, Unread):
        yield Events("rowtide_subscription_errors_total", "", list(map(_error, figures.delivery_errors)))
    if not isinstance(figures.arrivals, Unread):
        for hop, seconds in _HOPS.items():
            yield Durations("rowtide_tracer_seconds", hop, list(_arrived(figures.arrivals, hop, seconds)))
    if not isinstance(figures.conflicts, Unread):
        found = [
            CountedEvent(one.id, (("publication", one.publication), ("kind", one.kind))) for one in figures.conflicts
        ]
        yield Events("rowtide_subscription_conflicts_total", "", found)


def _observe_merge(figures: PolledFigures) -> Iterator[Observation]:
    if not isinstance(figures.merge_runs, Unread):
        runs = [CountedEvent(one.id, (("publication", one.publication),), one.duration_s) for one in figures.merge_runs]
        yield Durations("rowtide_merge_sync_duration_seconds", "", runs)
    if not isinstance(figures.merged_rows, Unread):
        for operation, count in _OPERATIONS.items():
            for direction in DIRECTIONS:
                labels = (("direction", direction), ("operation", operation))
                rows = (one for one in figures.merged_rows if one.direction == direction)
                events = [CountedEvent(one.id, labels, count(one)) for one in rows]
                yield Events("rowtide_merge_rows_total", f"{direction} {operation}", events)


_OPERATIONS: dict[str, Callable[[MergedRows], int]] = {
    "insert": lambda rows: rows.inserts,
    "update": lambda rows: rows.updates,
    "delete": lambda rows: rows.deletes,
}
_HOPS: dict[str, Callable[[TokenArrival], float | None]] = {
    "log": lambda arrival: arrival.log_s,
    "delivery": lambda arrival: arrival.delivery_s,
}


def _ended(cycles: Sequence[Cycle]) -> Sequence[Cycle]:
    """Return the cycles that have ended: the last may be at work."""
    is_at_work = bool(cycles) and cycles[-1].phase != ScanPhase.DONE.label
    return cycles[:-1] if is_at_work else cycles


def _error(error: NumberedError) -> CountedEvent:
    labels = [("number", error.code)]
    if error.publication is not None and error.subscriber is not None:
        labels = [("publication", error.publication), ("subscriber", without_users(error.subscriber)), *labels]
    return CountedEvent(error.id, tuple(labels))


def _arrived(
    arrivals: Sequence[TokenArrival], hop: str, seconds: Callable[[TokenArrival], float | None]
) -> Iterator[CountedEvent]:
    for one in arrivals:
        found = seconds(one)
        if found is not None:
            labels = (
                ("publication", one.publication),
                ("subscriber", without_users(one.subscriber)),
                ("hop", hop),
            )
            yield CountedEvent(int(one.arrived_at.timestamp() * _MICROSECONDS), labels, found)
