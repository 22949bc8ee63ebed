"""The jobs' metadata in the source database: parameters with their limits, requests, and the last hundred runs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert, insert

from rowtide.agents.loop import PastError, RunOutcome
from rowtide.agents.schedule import Schedule
from rowtide.cdc.access import READER_GRANTS
from rowtide.cdc.definitions import change_tables, find_missing, metadata, table_rules
from rowtide.cdc.errors.jobs import (
    ContinuousInvalid,
    JobTypeUnknown,
    MaxscansInvalid,
    MaxtransInvalid,
    ParameterNotInteger,
    ParameterOfCapture,
    ParameterOfCleanup,
    ParameterUnknown,
    PollingIntervalInvalid,
    PollingNotContinuous,
    RetentionInvalid,
    ScheduleInvalid,
    ThresholdInvalid,
)
from rowtide.core.errors import RowtideError
from rowtide.core.options import Option, values_of
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import create_tables
from rowtide.databases.postgres.query_memo import made_once

# The two jobs of a database and their parameters: defaults, limits and the meaning of changes. Pure. Rules of
# sp_cdc_add_job and sp_cdc_change_job (specification, part 1.5). Where SQL Server limits capture's pace by default,
# rowtide sets no limit.

RETENTION_MINUTES = 4320
DAILY_AT_TWO = "0 2 * * *"
_DAY_S = 86_400
_LONGEST_RETENTION_MINUTES = 52_594_800


class JobType(StrEnum):
    """The jobs of a database."""

    CAPTURE = "capture"
    CLEANUP = "cleanup"

    @classmethod
    def parse(cls, text: str) -> JobType:
        """Read a job's name. Raises `JobTypeUnknown`."""
        try:
            return cls(text.strip().lower())
        except ValueError:
            raise JobTypeUnknown(text) from None


@frozen(kw_only=True)
class JobParameters:
    """The parameters of a job. None: in a job, no limit (`threshold`: no counterpart); in a change, unchanged."""

    maxtrans: Annotated[int | None, Option(help="Transactions per scan.", sql_server="@maxtrans")] = None
    maxscans: Annotated[int | None, Option(help="Scans per poll.", sql_server="@maxscans")] = None
    continuous: Annotated[
        bool | None, Option(help="Whether it polls until it is stopped, or once.", sql_server="@continuous")
    ] = None
    pollinginterval: Annotated[
        int | None, Option(help="Seconds from a poll's end to the next.", sql_server="@pollinginterval")
    ] = None
    retention: Annotated[int | None, Option(help="Minutes that change rows are kept.", sql_server="@retention")] = None
    threshold: Annotated[int | None, Option(help="Accepted, without effect.", sql_server="@threshold")] = None
    schedule: Annotated[str | None, Option(help="When it runs, as in a crontab.")] = None


@frozen
class JobChange(JobParameters):
    """A job, `capture` or `cleanup`, and what is to change of it (SQL Server: sp_cdc_change_job)."""

    job_type: str

    @property
    def parameters(self) -> JobParameters:
        """The parameters that are given."""
        return JobParameters(**values_of(JobParameters, self))


@frozen
class NewJob(JobChange):
    """A job as it is added (SQL Server: sp_cdc_add_job); what is not given has rowtide's defaults."""

    sql_server_defaults: bool = field(default=False, kw_only=True)
    """Or SQL Server's: 500 transactions, 10 scans, 5 s; threshold 5000."""


_OF = {
    JobType.CAPTURE: ("maxtrans", "maxscans", "continuous", "pollinginterval"),
    JobType.CLEANUP: ("retention", "threshold", "schedule"),
}

DEFAULTS = {
    JobType.CAPTURE: JobParameters(continuous=True),
    JobType.CLEANUP: JobParameters(retention=RETENTION_MINUTES, schedule=DAILY_AT_TWO),
}

SQL_SERVER_DEFAULTS = {
    JobType.CAPTURE: JobParameters(maxtrans=500, maxscans=10, continuous=True, pollinginterval=5),
    JobType.CLEANUP: JobParameters(retention=RETENTION_MINUTES, threshold=5000, schedule=DAILY_AT_TWO),
}


def new_parameters(job_type: JobType, given: JobParameters, *, has_sql_server_defaults: bool = False) -> JobParameters:
    """Return the parameters of a new job: those given, and defaults for the others. Raises those of `errors`."""
    _require_valid(job_type, given)
    if given.continuous is False:
        if given.pollinginterval:
            raise PollingNotContinuous(given.pollinginterval)
        given = replace(given, pollinginterval=0)
    return _overlaid((SQL_SERVER_DEFAULTS if has_sql_server_defaults else DEFAULTS)[job_type], given)


def changed_parameters(job_type: JobType, present: JobParameters, change: JobParameters) -> JobParameters:
    """Return a job's parameters after a change. Raises those of `errors`.

    A job that is set to not continuous has polling interval 0, whatever was given; an interval without `continuous`
    makes it continuous.
    """
    _require_valid(job_type, change)
    if change.continuous is False:
        change = replace(change, pollinginterval=0)
    elif change.continuous is None and change.pollinginterval:
        change = replace(change, continuous=True)
    return _overlaid(present, change)


def parse_parameters(pairs: Iterable[str]) -> JobParameters:
    """Read parameters written NAME=VALUE. Raises `ParameterUnknown`, `ParameterNotInteger`, `ContinuousInvalid`."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, is_set, value = (part.strip() for part in pair.partition("="))
        if name not in _NAMES or not is_set:
            raise ParameterUnknown(pair, ", ".join(_NAMES))
        values[name] = _parse(name, value)
    return JobParameters(**values)


_NAMES = tuple(field.name for field in fields(JobParameters))


def _parse(name: str, value: str) -> int | bool | str:
    if name == "schedule":
        return value
    if name == "continuous":
        if value not in ("0", "1"):
            raise ContinuousInvalid(value)
        return value == "1"
    try:
        return int(value)
    except ValueError:
        raise ParameterNotInteger(name, value) from None


def _overlaid(below: JobParameters, above: JobParameters) -> JobParameters:
    given = {name: getattr(above, name) for name in _NAMES if getattr(above, name) is not None}
    return replace(below, **given)


def _require_valid(job_type: JobType, given: JobParameters) -> None:
    for name in _NAMES:
        value = getattr(given, name)
        if value is None:
            continue
        if name not in _OF[job_type]:
            raise (ParameterOfCleanup if job_type is JobType.CAPTURE else ParameterOfCapture)(name)
        if name in _LIMITS:
            low, high, error = _LIMITS[name]
            if not low <= value <= high:
                raise error(value)
    if given.schedule is not None:
        _require_schedule(given.schedule)


def _require_schedule(text: str) -> None:
    try:
        Schedule(text).verify()
    except ValueError as error:
        raise ScheduleInvalid(text, str(error)) from error


_LARGEST_INTEGER = 2**31 - 1

_LIMITS: dict[str, tuple[int, int, Callable[[int], RowtideError]]] = {
    "maxtrans": (1, _LARGEST_INTEGER, MaxtransInvalid),
    "maxscans": (1, _LARGEST_INTEGER, MaxscansInvalid),
    "pollinginterval": (0, _DAY_S - 1, PollingIntervalInvalid),
    "retention": (1, _LONGEST_RETENTION_MINUTES, RetentionInvalid),
    "threshold": (1, 2**63 - 1, ThresholdInvalid),
}


cdc_jobs = sa.Table(
    "cdc_jobs",
    metadata,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("job_type", sa.Text, nullable=False, unique=True),
    sa.Column("job_name", sa.Text, nullable=False),
    sa.Column("maxtrans", sa.Integer, comment="transactions per scan; null: no limit"),
    sa.Column("maxscans", sa.Integer, comment="scans per round; null: no limit"),
    sa.Column("continuous", sa.Boolean),
    sa.Column("pollinginterval", sa.BigInteger, comment="seconds between rounds; null: as needed"),
    sa.Column("retention", sa.BigInteger, comment="minutes"),
    sa.Column("threshold", sa.BigInteger, comment="SQL Server's; rows go with their files"),
    sa.Column("schedule", sa.Text, comment="as in a crontab; null: with the agent"),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
)

job_requests = sa.Table(
    "job_requests",
    metadata,
    sa.Column("request_id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("job_type", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False, comment="start or stop"),
    sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("requested_by", sa.Text, nullable=False, server_default=sa.func.current_user()),
)

job_history = sa.Table(
    "job_history",
    metadata,
    sa.Column("run_id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("job_type", sa.Text, nullable=False),
    sa.Column("started_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("ended_at", sa.DateTime(timezone=True)),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("retries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("message", sa.Text),
    sa.Column("agent", sa.Text, nullable=False, comment="the host and process that ran it"),
)


@frozen
class Job:
    """A row of `cdc.cdc_jobs`."""

    job_id: str
    job_type: JobType
    job_name: str
    parameters: JobParameters
    created_at: datetime


_PARAMETERS = tuple(field.name for field in fields(JobParameters))


def first_table_steps(connection: sa.Connection) -> list[sa.Executable]:
    """Return the steps that create the jobs with the first table. Existing jobs are unchanged."""
    if _has_instances(connection):
        return []
    return [insert_step(job_type, DEFAULTS[job_type]).on_conflict_do_nothing() for job_type in JobType]


def complete(connection: sa.Connection) -> None:
    """Create the tables of schema `cdc` that were dropped, and with theirs the jobs."""
    missing = find_missing(connection)
    had_none = cdc_jobs.name in missing
    create_tables(connection, metadata)
    for grant in READER_GRANTS if missing else ():
        connection.execute(grant)
    if had_none and _has_instances(connection):
        for job_type in JobType:
            connection.execute(insert_step(job_type, DEFAULTS[job_type]))


def last_table_steps(connection: sa.Connection) -> list[sa.Executable]:
    """Return the step that removes the jobs if no instance is left, and no rule for new tables.

    What is removed without a number may lack their tables.
    """
    missing = find_missing(connection)
    if cdc_jobs.name in missing:
        return []
    is_last = ~sa.exists(sa.select(change_tables.c.object_id))
    if table_rules.name not in missing:
        is_last &= ~sa.exists(sa.select(table_rules.c.rule_name))
    return [sa.delete(cdc_jobs).where(is_last)]


def insert_step(job_type: JobType, parameters: JobParameters) -> Insert:
    """Return the statement that adds a job."""
    values = {name: getattr(parameters, name) for name in _PARAMETERS}
    job_name = sa.func.concat("cdc.", sa.func.current_database(), f"_{job_type}")
    return insert(cdc_jobs).values(job_id=str(uuid.uuid4()), job_type=job_type.value, job_name=job_name, **values)


def update_job(connection: sa.Connection, job_type: JobType, parameters: JobParameters) -> None:
    """Set a job's parameters."""
    values = {name: getattr(parameters, name) for name in _PARAMETERS}
    connection.execute(sa.update(cdc_jobs).where(cdc_jobs.c.job_type == job_type.value).values(**values))


def delete_job(connection: sa.Connection, job_type: JobType) -> None:
    """Remove a job; its history stays."""
    connection.execute(sa.delete(cdc_jobs).where(cdc_jobs.c.job_type == job_type.value))


@made_once
def read_jobs(connection: sa.Connection, *, for_update: bool = False) -> dict[JobType, Job]:
    """Return the jobs of the database, capture first."""
    columns = cdc_jobs.c
    parameters = [columns[name] for name in _PARAMETERS]
    query = sa.select(columns.job_id, columns.job_type, columns.job_name, columns.created_at, *parameters)
    rows = connection.execute(query.with_for_update() if for_update else query).all()
    jobs = [
        Job(
            row.job_id,
            JobType(row.job_type),
            row.job_name,
            JobParameters(**{name: getattr(row, name) for name in _PARAMETERS}),
            row.created_at,
        )
        for row in rows
    ]
    return {job.job_type: job for job in sorted(jobs, key=lambda job: job.job_type)}


def _has_instances(connection: sa.Connection) -> bool:
    return bool(connection.execute(sa.select(sa.exists(sa.select(change_tables.c.object_id)))).scalar_one())


KEPT_RUNS = 100


@frozen
class HistoricRun:
    """A row of `cdc.job_history`; `ended_at` None: still running. `message`: what was done, or the last error."""

    run_id: int
    job_type: JobType
    started_at: datetime
    ended_at: datetime | None
    outcome: RunOutcome
    retries: int
    message: str | None
    agent: str


@made_once
def list_runs(
    connection: sa.Connection, job_type: JobType | None = None, *, limit: int | None = None
) -> tuple[HistoricRun, ...]:
    """Return the runs of a job, or of all, newest first, up to a limit."""
    columns = job_history.c
    query = (
        sa.select(*(columns[field.name] for field in fields(HistoricRun))).order_by(columns.run_id.desc()).limit(limit)
    )
    if job_type is not None:
        query = query.where(columns.job_type == job_type.value)
    return tuple(
        HistoricRun(row.run_id, JobType(row.job_type), row.started_at, row.ended_at, RunOutcome(row.outcome), *row[5:])
        for row in connection.execute(query)
    )


def find_last_run(connection: sa.Connection, job_type: JobType) -> HistoricRun | None:
    """Return the newest run of a job, None if it never ran."""
    return next(iter(list_runs(connection, job_type, limit=1)), None)


def find_failure(connection: sa.Connection, job_type: JobType) -> PastError | None:
    """Return how the newest run of a job has failed, None where it has not."""
    run = find_last_run(connection, job_type)
    if run is None or run.outcome is not RunOutcome.FAILED or run.ended_at is None:
        return None
    return PastError(run.ended_at, run.message or "an error")


def record_start(connection: sa.Connection, job_type: JobType, agent: str) -> int:
    """Record that a run begins, and return its number; the oldest of the job's runs are deleted."""
    columns = job_history.c
    values = {"job_type": job_type.value, "outcome": RunOutcome.RUNNING.value, "agent": agent}
    run_id = int(connection.execute(sa.insert(job_history).values(**values).returning(columns.run_id)).scalar_one())
    of_job = columns.job_type == job_type.value
    kept = sa.select(columns.run_id).where(of_job).order_by(columns.run_id.desc()).limit(KEPT_RUNS)
    connection.execute(sa.delete(job_history).where(of_job, columns.run_id.not_in(kept)))
    return run_id


def record_retries(connection: sa.Connection, run_id: int, retries: int, message: str) -> None:
    """Record the number of a run's retries, and the last reason."""
    is_it = job_history.c.run_id == run_id
    connection.execute(sa.update(job_history).where(is_it).values(retries=retries, message=message))


def record_end(connection: sa.Connection, run_id: int, outcome: RunOutcome, retries: int, message: str) -> None:
    """Record the end of a run."""
    values = {"ended_at": sa.func.now(), "outcome": outcome.value, "retries": retries, "message": message}
    connection.execute(sa.update(job_history).where(job_history.c.run_id == run_id).values(**values))


def record_lost(connection: sa.Connection) -> None:
    """Record runs of an agent that is gone as lost; for an agent that begins, holding the agent's lease."""
    is_open = job_history.c.ended_at.is_(None)
    values = {"ended_at": sa.func.now(), "outcome": RunOutcome.LOST.value}
    connection.execute(sa.update(job_history).where(is_open).values(**values))
