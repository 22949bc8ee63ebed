"""How old change rows are removed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import JSON, Connection, cast, func, select

from rowtide.agents.runs import PastError
from rowtide.cdc.definitions import change_tables, cleanup_requests, require_complete
from rowtide.cdc.jobs.definitions import read_jobs
from rowtide.cdc.jobs.history import find_failure
from rowtide.cdc.jobs.parameters import JobType
from rowtide.cdc.jobs.requests import AGENT
from rowtide.databases.postgres.catalogue import read_server_time
from rowtide.log.postgres.lease import find_holder


@dataclass(frozen=True, slots=True)
class CleanupStatus:
    """How change rows are removed.

    `last_cleaned` is when a cleanup of all instances last ended well, None before the first; `oldest_instance` is when
    the oldest was enabled. `last_failure` is that of the job's newest run, None where that did not fail. Without a
    job `schedule` and `retention` are None.
    """

    now: datetime
    schedule: str | None
    retention: timedelta | None
    oldest_instance: datetime | None
    last_cleaned: datetime | None
    last_failure: PastError | None
    agent: str | None


def read_cleanup_status(connection: Connection) -> CleanupStatus:
    """Return how change rows are removed. Raises `DefinitionsIncomplete`."""
    require_complete(connection)
    job = read_jobs(connection).get(JobType.CLEANUP)
    retention = job.parameters.retention if job is not None else None
    last_cleaned = _find_last_cleaned(connection)
    failure = find_failure(connection, JobType.CLEANUP)
    is_past = failure is not None and last_cleaned is not None and last_cleaned > failure.time
    return CleanupStatus(
        now=read_server_time(connection),
        schedule=job.parameters.schedule if job is not None else None,
        retention=timedelta(minutes=retention) if retention is not None else None,
        oldest_instance=connection.execute(select(func.min(change_tables.c.create_date))).scalar_one(),
        last_cleaned=last_cleaned,
        last_failure=None if is_past else failure,
        agent=find_holder(connection, AGENT),
    )


def _find_last_cleaned(connection: Connection) -> datetime | None:
    columns = cleanup_requests.c
    is_of_all = columns.capture_instance.is_(None) & columns.low_water_mark.is_(None)
    has_cleaned = cast(columns.outcome, JSON).op("->>")("refusal").is_(None)
    query = select(func.max(columns.finished_at)).where(is_of_all, has_cleaned)
    found: datetime | None = connection.execute(query).scalar_one()
    return found
