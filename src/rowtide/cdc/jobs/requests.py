"""Requests to start and stop jobs, which the agent takes from the source database (SQL Server: sp_cdc_start_job,
sp_cdc_stop_job).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import Connection, Engine, delete, insert, select

from rowtide.agents.loop import JobAction, RunOutcome
from rowtide.cdc.access import own_source
from rowtide.cdc.definitions import require_complete
from rowtide.cdc.errors.jobs import AgentNotRunning, JobNotRunning, JobRunning
from rowtide.cdc.jobs.administration import require_job
from rowtide.cdc.jobs.definitions import (
    HistoricRun,
    JobType,
    find_last_run,
    job_requests,
)
from rowtide.databases.postgres.errors import translated
from rowtide.log.postgres.lease import find_holder

_OF_CAPTURE, _OF_REPLICATION = "capture", "replication"
AGENT = "agent"
_PAUSE_S = 0.2


def start_job(engine: Engine, database: str, job_type: JobType) -> None:
    """Have the agent start a job; return when it has taken the request.

    Raises `AgentNotRunning`, `JobMissing`, `JobRunning`, `NotOwner`.
    """
    with translated(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        last = _require_agent(connection, database, job_type)
        if last is not None and last.outcome is RunOutcome.RUNNING:
            raise JobRunning(job_type, last.started_at.isoformat(" ", "seconds"))
        request_id = _insert(connection, job_type, JobAction.START)
        _wait(connection, database, lambda: not _is_there(connection, request_id))


def stop_job(engine: Engine, database: str, job_type: JobType) -> None:
    """Have the agent stop a job; return when its run has ended, after completing its present cycle.

    Raises `AgentNotRunning`, `JobMissing`, `JobNotRunning`, `NotOwner`.
    """
    with translated(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        last = _require_agent(connection, database, job_type)
        if last is None or last.outcome is not RunOutcome.RUNNING:
            raise JobNotRunning(job_type)
        _insert(connection, job_type, JobAction.STOP)
        _wait(connection, database, lambda: _has_ended(connection, last))


def take_requests(connection: Connection) -> dict[JobType, JobAction]:
    """Take all requests; of several for a job the last one counts."""
    columns = job_requests.c
    rows = connection.execute(delete(job_requests).returning(columns.request_id, columns.job_type, columns.action))
    return {JobType(row.job_type): JobAction(row.action) for row in sorted(rows, key=lambda row: row.request_id)}


def _require_agent(connection: Connection, database: str, job_type: JobType) -> HistoricRun | None:
    """Return the last run of a job that has an agent."""
    own_source(connection, database)
    require_complete(connection)
    require_job(connection, database, job_type)
    if find_holder(connection, AGENT) is None:
        raise AgentNotRunning(database)
    return find_last_run(connection, job_type)


def _insert(connection: Connection, job_type: JobType, action: JobAction) -> int:
    values = {"job_type": job_type.value, "action": action.value}
    statement = insert(job_requests).values(**values).returning(job_requests.c.request_id)
    return int(connection.execute(statement).scalar_one())


def _is_there(connection: Connection, request_id: int) -> bool:
    return connection.execute(select(job_requests.c.request_id).filter_by(request_id=request_id)).first() is not None


def _has_ended(connection: Connection, run: HistoricRun) -> bool:
    last = find_last_run(connection, run.job_type)
    return last is None or last.run_id != run.run_id or last.ended_at is not None


def _wait(connection: Connection, database: str, is_met: Callable[[], bool]) -> None:
    while not is_met():
        if find_holder(connection, AGENT) is None:
            raise AgentNotRunning(database)
        time.sleep(_PAUSE_S)
