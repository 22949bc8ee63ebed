"""CDC of one database, as Python programs use it: `rowtide.connect(url).cdc`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Executable

from rowtide.cdc import administration
from rowtide.cdc.administration import EnabledDatabase
from rowtide.cdc.cleanup import Cleaned
from rowtide.cdc.definitions import Instance, list_catalogue
from rowtide.cdc.housekeeping import clean_up
from rowtide.cdc.instances import InstanceRequest
from rowtide.cdc.presentation import present, write_parquet
from rowtide.cdc.published import RecordedInstance
from rowtide.cdc.queries import Changes, ValidityInterval
from rowtide.cdc.reinitialize import Loss, find_loss, reinitialize
from rowtide.cdc.removal import empty_lake
from rowtide.cdc.retention import CleanupOrder
from rowtide.cdc.run import Watchers, run_capture
from rowtide.cdc.skipping import find_unreadable, skip_transaction
from rowtide.cdc.status import Status, read_status
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages
from rowtide.databases.postgres.catalogue import ImageCost
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.lake.session import build_session, pinned
from rowtide.log.catalogue import SourceDefinition, read_source
from rowtide.log.errors import ChangeUnreadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ChangeDataCapture:
    """Change data capture of one source database. What needs Spark takes `spark`; one is built where none is given."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = open_engine(url)
        self._name = self._engine.url.database or ""

    def source(self) -> SourceDefinition:
        """Return what enable_db made. Raises `DatabaseNotEnabled`."""
        with translated(), self._engine.connect() as connection:
            return read_source(connection, self._name)

    def enable_db(self, lake: str, log_store: str | None = None) -> EnabledDatabase:
        """Enable the database (SQL Server: sp_cdc_enable_db)."""
        return administration.enable_database(self._engine, lake, log_store)

    def disable_db(self, *, spark: SparkSession | None = None) -> None:
        """Disable the database and drop its change data (SQL Server: sp_cdc_disable_db)."""
        administration.disable_database(self._engine, self._name, lambda source: empty_lake(_session(spark), source))

    def enable_table(
        self,
        table: str,
        *,
        capture_instance: str | None = None,
        columns: tuple[str, ...] | None = None,
        refuses_truncate: bool = False,
        before_images: BeforeImages = BeforeImages.FULL,
    ) -> str:
        """Enable a table (SQL Server: sp_cdc_enable_table); return the capture instance's name.

        With `refuses_truncate` the server refuses to truncate it, as SQL Server does; else that is captured.
        `before_images` is what the log carries of a row before its change: the whole row, or its primary key.
        """
        request = InstanceRequest(capture_instance, columns, refuses_truncate, before_images)
        return administration.enable_table(self._engine, self._name, table, request)

    def plan_enable_table(
        self,
        table: str,
        *,
        capture_instance: str | None = None,
        columns: tuple[str, ...] | None = None,
        refuses_truncate: bool = False,
        before_images: BeforeImages = BeforeImages.FULL,
    ) -> Sequence[Executable]:
        """Return the statements that `enable_table` would run."""
        request = InstanceRequest(capture_instance, columns, refuses_truncate, before_images)
        return administration.plan_enable_table(self._engine, self._name, table, request)

    def find_image_cost(self, table: str) -> ImageCost | None:
        """Say what full before images cost where large values lie out of line, None where none do."""
        return administration.find_image_cost(self._engine, table)

    def disable_table(self, table: str, *, capture_instance: str | None = None) -> None:
        """Disable one instance of a table, or all of them (SQL Server: sp_cdc_disable_table)."""
        administration.disable_table(self._engine, self._name, table, capture_instance)

    def plan_disable_table(self, table: str, *, capture_instance: str | None = None) -> Sequence[Executable]:
        """Return the statements that `disable_table` would run."""
        return administration.plan_disable_table(self._engine, self._name, table, capture_instance)

    def list_instances(self) -> Sequence[tuple[Any, ...]]:
        """Return the catalogue's instances (SQL Server: sp_cdc_help_change_data_capture)."""
        with translated(), self._engine.connect() as connection:
            read_source(connection, self._name)
            return list_catalogue(connection)

    def status(self) -> Status:
        """Return how far reading and capture are, and what the server keeps for them; without Spark."""
        return read_status(self._engine, self._name)

    def run(
        self,
        *,
        once: bool = False,
        spark: SparkSession | None = None,
        stop: threading.Event | None = None,
        watchers: Watchers | None = None,
    ) -> None:
        """Read the log and capture, until `stop` is set, or once (SQL Server: the capture job, sp_cdc_scan)."""
        stop, watchers = stop or threading.Event(), watchers or Watchers()
        run_capture(self._url, _maker(spark), once=once, stop=stop, watchers=watchers)

    def instances(self, *, spark: SparkSession | None = None) -> tuple[RecordedInstance, ...]:
        """Return the enabled instances that capture has met."""
        return self._changes(spark).instances()

    def get_all_changes(
        self,
        capture_instance: str,
        from_lsn: CommitLsn | None = None,
        to_lsn: CommitLsn | None = None,
        row_filter_option: str = "all",
        *,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """Return every change in [from, to] (SQL Server: fn_cdc_get_all_changes_<instance>); see `queries.Changes`."""
        return self._changes(spark).get_all_changes(capture_instance, from_lsn, to_lsn, row_filter_option)

    def get_net_changes(
        self,
        capture_instance: str,
        from_lsn: CommitLsn | None = None,
        to_lsn: CommitLsn | None = None,
        row_filter_option: str = "all",
        *,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """Return one change per key (SQL Server: fn_cdc_get_net_changes_<instance>); see `queries.Changes`."""
        return self._changes(spark).get_net_changes(capture_instance, from_lsn, to_lsn, row_filter_option)

    def present_changes(
        self,
        capture_instance: str,
        from_lsn: CommitLsn | None = None,
        to_lsn: CommitLsn | None = None,
        row_filter_option: str = "all",
        *,
        net: bool = False,
        spark: SparkSession | None = None,
    ) -> tuple[list[str], Iterator[tuple[object, ...]]]:
        """Return all or net changes as column names and rows for programs outside Spark; see `presentation`."""
        return present(*self._ask(spark, capture_instance, from_lsn, to_lsn, row_filter_option, net=net))

    def write_parquet(
        self,
        file: Path,
        capture_instance: str,
        from_lsn: CommitLsn | None = None,
        to_lsn: CommitLsn | None = None,
        row_filter_option: str = "all",
        *,
        net: bool = False,
        spark: SparkSession | None = None,
    ) -> None:
        """Write all or net changes to one local Parquet file; see `presentation`."""
        write_parquet(*self._ask(spark, capture_instance, from_lsn, to_lsn, row_filter_option, net=net), file)

    def min_lsn(self, capture_instance: str, *, spark: SparkSession | None = None) -> CommitLsn:
        """Return an instance's low endpoint (SQL Server: fn_cdc_get_min_lsn)."""
        return self._changes(spark).min_lsn(capture_instance)

    def max_lsn(self, *, spark: SparkSession | None = None) -> CommitLsn | None:
        """Return the last published LSN (SQL Server: fn_cdc_get_max_lsn)."""
        return self._changes(spark).max_lsn()

    def validity_interval(self, capture_instance: str, *, spark: SparkSession | None = None) -> ValidityInterval:
        """Return the LSNs that may be asked of an instance."""
        return self._changes(spark).validity_interval(capture_instance)

    def cleanup(
        self,
        order: CleanupOrder | None = None,
        *,
        spark: SparkSession | None = None,
        on_progress: Callable[[str], None] = lambda _message: None,
    ) -> tuple[Cleaned, ...]:
        """Remove old change rows (SQL Server: sp_cdc_cleanup_change_table, the cleanup job); see `CleanupOrder`.

        Without an order: all instances, what is older than three days before the last captured commit. A running
        capture does it, or else this process.
        """
        return clean_up(self._engine, self._name, order or CleanupOrder(), _maker(spark), on_progress)

    def find_loss(self) -> Loss:
        """Say what `reinitialize` would give up."""
        return find_loss(self._engine, self._name)

    def reinitialize(self, reason: str) -> Loss:
        """Open the log's next epoch after a gap, and record the gap; return what was given up."""
        return reinitialize(self._engine, self._name, reason)

    def find_unreadable(self, lsn: CommitLsn) -> ChangeUnreadable:
        """Say why the transaction at an LSN, at which the log reader has stopped, cannot be read."""
        return find_unreadable(self._engine, self._url, lsn)

    def skip_transaction(self, lsn: CommitLsn) -> ChangeUnreadable:
        """Go on behind that transaction: ranges that contain it are refused from then on; see `skipping`."""
        return skip_transaction(self._engine, self._url, lsn)

    def _ask(
        self,
        spark: SparkSession | None,
        capture_instance: str,
        from_lsn: CommitLsn | None,
        to_lsn: CommitLsn | None,
        row_filter_option: str,
        *,
        net: bool,
    ) -> tuple[DataFrame, Instance]:
        changes = self._changes(spark)
        ask = changes.get_net_changes if net else changes.get_all_changes
        rows = ask(capture_instance, from_lsn, to_lsn, row_filter_option)
        return rows, changes.instance(capture_instance).instance

    def _changes(self, spark: SparkSession | None) -> Changes:
        return Changes(_session(spark), self.source().lake)


def _session(spark: SparkSession | None) -> SparkSession:
    return pinned(_maker(spark)())


def _maker(spark: SparkSession | None) -> Callable[[], SparkSession]:
    return build_session if spark is None else lambda: spark
