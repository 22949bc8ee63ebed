"""The tables of scan metrics: two unlogged tables of the source database, which a crash of the server empties.

Logged, each write would advance the log, and an idle database should stay idle; nobody restores metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Engine,
    Float,
    Integer,
    Table,
    Text,
    delete,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import insert

from rowtide.cdc.access import seen_source
from rowtide.cdc.definitions import metadata, require_complete
from rowtide.cdc.scans.metrics import COUNTS, KEPT_SESSIONS, LATEST, ScanError, ScanMetrics, ScanSession
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.errors import translated

log_scan_sessions = Table(
    "log_scan_sessions",
    metadata,
    Column("session_id", BigInteger, primary_key=True, autoincrement=False, comment="0: the sum of all"),
    Column("start_time", DateTime(timezone=True), nullable=False),
    Column("end_time", DateTime(timezone=True), nullable=False),
    Column("duration", Float, nullable=False),
    Column("scan_phase", Text, nullable=False),
    Column("error_count", BigInteger, nullable=False),
    Column("start_lsn", BigInteger),
    Column("current_lsn", BigInteger),
    Column("end_lsn", BigInteger),
    Column("tran_count", BigInteger, nullable=False),
    Column("last_commit_lsn", BigInteger),
    Column("last_commit_time", DateTime(timezone=True)),
    Column("log_record_count", BigInteger, nullable=False),
    Column("schema_change_count", BigInteger, nullable=False),
    Column("command_count", BigInteger, nullable=False),
    Column("first_begin_cdc_lsn", BigInteger),
    Column("last_commit_cdc_lsn", BigInteger),
    Column("last_commit_cdc_time", DateTime(timezone=True)),
    Column("latency", Float),
    Column("empty_scan_count", BigInteger, nullable=False),
    Column("failed_sessions_count", BigInteger, nullable=False),
    Column("engine", Text),
    Column("write_requests", BigInteger, comment="PUT and LIST; null: no bucket, or the sum of all"),
    Column("read_requests", BigInteger),
    Column("transferred_bytes", BigInteger),
    prefixes=["unlogged"],
)

log_scan_errors = Table(
    "log_scan_errors",
    metadata,
    Column("session_id", BigInteger, primary_key=True, autoincrement=False),
    Column("phase_number", Integer, nullable=False),
    Column("entry_time", DateTime(timezone=True), nullable=False),
    Column("error_number", Integer, nullable=False),
    Column("error_severity", Integer, nullable=False),
    Column("error_state", Integer, nullable=False),
    Column("error_message", Text, nullable=False),
    Column("start_lsn", BigInteger),
    Column("begin_lsn", BigInteger),
    Column("sequence_value", BigInteger),
    prefixes=["unlogged"],
)


class ScanWriter:
    """Writes a run's metrics after those of earlier runs. Only for the holder of the lake lease."""

    def __init__(self, metrics: ScanMetrics) -> None:
        self._metrics = metrics
        self._offset: int | None = None

    def write(self, connection: Connection) -> None:
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

    def _find_offset(self, connection: Connection) -> int:
        """Return the offset that gives the first unwritten session the tables' next number."""
        last = connection.execute(select(func.coalesce(func.max(log_scan_sessions.c.session_id), 0))).scalar_one()
        unwritten = [session.session_id for session in self._metrics.sessions]
        unwritten += [error.session_id for error in self._metrics.errors]
        return int(last) + 1 - min(unwritten)


def list_sessions(engine: Engine, database: str) -> tuple[ScanSession, ...]:
    """Return the last scans, session 0 first, then the newest (SQL Server: sys.dm_cdc_log_scan_sessions).

    Raises `DatabaseNotEnabled`, `NotOwner`, `DefinitionsIncomplete`.
    """
    columns = log_scan_sessions.c
    order = (columns.session_id != 0, columns.session_id.desc())
    with translated(), engine.connect() as connection:
        _require_seen(connection, database)
        rows = connection.execute(select(log_scan_sessions).order_by(*order)).mappings()
        return tuple(ScanSession(**{name: _as_lsn(name, value) for name, value in row.items()}) for row in rows)


def list_errors(engine: Engine, database: str) -> tuple[ScanError, ...]:
    """Return the errors of the last scans, the newest first (SQL Server: sys.dm_cdc_errors). Raises as above."""
    with translated(), engine.connect() as connection:
        _require_seen(connection, database)
        query = select(log_scan_errors).order_by(log_scan_errors.c.session_id.desc())
        rows = connection.execute(query).mappings()
        return tuple(ScanError(**{name: _as_lsn(name, value) for name, value in row.items()}) for row in rows)


def _require_seen(connection: Connection, database: str) -> None:
    seen_source(connection, database)
    require_complete(connection)


def _put(connection: Connection, table: Table, rows: Sequence[ScanSession | ScanError], offset: int) -> None:
    """Insert rows, or replace those that are there."""
    if not rows:
        return
    values = [{**_as_values(row), "session_id": row.session_id + offset} for row in rows]
    statement = insert(table)
    replaced = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
    connection.execute(statement.on_conflict_do_update(index_elements=[table.c.session_id], set_=replaced), values)


def _add(connection: Connection, total: ScanSession) -> None:
    """Add to session 0, as `ScanMetrics` adds up."""
    statement = insert(log_scan_sessions).values(**_as_values(total))
    columns, added = log_scan_sessions.c, statement.excluded
    counts = {name: columns[name] + added[name] for name in COUNTS}
    latest = {name: func.coalesce(added[name], columns[name]) for name in LATEST}
    connection.execute(statement.on_conflict_do_update(index_elements=[columns.session_id], set_={**counts, **latest}))


def _forget_oldest(connection: Connection) -> None:
    last = select(func.max(log_scan_sessions.c.session_id)).scalar_subquery()
    for column in (log_scan_sessions.c.session_id, log_scan_errors.c.session_id):
        connection.execute(delete(column.table).where(column > 0, column <= last - KEPT_SESSIONS))


def _as_values(row: ScanSession | ScanError) -> dict[str, Any]:
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    return {name: value.value if isinstance(value, CommitLsn) else value for name, value in values.items()}


def _as_lsn(name: str, value: Any) -> Any:
    return CommitLsn(value) if name.endswith("_lsn") and value is not None else value
