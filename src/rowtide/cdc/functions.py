"""CDC's functions on one database for Python programs: changes by LSN or time, masks, introspection, jobs and scans.

They connect to the database first, which has the lake's place and the rights of the connection's role.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rowtide.cdc import change_columns, introspection
from rowtide.cdc.access import read_role_access
from rowtide.cdc.definitions import read_source
from rowtide.cdc.errors.querying import InstanceNotReadable, WrapperListsNeedInstance
from rowtide.cdc.introspection import ListedColumn, ListedInstance, name_instances
from rowtide.cdc.jobs import administration as job_administration, requests as job_requests
from rowtide.cdc.jobs.administration import ListedJob
from rowtide.cdc.jobs.definitions import HistoricRun, JobChange, JobParameters, JobType, NewJob
from rowtide.cdc.lake_functions import LakeFunctions
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.lake_readers.presentation import ArrowChanges
from rowtide.cdc.published import RecordedInstance
from rowtide.cdc.queries.lsn_times import Bound, LsnTimes
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.queries.wrapper_functions import WrapperFunction, WrapperRequest, generate_wrappers
from rowtide.cdc.requests import RepeatedSnapshot
from rowtide.cdc.scans import metrics as scan_tables
from rowtide.cdc.scans.metrics import ScanError, ScanSession
from rowtide.cdc.spark_changes import Changes
from rowtide.core.formats import StoreFormat
from rowtide.core.options import takes
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.lake.session import build_session, for_reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rowtide.cdc.snapshot_requests import ListedSnapshot


class ChangeFunctions(LakeFunctions):
    """Queries for a database's changes. Those that return change rows take `spark`; without it they build a session.

    Calls raise `DatabaseNotEnabled`; those about an instance `InstanceUnknown` and `ReadingDenied`.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._engine = open_engine(url)

    def get_all_changes(
        self,
        capture_instance: str,
        from_lsn: Bound | None = None,
        to_lsn: Bound | None = None,
        row_filter_option: str = "all",
        *,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """Return every change in [from, to] (SQL Server: fn_cdc_get_all_changes_<instance>); see `Changes`.

        A window by time is (from, to]. Raises `TimeOutOfRange` too.
        """
        lake = self._readable_lake(capture_instance)
        window = LsnTimes(lake).find_window(capture_instance, from_lsn, to_lsn)
        return Changes(session(spark, lake), lake).get_all_changes(capture_instance, *window, row_filter_option)

    def get_net_changes(
        self,
        capture_instance: str,
        from_lsn: Bound | None = None,
        to_lsn: Bound | None = None,
        row_filter_option: str = "all",
        *,
        is_ordered: bool = False,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """Return one change per key (SQL Server: fn_cdc_get_net_changes_<instance>); see `Changes`."""
        lake = self._readable_lake(capture_instance)
        window = LsnTimes(lake).find_window(capture_instance, from_lsn, to_lsn)
        changes = Changes(session(spark, lake), lake)
        return changes.get_net_changes(capture_instance, *window, row_filter_option, is_ordered=is_ordered)

    def get_table_as_of(
        self, capture_instance: str, at: Bound | None = None, *, spark: SparkSession | None = None
    ) -> DataFrame:
        """Return the rows of a table as of an LSN or a time, by default the last published LSN; see `Changes`.

        A time stands for the last transaction up to it. Raises `TimeOutOfRange` too.
        """
        lake = self._readable_lake(capture_instance)
        _, lsn = LsnTimes(lake).find_window(capture_instance, None, at)
        return Changes(session(spark, lake), lake).get_table_as_of(capture_instance, lsn)

    def get_table_changes(
        self,
        table: str,
        from_lsn: Bound | None = None,
        to_lsn: Bound | None = None,
        row_filter_option: str = "all",
        *,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """Return every change of a table in [from, to] over both of its instances.

        The older instance's changes up to the low endpoint of the newer, then the newer's. As `get_all_changes`, with
        the columns of both, and last `__$capture_instance`. Raises `TableNotFound`, and `InstanceUnknown` without any.
        """
        lake, names = self._readable_table(table)
        window = LsnTimes(lake).find_window(names[0], from_lsn, to_lsn)
        return Changes(session(spark, lake), lake).get_table_changes(names, *window, row_filter_option)[0]

    def stream_table_changes(
        self,
        table: str,
        from_lsn: Bound | None = None,
        to_lsn: Bound | None = None,
        row_filter_option: str = "all",
    ) -> ArrowChanges:
        """Return the changes of `get_table_changes` in their order as Arrow, without Spark."""
        lake, names = self._readable_table(table)
        return Lake(lake).get_table_changes(names, from_lsn, to_lsn, row_filter_option)

    def list_recorded_instances(self) -> tuple[RecordedInstance, ...]:
        """Return the enabled instances that capture has read and the connection's role may read."""
        with translated(), self._engine.connect() as connection:
            lake, reader = (
                read_source(connection, self._name, StoreFormat.require_readable).lake,
                read_role_access(connection),
            )
        recorded = PublishedLake(lake).list_recorded_instances()
        return tuple(one for one in recorded if reader.may_read(one.instance.capture_instance))

    def get_column_ordinal(self, capture_instance: str, column_name: str) -> int | None:
        """Return a column's bit in masks, None if there is none (SQL Server: fn_cdc_get_column_ordinal)."""
        try:
            columns = self.get_captured_columns(capture_instance)
        except InstanceNotReadable:
            return None
        return next((column.column_ordinal for column in columns if column.column_name == column_name), None)

    def has_column_changed(self, capture_instance: str, column_name: str, update_mask: bytes | None) -> bool:
        """Return whether a mask has a column's bit (SQL Server: fn_cdc_has_column_changed); queries the database each
        time.

        For many masks: `get_column_ordinal` once, then `is_bit_set`.
        """
        return self.is_bit_set(self.get_column_ordinal(capture_instance, column_name), update_mask)

    @staticmethod
    def is_bit_set(position: int | None, update_mask: bytes | None) -> bool:
        """Return whether a mask has a bit, counted from 1 (SQL Server: fn_cdc_is_bit_set); no bit is set in None."""
        return position is not None and update_mask is not None and change_columns.is_bit_set(position, update_mask)

    def list_instances(
        self, source_schema: str | None = None, source_name: str | None = None, *, with_start_lsn: bool = False
    ) -> tuple[ListedInstance, ...]:
        """Return the instances, or a table's (SQL Server: sp_cdc_help_change_data_capture).

        Oldest first. `with_start_lsn` reads the lake too: `start_lsn` is known once capture has read the instance.
        Raises `TableNameIncomplete` if only one of schema and name is given.
        """
        recorded = self.list_recorded_instances() if with_start_lsn else ()
        lows = {one.instance.capture_instance: one.lsn for one in recorded}
        with translated(), self._engine.connect() as connection:
            read_source(connection, self._name, StoreFormat.require_readable)
            return introspection.list_instances(connection, source_schema, source_name, lows)

    def get_captured_columns(self, capture_instance: str) -> tuple[ListedColumn, ...]:
        """Return an instance's columns by ordinal (SQL Server: sp_cdc_get_captured_columns).

        Raises `InstanceNotReadable`.
        """
        with translated(), self._engine.connect() as connection:
            read_source(connection, self._name, StoreFormat.require_readable)
            return introspection.list_columns(connection, capture_instance)

    def generate_wrapper(
        self,
        capture_instance: str | None = None,
        *,
        closed_high_end_point: bool = True,
        column_list: tuple[str, ...] | None = None,
        update_flag_list: tuple[str, ...] | None = None,
    ) -> tuple[WrapperFunction, ...]:
        """Return scripts of functions by time (SQL Server: sp_cdc_generate_wrapper_function).

        For one instance, or for all that capture has read. Raises `WrapperListsNeedInstance`, `WrapperColumnUnknown`,
        `WrapperFlagUnknown`.
        """
        request = WrapperRequest(closed_high_end_point, column_list, update_flag_list)
        if capture_instance is None:
            if (column_list, update_flag_list) != (None, None):
                raise WrapperListsNeedInstance
            wanted = self.list_recorded_instances()
        else:
            lake = self._readable_lake(capture_instance)
            wanted = (PublishedLake(lake).get_recorded_instance(capture_instance),)
        return tuple(function for one in wanted for function in generate_wrappers(one.instance, request))

    def _readable_table(self, table: str) -> tuple[str, list[str]]:
        """Return the lake's place, and the names of a table's instances, oldest first, which may be read."""
        with translated(), self._engine.connect() as connection:
            lake, reader = (
                read_source(connection, self._name, StoreFormat.require_readable).lake,
                read_role_access(connection),
            )
            names = name_instances(connection, table)
        for name in names:
            reader.require(name)
        return lake, list(names)


def session(spark: SparkSession | None, *lakes: str) -> SparkSession:
    """Return a Spark session with rowtide's settings: of the given one's application, or a new one, to read lakes."""
    return for_reading(spark if spark is not None else build_session(lakes=lakes), *lakes)


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
        from rowtide.cdc import snapshot_requests
        from rowtide.databases.postgres.alterations import Committing

        return snapshot_requests.resnapshot(
            Committing(self._engine), self._name, wanted.name, wanted.where, wanted.rows_per_second
        )

    def list_snapshots(self) -> tuple[ListedSnapshot, ...]:
        """Return the snapshots that were requested of the present instances, and how far they are."""
        from rowtide.cdc.snapshot_requests import list_snapshots

        return list_snapshots(self._engine, self._name)

    def pause_snapshot(self, name: str) -> tuple[str, ...]:
        """Pause a snapshot that is not finished; without a key it begins again when it is resumed.

        Returns the instances, as the following do. Raises `TableNotFound`, `SnapshotNotOpen`.
        """
        from rowtide.cdc.snapshot_requests import pause

        return pause(self._engine, self._name, name, is_paused=True)

    def resume_snapshot(self, name: str) -> tuple[str, ...]:
        """Resume a snapshot that was paused. Raises as `pause_snapshot`."""
        from rowtide.cdc.snapshot_requests import pause

        return pause(self._engine, self._name, name, is_paused=False)

    def cancel_snapshot(self, name: str) -> tuple[str, ...]:
        """Cancel a snapshot that is not finished; its rows are removed from the lake. Raises as `pause_snapshot`."""
        from rowtide.cdc.snapshot_requests import cancel

        return cancel(self._engine, self._name, name)

    def limit_snapshot(self, name: str, rows_per_second: int | None) -> tuple[str, ...]:
        """Limit the copy's rows per second from now on; None: no limit.

        Raises as `pause_snapshot`, and `SnapshotRateInvalid`.
        """
        from rowtide.cdc.snapshot_requests import limit

        return limit(self._engine, self._name, name, rows_per_second)
