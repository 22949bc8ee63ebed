"""Requests for snapshots of captured tables, rows of `cdc.snapshots`: written, paused, resumed, cancelled and listed.

Enabling a table writes one in its own transaction. The process that captures carries requests out and reports its
progress in them; others pause, resume and cancel them there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Engine, Executable, RowMapping, func, insert, select, text, update

from rowtide.cdc.access import own_source, seen_source
from rowtide.cdc.definitions import SCHEMA, EnabledTable, list_enabled, require_complete, snapshots
from rowtide.cdc.errors import capturing as errors
from rowtide.cdc.errors.querying import InstanceUnknown
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import Alterations
from rowtide.databases.postgres.catalogue import find_table, read_table
from rowtide.databases.postgres.errors import TableNotFound, translated
from rowtide.databases.postgres.functions import reads_views
from rowtide.databases.postgres.query_memo import made_once
from rowtide.databases.postgres.quoting import quote_qualified


class RequestState(StrEnum):
    """The state of a request; set by `SnapshotRunner`."""

    REQUESTED = "requested"
    COPYING = "copying"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"


OPEN = (RequestState.REQUESTED, RequestState.COPYING)
"""States in which there is something to do."""


@frozen
class SnapshotRequest:
    """A row of `cdc.snapshots`: what is asked for, and how far it is. Rates and sizes as in that table."""

    request_id: int
    capture_instance: str
    member_id: str
    condition: str | None
    state: RequestState
    is_paused: bool
    is_cancelled: bool
    rows_per_second: int | None
    snapshot: int | None
    chunks: int
    of_chunks: int | None
    copied_rows: int
    estimated_rows: int | None
    copied_bytes: int
    estimated_bytes: int | None
    rows_a_second: int | None
    requested_at: datetime
    began_at: datetime | None
    finished_at: datetime | None
    outcome: str | None

    @property
    def is_open(self) -> bool:
        """Whether it is still to be carried out."""
        return self.state in OPEN

    @property
    def remaining_s(self) -> int | None:
        """The estimated seconds to its end, None if unknown."""
        if self.state is not RequestState.COPYING or not self.rows_a_second or self.estimated_rows is None:
            return None
        return max(self.estimated_rows - self.copied_rows, 0) // self.rows_a_second


def request_step(
    capture_instance: str, member_id: str, condition: str | None = None, rows_per_second: int | None = None
) -> Executable:
    """Return the statement that requests a snapshot of an instance."""
    return insert(snapshots).values(
        capture_instance=capture_instance, member_id=member_id, condition=condition, rows_per_second=rows_per_second
    )


def has_snapshot(connection: Connection, member_id: str) -> bool:
    """Return whether an instance has a snapshot, or is to get one."""
    wanted = select(snapshots.c.request_id).where(
        snapshots.c.member_id == member_id,
        snapshots.c.state.in_([*OPEN, RequestState.FINISHED]),
        snapshots.c.condition.is_(None),
    )
    return connection.execute(wanted.limit(1)).first() is not None


def list_copied(connection: Connection) -> frozenset[str]:
    """Return the member ids of the instances that have a snapshot, as far as the role may see."""
    return frozenset(
        request.member_id
        for request in list_visible(connection)
        # A snapshot with a condition has copied only some of the rows.
        if request.state is RequestState.FINISHED and request.condition is None
    )


def list_requests(connection: Connection, *, only_open: bool = False) -> Sequence[SnapshotRequest]:
    """Return the requests in the order in which they were made."""
    columns = [snapshots.c[field.name] for field in fields(SnapshotRequest)]
    query = select(*columns).order_by(snapshots.c.request_id)
    if only_open:
        query = query.where(snapshots.c.state.in_(OPEN))
    return [_read(row) for row in connection.execute(query).mappings()]


@made_once
def list_visible(connection: Connection) -> Sequence[SnapshotRequest]:
    """Return the requests if the role may see them."""
    may_see = "select coalesce(has_table_privilege(to_regclass('cdc.snapshots'), 'select'), false)"
    sees = reads_views(connection, SCHEMA) or connection.execute(text(may_see)).scalar_one()
    return list_requests(connection) if sees else ()


def find_failed(requests: Sequence[SnapshotRequest]) -> tuple[tuple[str, str], ...]:
    """Return the instances whose last snapshot failed, with the errors."""
    last = {request.capture_instance: request for request in requests}
    failed = (request for request in last.values() if request.state is RequestState.FAILED)
    return tuple((request.capture_instance, request.outcome or "") for request in failed)


def note(connection: Connection, request_id: int, **values: object) -> None:
    """Set columns of a request; no effect if it is gone."""
    connection.execute(
        update(snapshots).where(snapshots.c.request_id == request_id).values(reported_at=func.now(), **values)
    )


def _read(row: RowMapping) -> SnapshotRequest:
    values: dict[str, Any] = {**row, "state": RequestState(row["state"])}
    return SnapshotRequest(**values)


@frozen
class ListedSnapshot:
    """A snapshot that was requested; `state` is that of its request, or paused.

    Numbers of rows are estimates before it is finished; sizes in bytes, those copied as the server sent them.
    """

    request_id: int
    capture_instance: str
    condition: str | None
    state: str
    snapshot: int | None
    chunks: int
    of_chunks: int | None
    copied_rows: int
    estimated_rows: int | None
    copied_bytes: int
    estimated_bytes: int | None
    rows_a_second: int | None
    remaining_seconds: int | None
    rows_per_second: int | None
    requested_at: datetime
    began_at: datetime | None
    finished_at: datetime | None
    outcome: str | None


def resnapshot(
    alterations: Alterations, database: str, name: str, condition: str | None, rows_per_second: int | None
) -> tuple[str, ...]:
    """Request a snapshot of an instance, or of all instances of a table; return their names.

    Raises `TableNotFound`, `InstanceUnknown`, `SnapshotOpen`, `SnapshotNeedsKey`, `SnapshotConditionInvalid`,
    `SnapshotRateInvalid`, `DatabaseNotEnabled`, `NotOwner`.
    """
    require_rate(rows_per_second)

    def request(connection: Connection) -> tuple[str, ...]:
        own_source(connection, database)
        require_complete(connection)
        chosen = choose_instances(connection, name)
        busy = {found.member_id for found in list_requests(connection, only_open=True)}
        for enabled in chosen:
            if enabled.member_id in busy:
                raise errors.SnapshotOpen(enabled.capture_instance)
            if condition is not None:
                _require_condition(connection, enabled, condition)
            step = request_step(enabled.capture_instance, enabled.member_id, condition, rows_per_second)
            connection.execute(step)
        return tuple(enabled.capture_instance for enabled in chosen)

    return alterations.transact(request)


def pause(engine: Engine, database: str, name: str, *, is_paused: bool) -> tuple[str, ...]:
    """Pause the snapshots of an instance or table, or resume them. Raises as `cancel`."""
    return _change(engine, database, name, {"is_paused": is_paused})


def cancel(engine: Engine, database: str, name: str) -> tuple[str, ...]:
    """Cancel the snapshots of an instance or table, and return the instances; what was copied is removed.

    Raises `TableNotFound`, `InstanceUnknown`, `SnapshotNotOpen`, `DatabaseNotEnabled`, `NotOwner`.
    """
    return _change(engine, database, name, {"is_cancelled": True})


def limit(engine: Engine, database: str, name: str, rows_per_second: int | None) -> tuple[str, ...]:
    """Limit the copy's rows per second from now on; None: no limit. Raises as `cancel`, and `SnapshotRateInvalid`."""
    require_rate(rows_per_second)
    return _change(engine, database, name, {"rows_per_second": rows_per_second})


def list_snapshots(engine: Engine, database: str) -> tuple[ListedSnapshot, ...]:
    """Return all snapshots that were requested of the present instances. Raises `DatabaseNotEnabled`, `NotOwner`."""
    with translated(), engine.connect() as connection:
        seen_source(connection, database)
        require_complete(connection)
        return tuple(_as_listed(request) for request in list_requests(connection))


def require_rate(rows_per_second: int | None) -> None:
    """Raise `SnapshotRateInvalid` unless it is a rate, or None. Pure."""
    if rows_per_second is not None and rows_per_second < 1:
        raise errors.SnapshotRateInvalid(rows_per_second)


def _change(engine: Engine, database: str, name: str, values: dict[str, object]) -> tuple[str, ...]:
    with translated(), engine.begin() as connection:
        own_source(connection, database)
        require_complete(connection)
        chosen = choose_instances(connection, name)
        # The state is tested in the same statement, so that a snapshot which ends meanwhile keeps its outcome.
        statement = (
            update(snapshots)
            .where(
                snapshots.c.member_id.in_([enabled.member_id for enabled in chosen]),
                snapshots.c.state.in_(OPEN),
            )
            .values(values)
            .returning(snapshots.c.capture_instance)
        )
        changed = tuple(connection.execute(statement).scalars())
    if not changed:
        raise errors.SnapshotNotOpen(name)
    return changed


def choose_instances(connection: Connection, name: str) -> Iterable[EnabledTable]:
    """Return the instance of a name, or the instances of a table. Raises `TableNotFound`, `InstanceUnknown`."""
    enabled = list_enabled(connection)
    named = [one for one in enabled if one.capture_instance == name]
    if named:
        return named
    try:
        table = find_table(connection, name)
    except TableNotFound as error:
        raise InstanceUnknown(name) from error
    found = [one for one in enabled if one.source_id == table.source_id]
    if not found:
        raise InstanceUnknown(f"of table {table.qualified_name}")
    return found


def _require_condition(connection: Connection, enabled: EnabledTable, condition: str) -> None:
    if enabled.index_name is None:
        raise errors.SnapshotNeedsKey(enabled.capture_instance)
    table = read_table(connection, enabled.source_id)
    # With `limit 0` the server parses and plans the condition, and evaluates it for no row.
    probe = f"select from {quote_qualified(table.schema, table.name)} where ({condition}) limit 0"
    try:
        with translated(), connection.begin_nested():
            connection.execute(text("select 1"))
            connection.exec_driver_sql(probe.replace("%", "%%"))
    except RowtideError as error:
        raise errors.SnapshotConditionInvalid(condition, error.filled_fact) from error


def _as_listed(request: SnapshotRequest) -> ListedSnapshot:
    return ListedSnapshot(
        request_id=request.request_id,
        capture_instance=request.capture_instance,
        condition=request.condition,
        state="paused" if request.is_open and request.is_paused else request.state.value,
        snapshot=request.snapshot,
        chunks=request.chunks,
        of_chunks=request.of_chunks,
        copied_rows=request.copied_rows,
        estimated_rows=request.estimated_rows,
        copied_bytes=request.copied_bytes,
        estimated_bytes=request.estimated_bytes,
        rows_a_second=request.rows_a_second,
        remaining_seconds=request.remaining_s,
        rows_per_second=request.rows_per_second,
        requested_at=request.requested_at,
        began_at=request.began_at,
        finished_at=request.finished_at,
        outcome=request.outcome,
    )
