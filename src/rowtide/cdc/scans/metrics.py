"""Metrics of capture's scans (SQL Server: sys.dm_cdc_log_scan_sessions, sys.dm_cdc_errors), and their tables.

A run counts in memory: one session for consecutive empty scans, errors, and the sum of all. It writes them to two
tables of the source database.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from rowtide.cdc.access import seen_source
from rowtide.cdc.definitions import metadata, require_complete
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.storage.store import Traffic


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
        """Whether anything but empty scans is unwritten. Empty scans alone are not worth a write, which would advance
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
        """Discard the figures that have been written."""
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


# The tables are unlogged: otherwise each write would advance the log, and an idle database should stay idle. A crash of
# the server empties them: metrics are not worth a restore.

log_scan_sessions = sa.Table(
    "log_scan_sessions",
    metadata,
    sa.Column("session_id", sa.BigInteger, primary_key=True, autoincrement=False, comment="0: the sum of all"),
    sa.Column("start_time", sa.DateTime(timezone=True), nullable=False),
    sa.Column("end_time", sa.DateTime(timezone=True), nullable=False),
    sa.Column("duration", sa.Float, nullable=False),
    sa.Column("scan_phase", sa.Text, nullable=False),
    sa.Column("error_count", sa.BigInteger, nullable=False),
    sa.Column("start_lsn", sa.BigInteger),
    sa.Column("current_lsn", sa.BigInteger),
    sa.Column("end_lsn", sa.BigInteger),
    sa.Column("tran_count", sa.BigInteger, nullable=False),
    sa.Column("last_commit_lsn", sa.BigInteger),
    sa.Column("last_commit_time", sa.DateTime(timezone=True)),
    sa.Column("log_record_count", sa.BigInteger, nullable=False),
    sa.Column("schema_change_count", sa.BigInteger, nullable=False),
    sa.Column("command_count", sa.BigInteger, nullable=False),
    sa.Column("first_begin_cdc_lsn", sa.BigInteger),
    sa.Column("last_commit_cdc_lsn", sa.BigInteger),
    sa.Column("last_commit_cdc_time", sa.DateTime(timezone=True)),
    sa.Column("latency", sa.Float),
    sa.Column("empty_scan_count", sa.BigInteger, nullable=False),
    sa.Column("failed_sessions_count", sa.BigInteger, nullable=False),
    sa.Column("engine", sa.Text),
    sa.Column("write_requests", sa.BigInteger, comment="PUT and LIST; null: no bucket, or the sum of all"),
    sa.Column("read_requests", sa.BigInteger),
    sa.Column("transferred_bytes", sa.BigInteger),
    prefixes=["unlogged"],
)

log_scan_errors = sa.Table(
    "log_scan_errors",
    metadata,
    sa.Column("session_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("phase_number", sa.Integer, nullable=False),
    sa.Column("entry_time", sa.DateTime(timezone=True), nullable=False),
    sa.Column("error_number", sa.Integer, nullable=False),
    sa.Column("error_severity", sa.Integer, nullable=False),
    sa.Column("error_state", sa.Integer, nullable=False),
    sa.Column("error_message", sa.Text, nullable=False),
    sa.Column("start_lsn", sa.BigInteger),
    sa.Column("begin_lsn", sa.BigInteger),
    sa.Column("sequence_value", sa.BigInteger),
    prefixes=["unlogged"],
)


class ScanWriter:
    """Writes a run's metrics after those of earlier runs. Only for the holder of the lake lease."""

    def __init__(self, metrics: ScanMetrics) -> None:
        self._metrics = metrics
        self._offset: int | None = None

    def write(self, connection: sa.Connection) -> None:
        """Write what is not yet written; rows that exist are replaced. Session 0 comes last."""
        total = self._metrics.total
        if total is None:
            return
        if self._offset is None:
            self._offset = self._find_offset(connection)
        _put(connection, log_scan_sessions, self._metrics.sessions, self._offset)
        _put(connection, log_scan_errors, self._metrics.errors, self._offset)
        _add(connection, total)
        _forget_oldest(connection)
        self._metrics.written()

    def _find_offset(self, connection: sa.Connection) -> int:
        """Return the offset that gives the first unwritten session the tables' next number."""
        last = sa.func.coalesce(sa.func.max(log_scan_sessions.c.session_id), 0)
        unwritten = [session.session_id for session in self._metrics.sessions]
        unwritten += [error.session_id for error in self._metrics.errors]
        return int(connection.execute(sa.select(last)).scalar_one()) + 1 - min(unwritten)


def list_sessions(engine: sa.Engine, database: str) -> tuple[ScanSession, ...]:
    """Return the last scans, session 0 first, then the newest (SQL Server: sys.dm_cdc_log_scan_sessions).

    Raises `DatabaseNotEnabled`, `NotOwner`, `DefinitionsIncomplete`.
    """
    columns = log_scan_sessions.c
    order = (columns.session_id != 0, columns.session_id.desc())
    with translated(), engine.connect() as connection:
        _require_seen(connection, database)
        rows = connection.execute(sa.select(log_scan_sessions).order_by(*order)).mappings()
        return tuple(ScanSession(**{name: _as_lsn(name, value) for name, value in row.items()}) for row in rows)


def list_errors(engine: sa.Engine, database: str) -> tuple[ScanError, ...]:
    """Return the errors of the last scans, the newest first (SQL Server: sys.dm_cdc_errors). Raises as above."""
    with translated(), engine.connect() as connection:
        _require_seen(connection, database)
        query = sa.select(log_scan_errors).order_by(log_scan_errors.c.session_id.desc())
        rows = connection.execute(query).mappings()
        return tuple(ScanError(**{name: _as_lsn(name, value) for name, value in row.items()}) for row in rows)


def _require_seen(connection: sa.Connection, database: str) -> None:
    seen_source(connection, database)
    require_complete(connection)


def _put(connection: sa.Connection, table: sa.Table, rows: Sequence[ScanSession | ScanError], offset: int) -> None:
    """Insert rows, or replace existing ones."""
    if not rows:
        return
    values = [{**_as_values(row), "session_id": row.session_id + offset} for row in rows]
    statement = insert(table)
    replaced = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
    connection.execute(statement.on_conflict_do_update(index_elements=[table.c.session_id], set_=replaced), values)


def _add(connection: sa.Connection, total: ScanSession) -> None:
    """Add to session 0, as `ScanMetrics` adds up."""
    statement = insert(log_scan_sessions).values(**_as_values(total))
    columns, added = log_scan_sessions.c, statement.excluded
    counts = {name: columns[name] + added[name] for name in COUNTS}
    latest = {name: sa.func.coalesce(added[name], columns[name]) for name in LATEST}
    connection.execute(statement.on_conflict_do_update(index_elements=[columns.session_id], set_={**counts, **latest}))


def _forget_oldest(connection: sa.Connection) -> None:
    last = sa.select(sa.func.max(log_scan_sessions.c.session_id)).scalar_subquery()
    for column in (log_scan_sessions.c.session_id, log_scan_errors.c.session_id):
        connection.execute(sa.delete(column.table).where(column > 0, column <= last - KEPT_SESSIONS))


def _as_values(row: ScanSession | ScanError) -> dict[str, Any]:
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    return {name: value.value if isinstance(value, CommitLsn) else value for name, value in values.items()}


def _as_lsn(name: str, value: Any) -> Any:
    return CommitLsn(value) if name.endswith("_lsn") and value is not None else value
