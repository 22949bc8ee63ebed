"""Adding, changing, dropping and listing jobs (SQL Server: sp_cdc_add_job, sp_cdc_change_job, sp_cdc_drop_job).

Only the owner may call them, and monitors those that list. They raise `DatabaseNotEnabled`, `NotOwner`,
`DefinitionsIncomplete`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine

from rowtide.cdc.access import own_source, seen_source
from rowtide.cdc.definitions import FEATURE, read_source, require_complete
from rowtide.cdc.errors.jobs import JobExists, JobMissing
from rowtide.cdc.jobs.definitions import (
    RETENTION_MINUTES,
    HistoricRun,
    Job,
    JobParameters,
    JobType,
    changed_parameters,
    delete_job,
    find_last_run,
    insert_step,
    list_runs,
    new_parameters,
    read_jobs,
    update_job,
)
from rowtide.core.formats import StoreFormat
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import is_read_beside
from rowtide.log.postgres.lease import find_holder

_OF_CAPTURE, _OF_REPLICATION = "capture", "replication"


@frozen
class ListedJob:
    """A row of sp_cdc_help_jobs, and rowtide's own columns; None: no limit, or a parameter of the other job type.

    For the capture job: `log_scan` is the feature that scans the log, `replication` once the database publishes tables
    (in SQL Server the Log Reader Agent then replaces the job); `log_reader` is the process that reads the log now.
    """

    job_id: str
    job_type: JobType
    job_name: str
    maxtrans: int | None
    maxscans: int | None
    continuous: bool | None
    pollinginterval: int | None
    retention: int | None
    threshold: int | None
    schedule: str | None
    last_started_at: datetime | None
    last_outcome: str | None
    last_message: str | None
    log_scan: str | None
    log_reader: str | None


def list_jobs(engine: Engine, database: str) -> tuple[ListedJob, ...]:
    """Return the database's jobs, capture first (SQL Server: sp_cdc_help_jobs)."""
    with _seen(engine, database) as connection:
        scan = _OF_REPLICATION if is_read_beside(connection, FEATURE) else _OF_CAPTURE
        reader = find_holder(connection, "log")
        jobs = read_jobs(connection).values()
        return tuple(
            _listed(job, find_last_run(connection, job.job_type), *_of_log(job.job_type, scan, reader)) for job in jobs
        )


def list_history(engine: Engine, database: str, job_type: JobType | None) -> tuple[HistoricRun, ...]:
    """Return the runs of a job, or of both, the newest first (SQL Server: sp_help_jobhistory)."""
    with _seen(engine, database) as connection:
        return list_runs(connection, job_type)


def add_job(
    engine: Engine, database: str, job_type: JobType, given: JobParameters, *, has_sql_server_defaults: bool
) -> None:
    """Add a job (SQL Server: sp_cdc_add_job). Raises `JobExists`, and the errors of `new_parameters`."""
    parameters = new_parameters(job_type, given, has_sql_server_defaults=has_sql_server_defaults)
    with _owned(engine, database) as connection:
        if job_type in read_jobs(connection):
            raise JobExists(job_type, database)
        connection.execute(insert_step(job_type, parameters))


def change_job(engine: Engine, database: str, job_type: JobType, change: JobParameters) -> JobParameters:
    """Change a job, which takes effect at its next start, and return its parameters (SQL Server: sp_cdc_change_job).

    Raises `JobMissing`, and the errors of `changed_parameters`.
    """
    with _owned(engine, database) as connection:
        job = require_job(connection, database, job_type, for_update=True)
        parameters = changed_parameters(job_type, job.parameters, change)
        update_job(connection, job_type, parameters)
        return parameters


def drop_job(engine: Engine, database: str, job_type: JobType) -> None:
    """Remove a job (SQL Server: sp_cdc_drop_job); an agent ends its run. Raises `JobMissing`."""
    with _owned(engine, database) as connection:
        require_job(connection, database, job_type, for_update=True)
        delete_job(connection, job_type)


def require_job(connection: Connection, database: str, job_type: JobType, *, for_update: bool = False) -> Job:
    """Return a job. Raises `JobMissing`."""
    job = read_jobs(connection, for_update=for_update).get(job_type)
    if job is None:
        raise JobMissing(job_type, database)
    return job


def read_parameters(connection: Connection, job_type: JobType) -> JobParameters:
    """Return a job's parameters, the defaults if there is no such job. Raises `DefinitionsIncomplete`."""
    require_complete(connection)
    job = read_jobs(connection).get(job_type)
    return job.parameters if job is not None else new_parameters(job_type, JobParameters())


def read_retention(engine: Engine, database: str) -> timedelta:
    """Return the retention of change rows: the cleanup job's, or three days. Raises `DatabaseNotEnabled`."""
    with translated(), engine.connect() as connection:
        read_source(connection, database, StoreFormat.require_readable)
        parameters = read_parameters(connection, JobType.CLEANUP)
    return timedelta(minutes=parameters.retention or RETENTION_MINUTES)


@contextmanager
def _seen(engine: Engine, database: str) -> Iterator[Connection]:
    """Open a transaction of the owner, or of a monitor, on a database that has jobs."""
    with translated(), engine.connect() as connection:
        seen_source(connection, database)
        require_complete(connection)
        yield connection


@contextmanager
def _owned(engine: Engine, database: str) -> Iterator[Connection]:
    """Open a transaction of the owner on a database that has jobs."""
    with translated(), engine.begin() as connection:
        own_source(connection, database)
        require_complete(connection)
        yield connection


def _of_log(job_type: JobType, scan: str, reader: str | None) -> tuple[str | None, str | None]:
    """The cleanup job does not read the log."""
    return (scan, reader) if job_type is JobType.CAPTURE else (None, None)


def _listed(job: Job, last: HistoricRun | None, log_scan: str | None, log_reader: str | None) -> ListedJob:
    parameters = job.parameters
    return ListedJob(
        job_id=job.job_id,
        job_type=job.job_type,
        job_name=job.job_name,
        maxtrans=parameters.maxtrans,
        maxscans=parameters.maxscans,
        continuous=parameters.continuous,
        pollinginterval=parameters.pollinginterval,
        retention=parameters.retention,
        threshold=parameters.threshold,
        schedule=parameters.schedule,
        last_started_at=last.started_at if last is not None else None,
        last_outcome=last.outcome if last is not None else None,
        last_message=last.message if last is not None else None,
        log_scan=log_scan,
        log_reader=log_reader,
    )
