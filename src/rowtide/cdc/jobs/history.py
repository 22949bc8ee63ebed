"""The runs of jobs, as `cdc.job_history` keeps them: the last hundred of each job (SQL Server: sysjobhistory)."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select, update

from rowtide.agents.runs import PastError, RunOutcome
from rowtide.cdc.jobs.definitions import job_history
from rowtide.cdc.jobs.parameters import JobType
from rowtide.core.values import frozen

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


def list_runs(
    connection: Connection, job_type: JobType | None = None, *, limit: int | None = None
) -> tuple[HistoricRun, ...]:
    """Return the runs of a job, or of all, newest first, up to a limit."""
    columns = job_history.c
    query = select(*(columns[field.name] for field in fields(HistoricRun))).order_by(columns.run_id.desc()).limit(limit)
    if job_type is not None:
        query = query.where(columns.job_type == job_type.value)
    return tuple(
        HistoricRun(row.run_id, JobType(row.job_type), row.started_at, row.ended_at, RunOutcome(row.outcome), *row[5:])
        for row in connection.execute(query)
    )


def find_last_run(connection: Connection, job_type: JobType) -> HistoricRun | None:
    """Return the newest run of a job, None if it never ran."""
    return next(iter(list_runs(connection, job_type, limit=1)), None)


def find_failure(connection: Connection, job_type: JobType) -> PastError | None:
    """Return how the newest run of a job has failed, None where it has not."""
    run = find_last_run(connection, job_type)
    if run is None or run.outcome is not RunOutcome.FAILED or run.ended_at is None:
        return None
    return PastError(run.ended_at, run.message or "an error")


def record_start(connection: Connection, job_type: JobType, agent: str) -> int:
    """Record that a run begins, and return its number; the oldest of the job's runs are deleted."""
    columns = job_history.c
    values = {"job_type": job_type.value, "outcome": RunOutcome.RUNNING.value, "agent": agent}
    run_id = int(connection.execute(insert(job_history).values(**values).returning(columns.run_id)).scalar_one())
    of_job = columns.job_type == job_type.value
    kept = select(columns.run_id).where(of_job).order_by(columns.run_id.desc()).limit(KEPT_RUNS)
    connection.execute(delete(job_history).where(of_job, columns.run_id.not_in(kept)))
    return run_id


def record_retries(connection: Connection, run_id: int, retries: int, message: str) -> None:
    """Record the number of a run's retries, and the last reason."""
    is_it = job_history.c.run_id == run_id
    connection.execute(update(job_history).where(is_it).values(retries=retries, message=message))


def record_end(connection: Connection, run_id: int, outcome: RunOutcome, retries: int, message: str) -> None:
    """Record the end of a run."""
    values = {"ended_at": func.now(), "outcome": outcome.value, "retries": retries, "message": message}
    connection.execute(update(job_history).where(job_history.c.run_id == run_id).values(**values))


def record_lost(connection: Connection) -> None:
    """Record runs of an agent that is gone as lost; for an agent that begins, holding the agent's lease."""
    is_open = job_history.c.ended_at.is_(None)
    values = {"ended_at": func.now(), "outcome": RunOutcome.LOST.value}
    connection.execute(update(job_history).where(is_open).values(**values))
