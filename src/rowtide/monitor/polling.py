"""Poll databases: a thread each, which publishes what the last poll has found."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol, Self

from rowtide.core.errors import RowtideError, describe
from rowtide.core.values import frozen
from rowtide.databases.urls import parse_url
from rowtide.diagnosis import Code, State
from rowtide.diagnosis.result import of_error
from rowtide.events.catalogue import DatabaseNotPolled, DatabasePolledAgain, PollBroken
from rowtide.events.emission import emit
from rowtide.events.event import format_places, scope
from rowtide.monitor.catalogue import METRICS
from rowtide.monitor.databases import NamedUrl
from rowtide.monitor.errors import PollFailed
from rowtide.monitor.exposition import Polled
from rowtide.monitor.observations import observe
from rowtide.monitor.ring import CHANGES_KEPT, Ring, Values
from rowtide.monitor.series import TABLE_CHANGES, GaugeSeries
from rowtide.monitor.snapshot import Identity, PolledSnapshot
from rowtide.monitor.tallies import Tallies
from rowtide.monitor.views import DatabaseView, StateChange, find_changes, make_view

EVERY_S = 15.0
READY_S = 60.0
"""A database that was read so long ago is one that this monitor does not watch."""
_ENDING_S = 3.0
_MOST_CHANGES = 500


class DatabasePoll(Protocol):
    """Reads a database again and again; used as a context manager, by one thread."""

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
    """How long ago a database was last read, None if never; `reason` says why it cannot be now."""

    database: str
    age_s: float | None
    reason: str | None

    @property
    def is_ready(self) -> bool:
        return self.age_s is not None and self.age_s <= READY_S


class DatabasePoller:
    """Polls one database; others read what it has found."""

    def __init__(self, database: NamedUrl, ring: Ring, every_s: float = EVERY_S) -> None:
        self._database = database
        self._ring = ring
        self._every_s = every_s
        self._reader = open_reader(database)
        self._read_at: float | None = None
        self._unknown_since = datetime.now(UTC)
        self._system: str | None = None
        self._tallies = Tallies()
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
            # A thread that ended would leave its last view standing as if it were true.
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
            self._tallies = self._ring.load_tallies(view.name, identity.system)
        self._tallies.take(observe(snapshot, view), timeline=identity.timeline, is_standby=identity.is_standby)
        self._ring.save(view.name, identity.system, self._tallies, snapshot.at, gauges_of(view))

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
        self.last = Polled(view, self._tallies.copy(), self._last_read, self._changes)


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
    """Polls databases, each by a thread of its own: one that does not answer keeps no other waiting."""

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
        """Stop polling; a poll that waits for a server is left behind."""
        self._stop.set()
        deadline = time.monotonic() + _ENDING_S
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    @property
    def is_alive(self) -> bool:
        """Whether every database is still polled."""
        return all(thread.is_alive() for thread in self._threads)

    def list_polled(self) -> Sequence[Polled]:
        """Return what is known of each database that was polled."""
        return [poller.last for poller in self._pollers if poller.last is not None]

    def list_readiness(self) -> Mapping[str, Readiness]:
        """Return how long ago each database was read."""
        found = [poller.describe_readiness() for poller in self._pollers]
        return {one.database: one for one in found}
