"""Poll databases, each in a thread of its own, and publish the last results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol, Self

from rowtide.cdc.jobs.definitions import JobType
from rowtide.cdc.scans.metrics import ScanPhase
from rowtide.core.errors import RowtideError, describe
from rowtide.core.values import frozen
from rowtide.databases.urls import parse_url
from rowtide.diagnosis import Code, State
from rowtide.diagnosis.merge import MergeFacts
from rowtide.diagnosis.result import Unread, of_error
from rowtide.events.catalogue import DatabaseNotPolled, DatabasePolledAgain, PollBroken
from rowtide.events.event import emit, format_places, scope
from rowtide.monitor.catalogue import METRICS
from rowtide.monitor.counters import CountedEvent, DatabaseCounters, Durations, Events, Observation, Present, Total
from rowtide.monitor.databases import NamedUrl
from rowtide.monitor.errors import PollFailed
from rowtide.monitor.exposition import Polled
from rowtide.monitor.gauge_series import TABLE_CHANGES, GaugeSeries
from rowtide.monitor.labels import without_users
from rowtide.monitor.ring import CHANGES_KEPT, Ring, Values
from rowtide.monitor.snapshot import (
    DIRECTIONS,
    Cycle,
    Identity,
    MergedRows,
    NumberedError,
    PolledFigures,
    PolledSnapshot,
    TokenArrival,
)
from rowtide.monitor.views import DatabaseView, StateChange, find_changes, make_view

_MICROSECONDS = 1_000_000


def observe(snapshot: PolledSnapshot, view: DatabaseView) -> Iterator[Observation]:
    """Yield the observations of a poll for counters; what could not be read is omitted."""
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
        # Last: errors and tokens of a dropped subscription stay in the history for a while.
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
    """Return the completed cycles: the last one may still run."""
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


EVERY_S = 15.0
READY_S = 60.0
"""The age of the last poll after which the monitor counts as not watching a database."""
_ENDING_S = 3.0
"""How long polls in progress are waited for at the end: a command ends within five seconds after SIGTERM."""
_MOST_CHANGES = 500
"""Limit of the changes of an hour that are remembered: subjects may change their states at every poll."""


class DatabasePoll(Protocol):
    """Polls a database repeatedly; a context manager, used by one thread."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

    def read(self) -> PolledSnapshot:
        """Poll the database. Raises `RowtideError`."""
        ...


def open_reader(database: NamedUrl) -> DatabasePoll:
    """Return the reader of a database. Raises `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`."""
    reader: DatabasePoll = parse_url(database.url).kind.load_part("rowtide.monitor", "reading").open_reader(database)
    return reader


@frozen
class Readiness:
    """The age of a database's last successful poll, None if none; `reason` says why it cannot be read now."""

    database: str
    age_s: float | None
    reason: str | None

    @property
    def is_ready(self) -> bool:
        return self.age_s is not None and self.age_s <= READY_S


class DatabasePoller:
    """Polls one database; other threads read the results."""

    def __init__(self, database: NamedUrl, ring: Ring, every_s: float = EVERY_S) -> None:
        self._database = database
        self._ring = ring
        self._every_s = every_s
        self._reader = open_reader(database)
        self._read_at: float | None = None
        self._unknown_since = datetime.now(UTC)
        self._system: str | None = None
        self._counted = DatabaseCounters()
        self._told: str | None = None
        self._last_read: DatabaseView | None = None
        since = datetime.now(UTC) - CHANGES_KEPT
        self._changes: tuple[StateChange, ...] = tuple(ring.list_changes(database.name, since))
        self.last: Polled | None = None

    def run(self, stop: threading.Event) -> None:
        """Poll until `stop` is set; a session that fails is opened again at the next poll."""
        with scope(self._database.name, "monitor"):
            self._run(stop)

    def _run(self, stop: threading.Event) -> None:
        was_read = False
        while not stop.is_set():
            with self._reader:
                is_read = True
                while is_read and not stop.is_set():
                    begun = time.monotonic()
                    is_read = self.poll()
                    # A session may have ended while it was idle: another one is tried before the next poll is due.
                    is_lost, was_read = was_read and not is_read, is_read
                    if not is_lost:
                        stop.wait(max(self._every_s - (time.monotonic() - begun), 0.0))

    def poll(self) -> bool:
        """Poll once, within the reader; return whether the database could be read."""
        at, begun = datetime.now(UTC), time.monotonic()
        try:
            snapshot = self._reader.read()
            self._note(snapshot)
        except RowtideError as error:
            self._note_failure(error, at, time.monotonic() - begun)
            return False
        except Exception as error:  # noqa: BLE001 - the event has where
            # If the thread ended, its last view would stay, as if it were current.
            emit(PollBroken(error, format_places(error)))
            self._note_failure(PollFailed(self._database.name, describe(error)), at, time.monotonic() - begun)
            return False
        return True

    def describe_readiness(self) -> Readiness:
        """Return how long ago the database was read."""
        age_s = time.monotonic() - self._read_at if self._read_at is not None else None
        last = self.last
        return Readiness(self._database.name, age_s, last.view.reason if last is not None else None)

    def _note(self, snapshot: PolledSnapshot) -> None:
        if self._told is not None:
            emit(DatabasePolledAgain(round((snapshot.at - self._unknown_since).total_seconds(), 3)))
            self._told = None
        view = make_view(snapshot)
        if snapshot.identity is not None:
            self._count(snapshot, view, snapshot.identity)
        self._read_at, self._unknown_since = time.monotonic(), snapshot.at
        self._publish(view)

    def _count(self, snapshot: PolledSnapshot, view: DatabaseView, identity: Identity) -> None:
        if identity.system != self._system:
            self._system = identity.system
            self._counted = self._ring.load_counters(view.name, identity.system)
        self._counted.take(observe(snapshot, view), timeline=identity.timeline, is_standby=identity.is_standby)
        self._ring.save(view.name, identity.system, self._counted, snapshot.at, gauges_of(view))

    def _note_failure(self, error: RowtideError, at: datetime, duration_s: float) -> None:
        self._tell(error)
        result = of_error(Code.DATABASE_UNREACHABLE, State.FAILING, "database", error)
        failed = PolledSnapshot(self._database.name, at, duration_s, results=(result,), error=error)
        self._publish(make_view(failed, unknown_since=self._unknown_since))

    def _tell(self, error: RowtideError) -> None:
        """Report an error once, not every 15 seconds."""
        if str(error) != self._told:
            self._told = str(error)
            if not isinstance(error, PollFailed):
                emit(DatabaseNotPolled(error))

    def _publish(self, view: DatabaseView) -> None:
        known = [self.last.view] if self.last is not None else []
        if self._last_read is not None and self._last_read not in known:
            known.append(self._last_read)
        found = [change for before in known for change in find_changes(before, view)]
        self._ring.add_changes(view.name, found)
        kept = (change for change in self._changes if change.at >= view.polled_at - CHANGES_KEPT)
        self._changes = (*kept, *found)[-_MOST_CHANGES:]
        if view.is_up:
            self._last_read = view
        self.last = Polled(view, self._counted.copy(), self._last_read, self._changes)


def gauges_of(view: DatabaseView) -> Values:
    """Return the gauges of a view by name and labels: what a page draws as a line, without states of many subjects."""
    found: dict[str, float] = {}
    for metric in METRICS:
        if metric.source is not None and metric.keeps_history:
            for sample in metric.source(view):
                found[GaugeSeries(metric.name, sample.labels).key] = float(sample.value)
    for table, changes in view.table_changes.items():
        found[GaugeSeries(TABLE_CHANGES, (table,)).key] = float(changes)
    return found


class Polling:
    """Polls databases, each in a thread of its own: one that does not answer delays no other."""

    def __init__(self, databases: Sequence[NamedUrl], ring: Ring, every_s: float = EVERY_S) -> None:
        self._pollers = [DatabasePoller(database, ring, every_s) for database in databases]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=poller.run, args=(self._stop,), name=f"poll {database.name}", daemon=True)
            for poller, database in zip(self._pollers, databases, strict=True)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop polling; a poll that waits for a server is abandoned."""
        self._stop.set()
        deadline = time.monotonic() + _ENDING_S
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    @property
    def is_alive(self) -> bool:
        """Whether every database is still polled."""
        return all(thread.is_alive() for thread in self._threads)

    def list_polled(self) -> Sequence[Polled]:
        """Return the view of each database that was polled."""
        return [poller.last for poller in self._pollers if poller.last is not None]

    def list_readiness(self) -> Mapping[str, Readiness]:
        """Return how long ago each database was read."""
        found = [poller.describe_readiness() for poller in self._pollers]
        return {one.database: one for one in found}
