"""The monitor's file: a day of samples, an hour of changes, and the counters, which so survive the monitor.

A SQLite file of bounded size. Samples older than an hour are kept once a minute, those older than a day are deleted.
One monitor has it at a time. A damaged file is moved aside and begun again, because a monitor that does not start is
worse than a day without history; a newer one, or another program's, is refused.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from rowtide.core.errors import FileNotWritable
from rowtide.core.values import frozen
from rowtide.databases.file_access import PRIVATE_FILE, make_place
from rowtide.diagnosis import State
from rowtide.events.catalogue import CountersReset, SampleNotKept, SamplesReplaced
from rowtide.events.event import emit, scope
from rowtide.monitor.counters import DatabaseCounters
from rowtide.monitor.errors import MonitorRuns, SamplesForeign, SamplesNewer, StateFolderUnknown
from rowtide.monitor.gauge_series import GaugeSeries, Point
from rowtide.monitor.views import StateChange

KEPT = timedelta(hours=24)
CHANGES_KEPT = timedelta(hours=1)
FINE = timedelta(hours=1)
"""The age up to which every sample is kept; then one a minute."""
MOST_BYTES = 256 << 20
_NAME = "monitor.db"
_FORMAT = 1
_APPLICATION_ID = 0x52545344
_PAGE_BYTES = 4096
_TABLES = """
create table samples (database text not null, at real not null, found blob not null, primary key (database, at));
create table tallies (database text not null, system text not null, tallies text not null,
                      primary key (database, system));
"""
_LATER_TABLES = """
create table if not exists changes (database text not null, at real not null, area text not null, subject text not null,
                                    before text, after text, message text not null);
create index if not exists changes_at on changes (database, at);
"""
"""Tables that the file of an earlier build lacks, and which such a build ignores."""

Values = Mapping[str, float]


@frozen
class HistoricSample:
    """Values of gauges at one time, by their names with labels."""

    at: datetime
    values: Values


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the file: systemd's STATE_DIRECTORY, else the user's state folder.

    Raises `StateFolderUnknown`.
    """
    given = environment.get("STATE_DIRECTORY", "").partition(":")[0]
    if given:
        return Path(given)
    base = environment.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        base = os.path.expanduser("~/.local/state")
    if not base.startswith("/"):
        raise StateFolderUnknown(str(os.getuid()))
    return Path(base) / "rowtide"


class Ring:
    """The open file; thread-safe."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._using = threading.Lock()

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the file of a folder, which is made. Raises `MonitorRuns`, `SamplesNewer`, `SamplesForeign`,
        `FileNotWritable`.
        """
        path = folder / _NAME
        try:
            make_place(folder)
            # The lock is on a file of its own: a damaged database is moved aside, and its lock would go with it.
            lock = _lock(path.with_name(f"{_NAME}.lock"), path)
        except OSError as error:
            raise FileNotWritable(str(path), error.strerror or str(error)) from error
        try:
            return cls(path, _open(path), lock)
        except BaseException:
            os.close(lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; another monitor may open it."""
        with self._using:
            self._connection.close()
            os.close(self._lock)

    def load_counters(self, database: str, system: str) -> DatabaseCounters:
        """Return the counters of a database of a server; new ones where there are none, or they cannot be read."""
        with self._using:
            query = "select tallies from tallies where database = ? and system = ?"
            row = self._connection.execute(query, (database, system)).fetchone()
        try:
            return DatabaseCounters.decode(row[0]) if row is not None else DatabaseCounters()
        except (ValueError, KeyError, TypeError) as error:
            with scope(database):
                emit(CountersReset(type(error).__name__))
            return DatabaseCounters()

    def save(self, database: str, system: str, counted: DatabaseCounters, at: datetime, values: Values) -> None:
        """Keep a poll: its samples, and the counters after it. If the disk is full, polls continue without."""
        self._keep(database, lambda: self._put(database, system, counted, at, values))

    def add_changes(self, database: str, changes: Sequence[StateChange]) -> None:
        """Keep changes of the states of a database's subjects, which `list_changes` returns for an hour.

        If the disk is full, they are not kept.
        """
        if changes:
            self._keep(database, lambda: self._put_changes(database, changes))

    def list_changes(self, database: str, since: datetime) -> Sequence[StateChange]:
        """Return the changes of a database since a time, oldest first."""
        query = (
            "select at, area, subject, before, after, message from changes where database = ? and at >= ? "
            "order by at, rowid"
        )
        with self._using:
            rows = self._connection.execute(query, (database, since.timestamp())).fetchall()
        return [
            StateChange(
                datetime.fromtimestamp(at, UTC), database, area, subject, _state(before), _state(after), message
            )
            for at, area, subject, before, after, message in rows
        ]

    def list_samples(self, database: str, since: datetime) -> Sequence[HistoricSample]:
        """Return the samples of a database since a time, oldest first."""
        query = "select at, found from samples where database = ? and at >= ? order by at"
        with self._using:
            rows = self._connection.execute(query, (database, since.timestamp())).fetchall()
        return [
            HistoricSample(datetime.fromtimestamp(at, UTC), json.loads(zlib.decompress(found))) for at, found in rows
        ]

    def list_points(
        self, database: str, series: Collection[GaugeSeries], since: datetime, *, most: int = 288
    ) -> Mapping[GaugeSeries, tuple[Point, ...]]:
        """Return series of a database since a time, oldest first, each with at most `most` points.

        All are read at once, and thinned evenly in time: a day is a point every five minutes. What was not known at a
        time is a point without a value; while the database could not be read there is none.
        """
        begin, end = since.timestamp(), datetime.now(UTC).timestamp()
        query = (
            "select max(at), found from samples where database = ? and at >= ? "
            "group by cast((at - ?) / ? as int) order by at"
        )
        step_s = max((end - begin) / most, 1.0)
        with self._using:
            rows = self._connection.execute(query, (database, begin, begin, step_s)).fetchall()
        points: dict[GaugeSeries, list[Point]] = {one: [] for one in series}
        for at, found in rows:
            values, time = json.loads(zlib.decompress(found)), datetime.fromtimestamp(at, UTC)
            for one, line in points.items():
                line.append(Point(time, values.get(one.key)))
        return {one: tuple(found) for one, found in points.items()}

    def _keep(self, database: str, work: Callable[[], None]) -> None:
        try:
            self._in_transaction(work)
        except sqlite3.Error as error:
            with scope(database):
                emit(SampleNotKept(str(error)))
            with suppress(sqlite3.Error):
                self._in_transaction(lambda: self._halve(database))

    def _put_changes(self, database: str, changes: Sequence[StateChange]) -> None:
        oldest = max(change.at for change in changes) - CHANGES_KEPT
        self._connection.execute("delete from changes where database = ? and at < ?", (database, oldest.timestamp()))
        self._connection.executemany(
            "insert into changes values (?, ?, ?, ?, ?, ?, ?)",
            [
                (database, one.at.timestamp(), one.area, one.subject, one.before, one.after, one.message)
                for one in changes
            ],
        )

    def _put(self, database: str, system: str, counted: DatabaseCounters, at: datetime, values: Values) -> None:
        run, now = self._connection.execute, at.timestamp()
        run("insert or replace into tallies values (?, ?, ?)", (database, system, counted.encode()))
        found = zlib.compress(json.dumps(values).encode())
        run("insert or replace into samples values (?, ?, ?)", (database, now, found))
        run("delete from samples where database = ? and at < ?", (database, now - KEPT.total_seconds()))
        fine = now - FINE.total_seconds()
        run(
            "delete from samples where database = ?1 and at < ?2 and at not in "
            "(select min(at) from samples where database = ?1 and at < ?2 group by cast(at / 60 as int))",
            (database, fine),
        )

    def _halve(self, database: str) -> None:
        # The older half gives its pages to the next polls; the file itself does not shrink.
        query = "select at from samples where database = ? order by at"
        times = [at for (at,) in self._connection.execute(query, (database,))]
        if times:
            middle = times[len(times) // 2]
            self._connection.execute("delete from samples where database = ? and at <= ?", (database, middle))

    def _in_transaction(self, work: Callable[[], None]) -> None:
        with self._using:
            self._connection.execute("begin immediate")
            try:
                work()
                self._connection.execute("commit")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                raise


def _state(value: str | None) -> State | None:
    return State(value) if value is not None else None


def _lock(lock_path: Path, path: Path) -> int:
    """Return the descriptor that holds the lock, with this process's number in the file. Raises `MonitorRuns`."""
    # Not truncated before the lock is taken: the process number of another monitor is read from the file.
    descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        process = os.pread(descriptor, 20, 0).decode(errors="replace") or "unknown"
        os.close(descriptor)
        raise MonitorRuns(str(path), process) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def _open(path: Path) -> sqlite3.Connection:
    try:
        return _connect(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            # It cannot be opened or written; it need not be damaged.
            raise FileNotWritable(str(path), str(error)) from error
        aside = path.with_name(f"{path.name}.damaged")
        os.replace(path, aside)
        emit(SamplesReplaced(str(path), str(aside), str(error)))
        # These belong to the moved file; SQLite would apply them to the new one.
        for name in (f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    # SQLite would make a file that others can read.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
    try:
        _require_own(path, connection)
        connection.execute("pragma journal_mode = wal")
        # With a write-ahead log, a power failure may lose the last polls, and damages nothing.
        connection.execute("pragma synchronous = normal")
        connection.execute(f"pragma max_page_count = {MOST_BYTES // _PAGE_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def _require_own(path: Path, connection: sqlite3.Connection) -> None:
    """Create the tables of a new file. Raises `SamplesNewer`, `SamplesForeign`, `DatabaseError` of a damaged file."""
    (application,) = connection.execute("pragma application_id").fetchone()
    (found,) = connection.execute("pragma user_version").fetchone()
    (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
    if not tables and not application:
        connection.executescript(
            f"begin immediate; {_TABLES} {_LATER_TABLES} pragma application_id = {_APPLICATION_ID}; "
            f"pragma user_version = {_FORMAT}; commit;"
        )
        return
    if application != _APPLICATION_ID:
        raise SamplesForeign(str(path))
    if found > _FORMAT:
        raise SamplesNewer(str(path), found, _FORMAT)
    with closing(connection.execute("pragma quick_check(1)")) as cursor:
        (verdict,) = cursor.fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    connection.executescript(_LATER_TABLES)
