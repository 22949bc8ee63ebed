"""Jobs, scans and snapshots of one database, as Python programs use them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rowtide.cdc.functions import ChangeFunctions
from rowtide.cdc.jobs import administration as job_administration, administration as job_requests
from rowtide.cdc.jobs.administration import ListedJob
from rowtide.cdc.jobs.definitions import HistoricRun
from rowtide.cdc.jobs.parameters import JobChange, JobParameters, JobType, NewJob
from rowtide.cdc.requests import RepeatedSnapshot
from rowtide.cdc.scans import tables as scan_tables
from rowtide.cdc.scans.metrics import ScanError, ScanSession
from rowtide.core.options import takes

if TYPE_CHECKING:
    from rowtide.cdc.snapshots.administration import ListedSnapshot


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


class SnapshotFunctions(JobFunctions):
    """Snapshots by the name of a capture instance, or of a table: then of all its instances.

    Calls raise `InstanceUnknown`, `NotOwner`, and the errors of `rowtide.cdc.errors.capturing`.
    """

    @takes(RepeatedSnapshot)
    def resnapshot(self, wanted: RepeatedSnapshot) -> tuple[str, ...]:
        """Request another snapshot, which the process that captures copies; return the instances.

        With `where`, an SQL condition, only such rows are copied, and replace those of the same keys. Raises
        `TableNotFound`, `SnapshotOpen`, `SnapshotNeedsKey`, `SnapshotConditionInvalid`, `SnapshotRateInvalid`.
        """
        from rowtide.cdc.snapshots import administration
        from rowtide.databases.postgres.alterations import Committing

        return administration.resnapshot(
            Committing(self._engine), self._name, wanted.name, wanted.where, wanted.rows_per_second
        )

    def list_snapshots(self) -> tuple[ListedSnapshot, ...]:
        """Return the snapshots that were requested of the present instances, and how far they are."""
        from rowtide.cdc.snapshots.administration import list_snapshots

        return list_snapshots(self._engine, self._name)

    def pause_snapshot(self, name: str) -> tuple[str, ...]:
        """Pause a snapshot that is not finished; without a key it begins again when it is resumed.

        Returns the instances, as the following do. Raises `TableNotFound`, `SnapshotNotOpen`.
        """
        from rowtide.cdc.snapshots.administration import pause

        return pause(self._engine, self._name, name, is_paused=True)

    def resume_snapshot(self, name: str) -> tuple[str, ...]:
        """Resume a snapshot that was paused. Raises as `pause_snapshot`."""
        from rowtide.cdc.snapshots.administration import pause

        return pause(self._engine, self._name, name, is_paused=False)

    def cancel_snapshot(self, name: str) -> tuple[str, ...]:
        """Cancel a snapshot that is not finished; its rows are removed from the lake. Raises as `pause_snapshot`."""
        from rowtide.cdc.snapshots.administration import cancel

        return cancel(self._engine, self._name, name)

    def limit_snapshot(self, name: str, rows_per_second: int | None) -> tuple[str, ...]:
        """Limit the copy's rows per second from now on; None: no limit.

        Raises as `pause_snapshot`, and `SnapshotRateInvalid`.
        """
        from rowtide.cdc.snapshots.administration import limit

        return limit(self._engine, self._name, name, rows_per_second)
