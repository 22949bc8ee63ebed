"""How far capture is, what it has stopped with, and how old change rows are removed."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import JSON, Connection, cast, func, select

from rowtide.agents.runs import PastError
from rowtide.cdc.definitions import READER, change_tables, cleanup_requests, require_complete
from rowtide.cdc.jobs.administration import AGENT
from rowtide.cdc.jobs.definitions import find_failure, read_jobs
from rowtide.cdc.jobs.parameters import JobType
from rowtide.cdc.scans.pace import saving_period_s
from rowtide.cdc.scans.tables import log_scan_errors
from rowtide.cdc.snapshot_requests import find_failed, list_visible
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import read_server_time
from rowtide.log.postgres.lease import find_holder
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import find_oldest_waiting, open_store
from rowtide.log.store.state import ManifestState
from rowtide.storage.places import is_object_url


@frozen
class CaptureStatus:
    """How far capture is; transactions since `oldest_waiting` were read and are not published, None: none waits.

    `capture` is the process that captures, if any; `last_error` the newest of a scan or of the capture job;
    `failed_snapshots` are the instances whose last snapshot failed, with the errors. `rest_s` is how long it may rest
    between two cycles: as its job says, or to save requests to a bucket.
    """

    now: datetime
    capture: str | None
    instances: int
    published_as_of: datetime | None
    oldest_waiting: datetime | None
    gaps: tuple[str, ...]
    last_error: PastError | None
    failed_snapshots: tuple[tuple[str, str], ...] = ()
    rest_s: float = 0.0


def read_capture_status(
    connection: Connection, source: SourceDefinition, state: ManifestState, *, instances: int
) -> CaptureStatus:
    """Return how far capture is. Raises `DefinitionsIncomplete`."""
    reader = state.readers.get(READER)
    position = reader.position if reader is not None else state.low
    return CaptureStatus(
        now=read_server_time(connection),
        capture=find_holder(connection, "lake"),
        instances=instances,
        published_as_of=reader.as_of if reader is not None else None,
        oldest_waiting=find_oldest_waiting(open_store(source.log_store), state, position),
        gaps=describe_gaps(state),
        last_error=_find_last_error(connection),
        failed_snapshots=find_failed(list_visible(connection)),
        rest_s=_find_rest(connection, source, instances),
    )


def _find_rest(connection: Connection, source: SourceDefinition, instances: int) -> float:
    job = read_jobs(connection).get(JobType.CAPTURE)
    if job is not None and job.parameters.pollinginterval is not None:
        return job.parameters.pollinginterval
    is_at_bucket = any(map(is_object_url, filter(None, (source.lake, source.log_store))))
    return saving_period_s(instances) if is_at_bucket else 0.0


def describe_gaps(state: ManifestState) -> tuple[str, ...]:
    """Return in words which transactions the log store lacks."""
    return tuple(
        f"from {gap.after} up to {gap.before}{', reconciled' if gap.bridged else ''}: {gap.reason}"
        for gap in state.gaps
    )


def _find_last_error(connection: Connection) -> PastError | None:
    """Return the newest error of a scan, or of the capture job where that is newer."""
    require_complete(connection)
    columns = log_scan_errors.c
    query = select(columns.entry_time, columns.error_message).order_by(columns.entry_time.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    of_scan = PastError(*row) if row is not None else None
    of_job = find_failure(connection, JobType.CAPTURE)
    known = [error for error in (of_scan, of_job) if error is not None]
    return max(known, key=lambda error: error.time, default=None)


@frozen
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
