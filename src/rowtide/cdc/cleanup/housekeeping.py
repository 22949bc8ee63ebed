"""Cleanup beside capture: the holder of a lake carries out cleanup requests, one table at a time.

`clean_up` inserts a request and waits for the holder of the lake lease; if there is none, it takes the lease itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, get_args

from sqlalchemy import Connection, Engine, func, insert, select, update

from rowtide.cdc.access import own_source
from rowtide.cdc.cleanup.cleanup import Cleaned, Cleanup, Refusal, Start
from rowtide.cdc.consumers.consumers import list_consumers
from rowtide.cdc.definitions import cleanup_requests
from rowtide.cdc.errors.capturing import CleanupIncomplete
from rowtide.cdc.lake_lease import LAKE, LakeLease
from rowtide.cdc.published import list_table_paths
from rowtide.cdc.requests import CleanupOrder
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.json_records import JsonOf
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.lake.tables import vacuum
from rowtide.log.errors import LeaseHeld
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import open_own_manifest, open_store

_POLL_S = 1.0
_PAUSE_S = 0.2
_MICROSECOND = timedelta(microseconds=1)


@frozen
class CleanupOutcome:
    """The outcome of a request: the tables that were cleaned, or the refusal: an error's class and values.

    `notes` are for the process that made the request.
    """

    cleaned: tuple[Cleaned, ...] = ()
    refusal: str | None = None
    values: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, refusal: Refusal) -> CleanupOutcome:
        """Return the outcome of a refused request."""
        values = tuple(getattr(refusal, name) for name in refusal.field_names)
        return cls(refusal=type(refusal).__name__, values=values)

    def require(self) -> tuple[Cleaned, ...]:
        """Return what was done, or raise the refusal."""
        if self.refusal is not None:
            raise _REFUSALS[self.refusal](*self.values)
        return self.cleaned


# Refusals go from the holder's process to the requesting one through the database: the class's name, and its fields.
_REFUSALS = {refusal.__name__: refusal for refusal in get_args(Refusal)}

_OUTCOME = JsonOf[CleanupOutcome](CleanupOutcome)


class Housekeeping:
    """Carries out cleanup requests from the source database, oldest first; in the holder's thread, between cycles."""

    def __init__(self, connection: Connection, cleanup: Cleanup) -> None:
        """`connection` commits each statement by itself."""
        self._connection = connection
        self._cleanup = cleanup
        self._request_id: int | None = None
        self._next_poll = 0.0

    @classmethod
    def over(
        cls,
        connection: Connection,
        system_tables: SystemTables,
        lease: LakeLease,
        vacuum: Callable[[str], None] = vacuum,
        start: Start | None = None,
    ) -> Housekeeping:
        """Open for a lake whose lease is held; cleanup waits for the consumers of the source database."""
        return cls(connection, Cleanup(system_tables, lease, lambda: list_consumers(connection), vacuum, start))

    @property
    def remaining(self) -> int:
        """The number of tables that the present request has still to clean."""
        return self._cleanup.remaining

    def step(self) -> bool:
        """Take the next request, or do a piece of the present one; return whether there was anything to do."""
        if self._request_id is None:
            return self._take()
        if self._cleanup.is_done:
            return self._finish(self._request_id, CleanupOutcome(self._cleanup.cleaned, notes=self._cleanup.notes))
        return self._cleanup.step()

    def _take(self) -> bool:
        if time.monotonic() < self._next_poll:
            return False
        self._next_poll = time.monotonic() + _POLL_S
        with translated():
            request = _next_request(self._connection)
        if request is None:
            return False
        request_id, order = request
        try:
            self._cleanup.begin(order)
        except get_args(Refusal) as refusal:
            return self._finish(request_id, CleanupOutcome.of(refusal))
        self._request_id = request_id
        return True

    def _finish(self, request_id: int, outcome: CleanupOutcome) -> bool:
        with translated():
            _finish_request(self._connection, request_id, outcome)
        self._request_id = None
        self._next_poll = 0.0
        return True


def clean_up(
    engine: Engine,
    database: str,
    order: CleanupOrder,
    on_progress: Callable[[str], None] = lambda _message: None,
    on_note: Callable[[str], None] = lambda _note: None,
) -> tuple[Cleaned, ...]:
    """Have an order carried out, and return what was done to each table (SQL Server: sp_cdc_cleanup_change_table).

    `on_note` is called with notes on the consumers for which it waits. Raises the errors of `Refusal`, `NotOwner`;
    `CleanupIncomplete` if low endpoints moved, but rows below them remain.
    """
    with translated(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        source = own_source(connection, database)
        request_id = _insert_request(connection, order)
        while (outcome := _find_outcome(connection, request_id)) is None:
            try:
                # Without waiting: if capture runs, it holds the lease for days, and carries out the request itself.
                lease = AdvisoryLease.take(engine, LAKE, patience_s=0)
            except LeaseHeld as error:
                on_progress(f"Waiting for {error.holder} to clean up ...")
                time.sleep(_PAUSE_S)
                continue
            with lease:
                _work_off(source, lease, request_id, on_progress)
    cleaned = outcome.require()
    for note in outcome.notes:
        on_note(note)
    failures = [f"{found.name} ({found.failure})" for found in cleaned if found.failure is not None]
    if failures:
        raise CleanupIncomplete(", ".join(failures))
    return cleaned


def _work_off(
    source: SourceDefinition,
    lease: AdvisoryLease,
    request_id: int,
    on_progress: Callable[[str], None],
) -> None:
    """Carry out requests up to this process's own."""
    store = open_store(source.log_store)
    # A copy of the database has the original's lake recorded, where it must not delete rows.
    verify_provenance(lease.connection, open_own_manifest(source, store))
    lake_lease = LakeLease.take(store, lease, source.lake, list_table_paths)
    housekeeping = Housekeeping.over(lease.connection, SystemTables(source.lake, source.source_id), lake_lease)
    while _find_outcome(lease.connection, request_id) is None:
        on_progress(f"Cleaning up, tables left: {housekeeping.remaining or 'all'} ...")
        if not housekeeping.step():
            time.sleep(_PAUSE_S)
    lake_lease.release()


def _insert_request(connection: Connection, order: CleanupOrder) -> int:
    """Insert an order as a request, and return its number."""
    values = {
        "capture_instance": order.capture_instance,
        "low_water_mark": order.low_water_mark.value if order.low_water_mark is not None else None,
        "retention_us": order.retention // _MICROSECOND,
        "is_forced": order.is_forced,
    }
    statement = insert(cleanup_requests).values(**values).returning(cleanup_requests.c.request_id)
    return int(connection.execute(statement).scalar_one())


def _next_request(connection: Connection) -> tuple[int, CleanupOrder] | None:
    """Return the oldest unfinished request, None if there is none."""
    columns = cleanup_requests.c
    query = (
        select(
            columns.request_id,
            columns.capture_instance,
            columns.low_water_mark,
            columns.retention_us,
            columns.is_forced,
        )
        .where(columns.finished_at.is_(None))
        # In the order of requests, since each applies to the state that the earlier ones have left.
        .order_by(columns.request_id)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    mark = CommitLsn(row.low_water_mark) if row.low_water_mark is not None else None
    return row.request_id, CleanupOrder(row.capture_instance, mark, row.retention_us * _MICROSECOND, row.is_forced)


def _finish_request(connection: Connection, request_id: int, outcome: CleanupOutcome) -> None:
    """Record the outcome of a request."""
    values = {"finished_at": func.now(), "outcome": _OUTCOME.encode(outcome)}
    is_it = cleanup_requests.c.request_id == request_id
    connection.execute(update(cleanup_requests).where(is_it).values(**values))


def _find_outcome(connection: Connection, request_id: int) -> CleanupOutcome | None:
    """Return the outcome of a request, None while it is open."""
    is_it = cleanup_requests.c.request_id == request_id
    found = connection.execute(select(cleanup_requests.c.outcome).where(is_it)).scalar()
    return _OUTCOME.decode(found) if found is not None else None
