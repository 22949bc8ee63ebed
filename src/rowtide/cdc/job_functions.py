"""Jobs and scans of one database, as Python programs use them: a part of `rowtide.connect(url).cdc`."""

from __future__ import annotations

from datetime import timedelta

from rowtide.cdc.functions import ChangeFunctions
from rowtide.cdc.jobs import administration as job_administration, requests as job_requests
from rowtide.cdc.jobs.administration import ListedJob
from rowtide.cdc.jobs.history import HistoricRun
from rowtide.cdc.jobs.parameters import JobChange, JobParameters, JobType, NewJob
from rowtide.cdc.scans import tables as scan_tables
from rowtide.cdc.scans.sessions import ScanError, ScanSession
from rowtide.core.options import takes


class JobFunctions(ChangeFunctions):
    """Jobs by type, `capture` or `cleanup`. Calls raise `JobTypeUnknown`, and errors of `rowtide.errors`."""

    @takes(NewJob)
    def add_job(self, job: NewJob) -> None:
        """Add a job (SQL Server: sp_cdc_add_job); other parameters have rowtide's defaults, or SQL Server's.

        Raises `JobExists`, and errors of `rowtide.errors` that name the parameter that is refused.
        """
        kind, is_as_there = JobType.parse(job.job_type), job.sql_server_defaults
        job_administration.add_job(self._engine, self._name, kind, job.parameters, has_sql_server_defaults=is_as_there)

    @takes(JobChange)
    def change_job(self, change: JobChange) -> JobParameters:
        """Change a job and return its parameters (SQL Server: sp_cdc_change_job); parameters that are None stay.

        They take effect at the job's next start. Raises `JobMissing`, and as `add_job` for a parameter.
        """
        kind = JobType.parse(change.job_type)
        return job_administration.change_job(self._engine, self._name, kind, change.parameters)

    def drop_job(self, job_type: str) -> None:
        """Remove a job (SQL Server: sp_cdc_drop_job); an agent ends its run. Raises `JobMissing`."""
        job_administration.drop_job(self._engine, self._name, JobType.parse(job_type))

    def start_job(self, job_type: str) -> None:
        """Have the running agent start a job (SQL Server: sp_cdc_start_job).

        Raises `AgentNotRunning`, `JobMissing`, `JobRunning`.
        """
        job_requests.start_job(self._engine, self._name, JobType.parse(job_type))

    def stop_job(self, job_type: str) -> None:
        """Have the running agent stop a job, and wait for its end (SQL Server: sp_cdc_stop_job).

        Raises `AgentNotRunning`, `JobMissing`, `JobNotRunning`.
        """
        job_requests.stop_job(self._engine, self._name, JobType.parse(job_type))

    def list_jobs(self) -> tuple[ListedJob, ...]:
        """Return the jobs, capture first (SQL Server: sp_cdc_help_jobs)."""
        return job_administration.list_jobs(self._engine, self._name)

    def list_job_history(self, job_type: str | None = None) -> tuple[HistoricRun, ...]:
        """Return the runs of a job, or of both, the newest first (SQL Server: sp_help_jobhistory)."""
        kind = JobType.parse(job_type) if job_type is not None else None
        return job_administration.list_history(self._engine, self._name, kind)

    def read_retention(self) -> timedelta:
        """Return the retention of change rows: the cleanup job's, or three days."""
        return job_administration.read_retention(self._engine, self._name)

    def list_scan_sessions(self) -> tuple[ScanSession, ...]:
        """Return the last scans, their sum first, then the newest (SQL Server: sys.dm_cdc_log_scan_sessions)."""
        return scan_tables.list_sessions(self._engine, self._name)

    def list_scan_errors(self) -> tuple[ScanError, ...]:
        """Return the errors of the last scans, the newest first (SQL Server: sys.dm_cdc_errors)."""
        return scan_tables.list_errors(self._engine, self._name)
