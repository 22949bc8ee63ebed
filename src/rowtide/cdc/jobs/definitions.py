"""The jobs' metadata in the source database: parameters, requests to start and stop them, history."""

from __future__ import annotations

import uuid
from dataclasses import fields
from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
    Executable,
    Identity,
    Integer,
    Table,
    Text,
    delete,
    exists,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from rowtide.cdc.access import READER_GRANTS
from rowtide.cdc.definitions import change_tables, find_missing, metadata, table_rules
from rowtide.cdc.jobs.parameters import DEFAULTS, JobParameters, JobType
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import create_tables

cdc_jobs = Table(
    "cdc_jobs",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("job_type", Text, nullable=False, unique=True),
    Column("job_name", Text, nullable=False),
    Column("maxtrans", Integer, comment="transactions per scan; null: no limit"),
    Column("maxscans", Integer, comment="scans per round; null: no limit"),
    Column("continuous", Boolean),
    Column("pollinginterval", BigInteger, comment="seconds between rounds; null: as needed"),
    Column("retention", BigInteger, comment="minutes"),
    Column("threshold", BigInteger, comment="SQL Server's; rows go with their files"),
    Column("schedule", Text, comment="as in a crontab; null: with the agent"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

job_requests = Table(
    "job_requests",
    metadata,
    Column("request_id", BigInteger, Identity(), primary_key=True),
    Column("job_type", Text, nullable=False),
    Column("action", Text, nullable=False, comment="start or stop"),
    Column("requested_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("requested_by", Text, nullable=False, server_default=func.current_user()),
)

job_history = Table(
    "job_history",
    metadata,
    Column("run_id", BigInteger, Identity(), primary_key=True),
    Column("job_type", Text, nullable=False),
    Column("started_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("ended_at", DateTime(timezone=True)),
    Column("outcome", Text, nullable=False),
    Column("retries", Integer, nullable=False, server_default="0"),
    Column("message", Text),
    Column("agent", Text, nullable=False, comment="the host and process that ran it"),
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


def first_table_steps(connection: Connection) -> list[Executable]:
    """Return the steps that create the jobs with the first table. Existing jobs are unchanged."""
    if _has_instances(connection):
        return []
    return [insert_step(job_type, DEFAULTS[job_type]).on_conflict_do_nothing() for job_type in JobType]


def complete(connection: Connection) -> None:
    """Create the tables of schema `cdc` that were dropped, and with theirs the jobs."""
    missing = find_missing(connection)
    had_none = cdc_jobs.name in missing
    create_tables(connection, metadata)
    for grant in READER_GRANTS if missing else ():
        connection.execute(grant)
    if had_none and _has_instances(connection):
        for job_type in JobType:
            connection.execute(insert_step(job_type, DEFAULTS[job_type]))


def last_table_steps(connection: Connection) -> list[Executable]:
    """Return the step that removes the jobs if no instance is left, and no rule for new tables.

    What is removed without a number may lack their tables.
    """
    missing = find_missing(connection)
    if cdc_jobs.name in missing:
        return []
    is_last = ~exists(select(change_tables.c.object_id))
    if table_rules.name not in missing:
        is_last &= ~exists(select(table_rules.c.rule_name))
    return [delete(cdc_jobs).where(is_last)]


def insert_step(job_type: JobType, parameters: JobParameters) -> Insert:
    """Return the statement that adds a job."""
    values = {name: getattr(parameters, name) for name in _PARAMETERS}
    job_name = func.concat("cdc.", func.current_database(), f"_{job_type}")
    return insert(cdc_jobs).values(job_id=str(uuid.uuid4()), job_type=job_type.value, job_name=job_name, **values)


def update_job(connection: Connection, job_type: JobType, parameters: JobParameters) -> None:
    """Set a job's parameters."""
    values = {name: getattr(parameters, name) for name in _PARAMETERS}
    connection.execute(update(cdc_jobs).where(cdc_jobs.c.job_type == job_type.value).values(**values))


def delete_job(connection: Connection, job_type: JobType) -> None:
    """Remove a job; its history stays."""
    connection.execute(delete(cdc_jobs).where(cdc_jobs.c.job_type == job_type.value))


def read_jobs(connection: Connection, *, for_update: bool = False) -> dict[JobType, Job]:
    """Return the jobs of the database, capture first."""
    columns = cdc_jobs.c
    parameters = [columns[name] for name in _PARAMETERS]
    query = select(columns.job_id, columns.job_type, columns.job_name, columns.created_at, *parameters)
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


def _has_instances(connection: Connection) -> bool:
    return bool(connection.execute(select(exists(select(change_tables.c.object_id)))).scalar_one())
