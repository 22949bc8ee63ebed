"""Scan sessions and their metrics: one session for consecutive empty scans, errors, and the sum of all. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
from rowtide.storage.store import Traffic

# Records of scans: sessions, errors, and the phases in which errors occur. (SQL Server: sys.dm_cdc_log_scan_sessions,
# sys.dm_cdc_errors.)


class Engine(StrEnum):
    """Where a cycle's changes were converted: in capture's process, or in tasks of Spark."""

    PROCESS = "process"
    SPARK = "spark"


class ScanPhase(IntEnum):
    """SQL Server's phase numbers, for the nearest phases of rowtide."""

    READING_CONFIGURATION = 1
    """Leases, definition, log reader and Spark are opened."""
    FIRST_SCAN = 2
    """The log is read, and the cycle's range is chosen and recorded."""
    SECOND_SCAN = 3
    """Change rows are appended."""
    SCHEMA_VERSIONING = 6
    """Instances that began or ended are recorded."""
    LAST_SCAN = 7
    """The transactions are read and published."""
    DONE = 8

    @property
    def label(self) -> str:
        """Its name."""
        return self.name.replace("_", " ").capitalize()


@frozen
class ScanFigures:
    """What a cycle found: transactions and row changes of captured tables, and all log records that it read.

    `first_lsn` and the fields after it are of its transactions, None without any.
    """

    from_position: Position
    to_position: Position
    tran_count: int
    command_count: int
    log_record_count: int
    schema_change_count: int
    first_lsn: CommitLsn | None
    last_lsn: CommitLsn | None
    last_commit_time: datetime | None
    engine: Engine


@frozen
class ScanSession:
    """A row of `cdc.log_scan_sessions`; `duration` and `latency` in seconds.

    `session_id` 0 is the sum of all. `last_commit_lsn` and `_time` are those of captured transactions, as the log store
    holds no others. `latency`: from the last one's commit, by the source's clock, to `end_time`, by capture's.
    `engine`: where the changes were converted, see `Engine`. `write_requests` and the fields after it: what was asked
    of object stores since the session before, the log reader's share a few seconds late; None: nothing, and in the sum.
    """

    session_id: int
    start_time: datetime
    end_time: datetime
    duration: float
    scan_phase: str
    error_count: int = 0
    start_lsn: CommitLsn | None = None
    current_lsn: CommitLsn | None = None
    end_lsn: CommitLsn | None = None
    tran_count: int = 0
    last_commit_lsn: CommitLsn | None = None
    last_commit_time: datetime | None = None
    log_record_count: int = 0
    schema_change_count: int = 0
    command_count: int = 0
    first_begin_cdc_lsn: CommitLsn | None = None
    last_commit_cdc_lsn: CommitLsn | None = None
    last_commit_cdc_time: datetime | None = None
    latency: float | None = None
    empty_scan_count: int = 0
    failed_sessions_count: int = 0
    engine: str | None = None
    write_requests: int | None = None
    read_requests: int | None = None
    transferred_bytes: int | None = None


@frozen
class ScanError:
    """A row of `cdc.log_scan_errors`; `begin_lsn` and `sequence_value` are not known: None."""

    session_id: int
    phase_number: int
    entry_time: datetime
    error_number: int
    error_severity: int
    error_state: int
    error_message: str
    start_lsn: CommitLsn | None
    begin_lsn: CommitLsn | None = None
    sequence_value: int | None = None


KEPT_SESSIONS = 32
NOTHING = Traffic()
SEVERITY, STATE = 16, 1
"""SQL Server's for an error of a user's or the environment's; rowtide has no others."""

AGGREGATE = "Aggregate"
COUNTS = (
    "duration",
    "error_count",
    "tran_count",
    "log_record_count",
    "schema_change_count",
    "command_count",
    "empty_scan_count",
    "failed_sessions_count",
)
LATEST = (
    "end_time",
    "start_lsn",
    "current_lsn",
    "end_lsn",
    "last_commit_lsn",
    "last_commit_time",
    "first_begin_cdc_lsn",
    "last_commit_cdc_lsn",
    "last_commit_cdc_time",
    "latency",
    "engine",
)


class ScanMetrics:
    """Counts the scans of a run; keeps at most the last `KEPT_SESSIONS` sessions and errors that are not yet written.

    Sessions are numbered from 1; the writer adds the last number of earlier runs.
    """

    def __init__(self) -> None:
        self._number = 0
        self._unwritten: deque[ScanSession] = deque(maxlen=KEPT_SESSIONS)
        self._errors: deque[ScanError] = deque(maxlen=KEPT_SESSIONS)
        self._empty: ScanSession | None = None
        self._total: ScanSession | None = None
        self._has_news = False

    @property
    def has_news(self) -> bool:
        """Something besides empty scans is unwritten; empty scans alone are not worth a write, which would advance
        the log.
        """
        return self._has_news

    @property
    def sessions(self) -> Sequence[ScanSession]:
        """The sessions that were added or changed since the last write, in order."""
        return tuple(self._unwritten)

    @property
    def errors(self) -> Sequence[ScanError]:
        """The errors that are not yet written."""
        return tuple(self._errors)

    @property
    def total(self) -> ScanSession | None:
        """What is to be added to session 0, None if everything is written."""
        return self._total

    def scanned(self, figures: ScanFigures, at: datetime, seconds: float, traffic: Traffic = NOTHING) -> None:
        """Count a scan that found something: when it ended, and its seconds."""
        self._add(_with_traffic(_session(self._next_number(), figures, at, seconds), traffic))

    def failed(self, error: RowtideError, phase: ScanPhase, at: datetime, position: Position | None) -> None:
        """Count a scan that ended with an error."""
        number = self._next_number()
        start = CommitLsn(position.value) if position is not None else None
        failed = ScanSession(number, at, at, 0.0, phase.label, error_count=1, failed_sessions_count=1)
        self._add(replace(failed, start_lsn=start, current_lsn=start))
        self._errors.append(ScanError(number, phase, at, error.number, SEVERITY, STATE, str(error), start))

    def scanned_nothing(self, at: datetime, traffic: Traffic = NOTHING) -> None:
        """Count an empty scan; consecutive ones share a session."""
        last = self._empty or ScanSession(self._next_number(), at, at, 0.0, ScanPhase.DONE.label)
        if self._unwritten and self._unwritten[-1] is self._empty:
            self._unwritten.pop()
        duration = (at - last.start_time).total_seconds()
        scanned = replace(last, end_time=at, duration=duration, empty_scan_count=last.empty_scan_count + 1)
        self._empty = _with_traffic(scanned, traffic)
        self._unwritten.append(self._empty)
        self._total = _sum(self._total, ScanSession(0, at, at, 0.0, AGGREGATE, empty_scan_count=1))

    def written(self) -> None:
        """Discard what has been written."""
        self._unwritten.clear()
        self._errors.clear()
        self._total = None
        self._has_news = False

    def _next_number(self) -> int:
        self._empty = None
        self._number += 1
        return self._number

    def _add(self, session: ScanSession) -> None:
        self._unwritten.append(session)
        self._total = _sum(self._total, session)
        self._has_news = True


def _sum(total: ScanSession | None, added: ScanSession) -> ScanSession:
    """Return session 0 with one more added: counts add up, all other values are the latest."""
    if total is None:
        sum_of_all = replace(added, session_id=0, scan_phase=AGGREGATE)
        return replace(sum_of_all, write_requests=None, read_requests=None, transferred_bytes=None)
    counts = {name: getattr(total, name) + getattr(added, name) for name in COUNTS}
    latest = {name: getattr(added, name) for name in LATEST if getattr(added, name) is not None}
    return replace(total, **counts, **latest)


def _with_traffic(session: ScanSession, traffic: Traffic) -> ScanSession:
    """Return a session with more that was asked of object stores."""
    if traffic == NOTHING:
        return session
    return replace(
        session,
        write_requests=(session.write_requests or 0) + traffic.writes,
        read_requests=(session.read_requests or 0) + traffic.reads,
        transferred_bytes=(session.transferred_bytes or 0) + traffic.transferred,
    )


def _session(number: int, figures: ScanFigures, at: datetime, seconds: float) -> ScanSession:
    latency = (at - figures.last_commit_time).total_seconds() if figures.last_commit_time is not None else None
    end = CommitLsn(figures.to_position.value)
    return ScanSession(
        session_id=number,
        start_time=at - timedelta(seconds=seconds),
        end_time=at,
        duration=seconds,
        scan_phase=ScanPhase.DONE.label,
        start_lsn=CommitLsn(figures.from_position.value),
        current_lsn=end,
        end_lsn=end,
        tran_count=figures.tran_count,
        last_commit_lsn=figures.last_lsn,
        last_commit_time=figures.last_commit_time,
        log_record_count=figures.log_record_count,
        schema_change_count=figures.schema_change_count,
        command_count=figures.command_count,
        first_begin_cdc_lsn=figures.first_lsn,
        last_commit_cdc_lsn=figures.last_lsn,
        last_commit_cdc_time=figures.last_commit_time,
        latency=latency,
        engine=figures.engine,
    )
