"""Cleanup requests to the holder of the lake lease: rows of `cdc.cleanup_requests` in the source database."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, get_args

from pydantic import TypeAdapter
from sqlalchemy import Connection, func, insert, select, update

from rowtide.cdc.cleanup.cleanup import Cleaned, Refusal
from rowtide.cdc.cleanup.retention import CleanupOrder
from rowtide.cdc.definitions import cleanup_requests
from rowtide.core.lsn import CommitLsn

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
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
        values = tuple(getattr(refusal, field.name) for field in fields(refusal))
        return cls(refusal=type(refusal).__name__, values=values)

    def require(self) -> tuple[Cleaned, ...]:
        """Return what was done, or raise the refusal."""
        if self.refusal is not None:
            raise _REFUSALS[self.refusal](*self.values)
        return self.cleaned


_REFUSALS = {refusal.__name__: refusal for refusal in get_args(Refusal)}

_OUTCOME = TypeAdapter(CleanupOutcome)


def insert_request(connection: Connection, order: CleanupOrder) -> int:
    """Insert an order as a request, and return its number."""
    values = {
        "capture_instance": order.capture_instance,
        "low_water_mark": order.low_water_mark.value if order.low_water_mark is not None else None,
        "retention_us": order.retention // _MICROSECOND,
        "is_forced": order.is_forced,
    }
    statement = insert(cleanup_requests).values(**values).returning(cleanup_requests.c.request_id)
    return int(connection.execute(statement).scalar_one())


def next_request(connection: Connection) -> tuple[int, CleanupOrder] | None:
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
        .order_by(columns.request_id)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    mark = CommitLsn(row.low_water_mark) if row.low_water_mark is not None else None
    return row.request_id, CleanupOrder(row.capture_instance, mark, row.retention_us * _MICROSECOND, row.is_forced)


def finish_request(connection: Connection, request_id: int, outcome: CleanupOutcome) -> None:
    """Record the outcome of a request."""
    values = {"finished_at": func.now(), "outcome": _OUTCOME.dump_json(outcome).decode()}
    is_it = cleanup_requests.c.request_id == request_id
    connection.execute(update(cleanup_requests).where(is_it).values(**values))


def find_outcome(connection: Connection, request_id: int) -> CleanupOutcome | None:
    """Return the outcome of a request, None while it is open."""
    is_it = cleanup_requests.c.request_id == request_id
    found = connection.execute(select(cleanup_requests.c.outcome).where(is_it)).scalar()
    return _OUTCOME.validate_json(found) if found is not None else None
