"""Request snapshots of captured tables again, and pause, resume, cancel, limit and list them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, Engine, text, update

from rowtide.cdc.access import own_source, seen_source
from rowtide.cdc.definitions import EnabledTable, list_enabled, require_complete, snapshots
from rowtide.cdc.errors.capturing import (
    SnapshotConditionInvalid,
    SnapshotNeedsKey,
    SnapshotNotOpen,
    SnapshotOpen,
    SnapshotRateInvalid,
)
from rowtide.cdc.errors.querying import InstanceUnknown
from rowtide.cdc.snapshot_requests import OPEN, SnapshotRequest, list_requests, request_step
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import Alterations
from rowtide.databases.postgres.catalogue import find_table, read_table
from rowtide.databases.postgres.errors import TableNotFound, translated
from rowtide.databases.postgres.quoting import quote_qualified


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
                raise SnapshotOpen(enabled.capture_instance)
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
        raise SnapshotRateInvalid(rows_per_second)


def _change(engine: Engine, database: str, name: str, values: dict[str, object]) -> tuple[str, ...]:
    with translated(), engine.begin() as connection:
        own_source(connection, database)
        require_complete(connection)
        chosen = choose_instances(connection, name)
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
        raise SnapshotNotOpen(name)
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
        raise SnapshotNeedsKey(enabled.capture_instance)
    table = read_table(connection, enabled.source_id)
    probe = f"select from {quote_qualified(table.schema, table.name)} where ({condition}) limit 0"
    try:
        with translated(), connection.begin_nested():
            connection.execute(text("select 1"))
            connection.exec_driver_sql(probe.replace("%", "%%"))
    except RowtideError as error:
        raise SnapshotConditionInvalid(condition, error.filled_fact) from error


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
