"""Requests for snapshots of captured tables: rows of `cdc.snapshots` in the source database.

Enabling a table writes one in its own transaction. The process that captures carries requests out and reports its
progress in them; others pause, resume and cancel them there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Executable, RowMapping, func, insert, select, text, update

from rowtide.cdc.definitions import SCHEMA, snapshots
from rowtide.core.values import frozen
from rowtide.databases.postgres.functions import reads_views


class RequestState(StrEnum):
    """What has become of a request; set by the runner of snapshots."""

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
        if request.state is RequestState.FINISHED and request.condition is None
    )


def list_requests(connection: Connection, *, only_open: bool = False) -> Sequence[SnapshotRequest]:
    """Return the requests in the order in which they were made."""
    columns = [snapshots.c[field.name] for field in fields(SnapshotRequest)]
    query = select(*columns).order_by(snapshots.c.request_id)
    if only_open:
        query = query.where(snapshots.c.state.in_(OPEN))
    return [_read(row) for row in connection.execute(query).mappings()]


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
