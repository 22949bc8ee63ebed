"""CDC of one database, as Python programs use it: `rowtide.connect(url).cdc`."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from rowtide.cdc.consumers.consuming import Consuming
from rowtide.cdc.functions import SnapshotFunctions
from rowtide.cdc.requests import DatabaseToEnable, InstanceRequest, NewInstance, TablesRequest, TablesToEnable
from rowtide.cdc.scans.pace import USUAL, CaptureOptions
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import takes
from rowtide.core.redaction import hiding
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.urls import parse_url
from rowtide.events.event import scope
from rowtide.lake.session import build_session

# Modules that read changes are imported with this one; those that capture and administer with their first call.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rowtide.cdc.cleanup.cleanup import Cleaned
    from rowtide.cdc.enabling.administration import Disabling, EnabledDatabase
    from rowtide.cdc.enabling.table_rules import RuledTable, TableRule
    from rowtide.cdc.enabling.table_sets import TableOutcome
    from rowtide.cdc.gaps.reconciling import BridgedGap, OpenGap
    from rowtide.cdc.gaps.reinitialize import CaptureLoss
    from rowtide.cdc.requests import CleanupOrder
    from rowtide.cdc.running.context import CaptureContext, CaptureWatchers
    from rowtide.cdc.status import Status
    from rowtide.cdc.widening_removal import MendedTable
    from rowtide.databases.postgres.alterations import Alterations, Rehearsing
    from rowtide.databases.postgres.catalogue import ImageCost
    from rowtide.log.errors import TransactionUnreadable


class TableEnabling(ABC):
    """What is captured of one source database."""

    _name: str

    @abstractmethod
    def _altering(self) -> AbstractContextManager[Alterations]: ...

    @takes(NewInstance)
    def enable_table(self, instance: NewInstance) -> str:
        """Enable a table (SQL Server: sp_cdc_enable_table); return the capture instance's name.

        With `refuses_truncate` the server refuses to truncate the table,
        as SQL Server does; otherwise truncates are captured. Raises `TableNotFound`, `LockNotObtained`, and what
        refuses the instance's name, columns, index or role: errors of `rowtide.errors`.
        """
        from rowtide.cdc.enabling import administration

        with self._altering() as alterations:
            return administration.enable_table(alterations, self._name, instance.table, instance)

    def disable_table(self, table: str, *, capture_instance: str | None = None) -> None:
        """Disable one instance of a table, or all of them (SQL Server: sp_cdc_disable_table).

        Its change rows are removed. Raises `InstanceUnknown`, `LockNotObtained`.
        """
        from rowtide.cdc.enabling import administration

        with self._altering() as alterations:
            administration.disable_table(alterations, self._name, table, capture_instance)


class CaptureRehearsal(TableEnabling):
    """The same calls without effect, and `enable_db`; `statements` has what they would run."""

    def __init__(self, url: str) -> None:
        self.statements: list[str] = []
        self._engine = open_engine(url)
        self._name = parse_url(url).name

    @takes(DatabaseToEnable)
    def enable_db(self, database: DatabaseToEnable) -> None:
        """Rehearse enabling the database; no folder is made. Raises as that does."""
        from rowtide.cdc.enabling import administration

        with self._altering() as alterations:
            administration.rehearse_enabling(alterations, database.lake, database.log_store, database.widened)

    def _altering(self) -> AbstractContextManager[Rehearsing]:
        from rowtide.databases.postgres.alterations import rehearsing

        return rehearsing(self._engine, self.statements)


class ChangeDataCapture(TableEnabling, Consuming, SnapshotFunctions):
    """Change data capture of one database: its administration, jobs, snapshots, and the functions on its changes.

    Calls raise `DatabaseNotEnabled`, connection errors, and `NotOwner` where only the owner of what `enable_db` made
    may; those about an instance `InstanceUnknown` and, where they read change rows, `ReadingDenied`; about a job
    `JobTypeUnknown`; about a consumer `ConsumerUnknown`. What else a call raises is said with it.
    """

    def rehearsal(self) -> CaptureRehearsal:
        """Return what enables and disables without effect, to see what would be done."""
        return CaptureRehearsal(self._url)

    @takes(DatabaseToEnable)
    def enable_db(self, database: DatabaseToEnable) -> EnabledDatabase:
        """Enable the database (SQL Server: sp_cdc_enable_db).

        New folders are readable by this user only, with `for_group` also by their group. A repeat completes an
        interrupted call; it sets `widened`, also while capture runs. Raises `ServerIsStandby`, `WalLevelNotLogical`,
        `NoReplicationRight`, `LakeNested`, `LakeNotWritable`, `LeaseHeld`, `WidenedUnknown`.
        """
        from rowtide.cdc.enabling import administration

        return administration.enable_database(
            self._engine,
            database.lake,
            database.log_store,
            database.on_wait,
            for_group=database.for_group,
            widened=database.widened,
        )

    def find_disabling(self) -> Disabling:
        """Return what `disable_db` would remove. Raises `LogStillRead`."""
        from rowtide.cdc.enabling.administration import find_disabling

        return find_disabling(self._engine, self._name)

    def disable_db(self) -> Disabling:
        """Disable the database and drop its change data (SQL Server: sp_cdc_disable_db); return what was removed.

        In a copied database only the copied metadata is removed; nothing of the original changes. A repeat completes
        an interrupted call. Raises `LeaseHeld` while a process captures, `LogStillRead` while publications read the
        log.
        """
        from rowtide.cdc.enabling.administration import disable_database, empty_lake

        return disable_database(self._engine, self._name, empty_lake)

    @takes(TablesToEnable)
    def enable_tables(self, tables: TablesToEnable) -> tuple[TableOutcome, ...]:
        """Enable many tables by names and patterns such as `public.*`; return each table's outcome, by schema and name.

        `with_new_tables` also makes a rule: tables of these patterns that are created, renamed or moved later are
        enabled too, see `list_table_rules`; of `widened` they take the database's.

        Tables that are enabled already are skipped. A table that cannot be enabled has its `error`, and the others
        continue. Each table is locked so briefly that writers do not notice; tables in use are waited for up to
        `wait_s`. Raises `TableNotFound` for a name, `NoTableMatches`, `TablePatternInvalid`, with `with_new_tables`
        also `RuleWithoutPattern`, `RulePatternIncomplete`.
        """
        from rowtide.cdc.enabling import table_rules, table_sets

        chosen = table_sets.TableSet(
            tuple(tables.patterns), tuple(tables.excluding), may_be_empty=tables.with_new_tables
        )
        request = InstanceRequest(**tables.shared)
        if tables.with_new_tables:
            # First the rule, so that a table which is created meanwhile belongs to the rule or to the set.
            table_rules.make_rule(self._engine, self._name, chosen, request)
        return table_sets.enable_tables(self._engine, self._name, chosen, request, tables.wait_s, tables.on_progress)

    @takes(TablesRequest)
    def plan_tables(self, tables: TablesRequest) -> tuple[TableOutcome, ...]:
        """Return what `enable_tables` would do, and what full before images of each table cost; takes no locks.

        Raises as `enable_tables`.
        """
        from rowtide.cdc.enabling import table_sets

        chosen = table_sets.TableSet(tuple(tables.patterns), tuple(tables.excluding))
        return table_sets.plan_tables(self._engine, self._name, chosen, InstanceRequest(**tables.shared))

    def list_table_rules(self) -> tuple[TableRule, ...]:
        """Return the rules by which new tables are enabled, oldest first."""
        from rowtide.cdc.enabling.table_rules import find_rules

        return find_rules(self._engine, self._name)

    def list_ruled_tables(self, rule_name: str) -> tuple[RuledTable, ...]:
        """Return the tables that a rule has considered, by name, and why some could not be enabled.

        Raises `TableRuleUnknown`.
        """
        from rowtide.cdc.enabling.table_rules import find_considered

        return find_considered(self._engine, self._name, rule_name)

    def drop_table_rule(self, rule_name: str) -> None:
        """Drop a rule: it enables no new tables; those that it enabled stay enabled. Raises `TableRuleUnknown`."""
        from rowtide.cdc.enabling.table_rules import drop_rule

        drop_rule(self._engine, self._name, rule_name)

    def find_image_cost(self, table: str) -> ImageCost | None:
        """Describe what full before images cost for TOASTed values, None if no column can be TOASTed.

        Raises `TableNotFound`.
        """
        from rowtide.cdc.enabling import administration

        return administration.find_image_cost(self._engine, table)

    def find_child_tables(self, table: str) -> tuple[str, ...]:
        """Return the tables that inherit from one, whose rows are not captured with it. Raises `TableNotFound`."""
        from rowtide.cdc.enabling import administration

        return administration.find_child_tables(self._engine, table)

    def status(self) -> Status:
        """Return how far reading and capture are, and what WAL the server retains for them; without Spark.

        Raises `ManifestMissing` if the log store does not exist.
        """
        from rowtide.cdc.status import read_status

        return read_status(self._engine, self._name)

    def run(
        self,
        *,
        once: bool = False,
        options: CaptureOptions = USUAL,
        spark: SparkSession | None = None,
        stop: threading.Event | None = None,
        watchers: CaptureWatchers | None = None,
        hide_keys: bool = False,
    ) -> None:
        """Read the log and capture until `stop` is set, or once, within the capture job's present limits.

        (SQL Server: the capture job.) `spark` is used, or a session built, when a range is large, or all are Spark's.
        With `hide_keys`, `***` replaces rows' keys and values in what is stored, logged and raised. Raises `LeaseHeld`
        if another process captures, `SparkLost`, and every error that is not retryable.
        """
        from rowtide.cdc.running.capture_run import job_limits, one_poll_limits, run_capture

        with hiding(wanted=hide_keys), scope(parse_url(self._url).name, "capture"):
            run_capture(self._context(options, spark, stop, watchers), one_poll_limits if once else job_limits)

    def scan(
        self,
        *,
        maxtrans: int | None = None,
        maxscans: int | None = None,
        options: CaptureOptions = USUAL,
        spark: SparkSession | None = None,
        stop: threading.Event | None = None,
        watchers: CaptureWatchers | None = None,
        hide_keys: bool = False,
    ) -> None:
        """Read the log and capture in one poll of at most `maxscans` scans (SQL Server: sp_cdc_scan).

        It ends when everything committed before the call is published. The capture job's parameters are not used.
        `hide_keys` as for `run`.
        Raises `ScanRunning`, `MaxtransInvalid`, `MaxscansInvalid`, and what `run` raises.
        """
        from rowtide.cdc.running.capture_run import scan

        with hiding(wanted=hide_keys), scope(parse_url(self._url).name, "capture"):
            scan(self._context(options, spark, stop, watchers), maxtrans, maxscans)

    def _context(
        self,
        options: CaptureOptions,
        spark: SparkSession | None,
        stop: threading.Event | None,
        watchers: CaptureWatchers | None,
    ) -> CaptureContext:
        from rowtide.cdc.running.context import CaptureContext, CaptureWatchers, emitting

        stop = stop or threading.Event()
        return CaptureContext(self._url, _maker(spark), stop, emitting(watchers or CaptureWatchers()), options)

    def cleanup(
        self,
        order: CleanupOrder | None = None,
        *,
        on_progress: Callable[[str], None] = lambda _message: None,
        on_note: Callable[[str], None] = lambda _note: None,
    ) -> tuple[Cleaned, ...]:
        """Remove old change rows (SQL Server: sp_cdc_cleanup_change_table, the cleanup job); see `CleanupOrder`.

        Without an order: all instances, with the cleanup job's retention. A running capture does the work, otherwise
        this process. `on_note` is called with notes on the consumers for which it waits. Raises `LowWaterMarkUnknown`,
        `LowWaterMarkOutOfRange`, `CleanupImplausible`, `ConsumersBehind`; `CleanupIncomplete` if low endpoints moved,
        but rows below them remain.
        """
        from rowtide.cdc.cleanup.housekeeping import clean_up
        from rowtide.cdc.requests import CleanupOrder

        order = order or CleanupOrder(retention=self.read_retention())
        return clean_up(self._engine, self._name, order, on_progress, on_note)

    def mend(
        self,
        name: str,
        *,
        on_progress: Callable[[MendedTable], None] = lambda _mended: None,
        on_wait: Callable[[str], None] = lambda _holder: None,
    ) -> tuple[MendedTable, ...]:
        """Remove Delta's type widening from the tables of a capture instance, or of all instances of a table.

        Files with narrower types are rewritten, no row changes, and readers continue. A running capture does the work
        beside its cycles, and `on_wait` is called with its description; otherwise this process does it, and
        `on_progress` is called with the progress. A repeated call resumes what was interrupted. Raises `TableNotFound`,
        `MendingFailed`.
        """
        from rowtide.cdc.widening_removal import mend_tables

        return mend_tables(self._engine, self._name, name, on_progress, on_wait)

    def plan_mending(self, name: str) -> tuple[MendedTable, ...]:
        """Return what `mend` would do; reads the footers of the tables' files. Raises `TableNotFound`."""
        from rowtide.cdc.widening_removal import plan_mending

        return plan_mending(self._engine, self._name, name)

    def find_loss(self) -> CaptureLoss:
        """Return what `reinitialize` would lose. Raises `LogStillRead`."""
        from rowtide.cdc.gaps.reinitialize import find_loss

        return find_loss(self._engine, self._name)

    def reinitialize(self, reason: str, *, on_wait: Callable[[str], None] = lambda _whom: None) -> CaptureLoss:
        """Open the log's next epoch after a gap, and record the gap; return what was lost.

        Creating the slot waits for open transactions; `on_wait` is called with the one that it waits for. After a
        crash, repeat it. Raises `LeaseHeld` while a process captures, `LogStillRead` while publications read the log.
        """
        from rowtide.cdc.gaps.reinitialize import reinitialize

        return reinitialize(self._engine, self._name, reason, on_wait)

    def find_gap(self) -> OpenGap:
        """Return the gap that `bridge_gap` would reconcile. Raises as that, except `LeaseHeld`."""
        from rowtide.cdc.gaps.reconciling import find_gap

        return find_gap(self._engine, self._name)

    def bridge_gap(
        self,
        reason: str,
        *,
        restart: Collection[str] = (),
        spark: SparkSession | None = None,
        on_wait: Callable[[str], None] = lambda _whom: None,
    ) -> BridgedGap:
        """Open the log's next epoch after a gap with what the gap changed in the captured tables, as one transaction.

        Readers need not start again: ranges over the gap are complete. Instances without key or snapshot begin again
        after the gap if `restart` names them. `on_wait` and repeats as for `reinitialize`. Raises
        `DifferenceImpossible`, `LeaseHeld`, `HistoryDiverged`, `PublicationAltered`.
        """
        from rowtide.cdc.gaps.reconciling import reconcile

        return reconcile(self._engine, self._url, self._name, reason, _maker(spark), restart, on_wait)

    def find_unreadable(self, lsn: CommitLsn) -> TransactionUnreadable:
        """Return why the transaction at an LSN, at which the log reader has stopped, cannot be read.

        Raises `TransactionReadable` if it can, `TransactionUnreadable` for an earlier one, `LeaseHeld` while a process
        reads the log.
        """
        from rowtide.cdc.gaps.unreadable import find_unreadable

        return find_unreadable(self._engine, self._url, lsn)

    def skip_transaction(self, lsn: CommitLsn) -> TransactionUnreadable:
        """Continue after that transaction; ranges that contain it are refused from then on.

        Raises as `find_unreadable`.
        """
        from rowtide.cdc.gaps.unreadable import skip_transaction

        return skip_transaction(self._engine, self._url, lsn)

    def _altering(self) -> AbstractContextManager[Alterations]:
        from rowtide.databases.postgres.alterations import Committing

        return nullcontext(Committing(self._engine))


def _maker(spark: SparkSession | None) -> Callable[[], SparkSession]:
    return build_session if spark is None else lambda: spark
