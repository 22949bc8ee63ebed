"""Targets of one database, as Python programs use them: `rowtide.connect(url).targets`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from rowtide.agents.loop import JobRun, OnRetry, RunOutcome, ignore, run_agent
from rowtide.agents.schedule import Schedule
from rowtide.cdc.access import own_source, read_role_access
from rowtide.cdc.consumers import consumers
from rowtide.cdc.definitions import read_source, require_complete
from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.cdc.published import read_visible_publication
from rowtide.cdc.queries.lsn_times import LsnTimes
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.running.job_agent import SharedSpark
from rowtide.cdc.snapshot_requests import choose_instances
from rowtide.core.errors import RowtideError
from rowtide.core.formats import StoreFormat
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import takes
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import parse_url
from rowtide.events.catalogue import ColumnsNotFollowed, JobFailed, TargetApplied
from rowtide.events.event import emit
from rowtide.lake.errors import SparkLost
from rowtide.lake.session import build_session, for_reading
from rowtide.log.errors import DatabaseCopied, DatabaseNotEnabled, LeaseHeld, LeaseLost
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder
from rowtide.storage.places import absolute_lake
from rowtide.targets import definitions, hand_over, new_columns
from rowtide.targets.applying import SetApplier, SetTable, SetVersion
from rowtide.targets.columns import require_fitting
from rowtide.targets.custom import CustomSetApplier
from rowtide.targets.definitions import TableState, Target
from rowtide.targets.errors import TargetTableUnknown
from rowtide.targets.listing import ListedTarget, list_tables
from rowtide.targets.options import PYTHON, NewTarget
from rowtide.targets.table_format import Verify, table_format, without_lease
from rowtide.targets.tables import TableApplier, find_snapshot, open_table
from rowtide.targets.widening_removal import FoundTarget, MendedTarget, find_tables, mend_tables, plan_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


CONSIDERED_AFTER_S = 30.0
"""Seconds after which a blocker of an instance for new columns is checked again."""


class Targets:
    """Targets: sets of tables that follow capture instances, each set at one LSN."""

    def __init__(self, url: str) -> None:
        self._name = parse_url(url).name
        self._engine = open_engine(url, application_name=f"rowtide targets on {describe_holder()}")
        self._considered: dict[str, tuple[tuple[new_columns.NewColumns, ...], float, tuple[str, ...]]] = {}
        """For each target the new columns that were last considered, when, and what prevented their instance."""

    @takes(NewTarget)
    def add(self, target: NewTarget) -> None:
        """Define a target of some instances; `apply` makes its tables.

        Kinds: `current`, `history`, `python:module.Class`. It follows columns by default, but with truncate `keep` or a
        class. Cleanup waits for what it has not applied, for `limit_hours`.
        Raises `TargetExists`, `TargetInvalid`, `InstanceUnknown`, `NotOwner`, `DefinitionsIncomplete`.
        """
        name, kind, instances, options = target.name, target.kind, target.instances, target.options
        if options.path is not None:
            options = replace(options, path=absolute_lake(options.path))
        with translated(), self._owning() as connection:
            require_complete(connection)
            definitions.add_target(connection, name, instances, kind, options, target.limit_hours)
            if not kind.startswith(PYTHON):
                require_fitting(connection, name, kind, instances, options)

    def drop(self, name: str) -> None:
        """Remove a target: cleanup no longer waits for it; its tables stay. Raises `TargetUnknown`, `NotOwner`."""
        with translated(), self._owning() as connection:
            definitions.drop_target(connection, name)

    def list_targets(self) -> tuple[ListedTarget, ...]:
        """Return the tables of all targets, with their LSNs and lags; without Spark."""
        with translated(), self._engine.connect() as connection:
            return list_tables(connection, read_source(connection, self._name, StoreFormat.require_readable).lake)

    def make_spark(self, spark: SparkSession | None = None) -> SparkSession:
        """Return a session that writes the formats of all targets: of the given one's application, or a new one."""
        if spark is not None:
            return spark
        with translated(), self._engine.connect() as connection:
            lake = read_source(connection, self._name, StoreFormat.require_readable).lake
            found = definitions.list_targets(connection)
        places = [target.options.path for target in found if target.options.path is not None]
        formats = dict.fromkeys(target.options.format for target in found)
        libraries = [library for form in formats for library in table_format(form).libraries]
        return build_session(lakes=[lake, *places], formats=libraries)

    def list_definitions(self, name: str | None = None) -> tuple[Target, ...]:
        """Return one target as it is defined, or all. Raises `TargetUnknown`."""
        with translated(), self._engine.connect() as connection:
            read_source(connection, self._name, StoreFormat.require_readable)
            if name is not None:
                return (definitions.find_target(connection, name),)
            return definitions.list_targets(connection)

    def apply(self, name: str | None = None, *, spark: SparkSession | None = None) -> dict[str, SetVersion]:
        """Apply what is published to one target, or to all; return the new versions of those that had anything to do.

        Raises `TargetUnknown`, `LeaseHeld` and `LeaseLost` if another process applies to it, `ReadingDenied`, and
        errors after which a repeat may succeed. What stops one table is in its note.
        """
        # Locked, because the tables of a target request it concurrently.
        make_spark = SharedSpark(partial(self.make_spark, spark)).get
        wanted = self.list_definitions(name)
        applied = ((target.name, self.apply_target(target.name, make_spark)) for target in wanted)
        return {name: version for name, version in applied if version is not None}

    def apply_target(self, name: str, make_spark: Callable[[], SparkSession]) -> SetVersion | None:
        """Apply what is published to one target; see `apply`."""
        with AdvisoryLease.take(self._engine, f"target {name}") as lease:
            with translated(), self._engine.connect() as connection:
                lake = read_source(connection, self._name).lake
                target, reader = definitions.find_target(connection, name), read_role_access(connection)
            if read_visible_publication(lake) is None:
                # Capture has not run yet.
                return None
            for consumed in target.consumer.instances:
                if consumed.is_enabled:
                    reader.require(consumed.name)
            version = self._apply(target, lake, make_spark, lease.verifier())
            if reader.is_owner and target.options.follow_columns:
                # Its tables have applied their present instances up to here, so a hand-over skips nothing.
                changed = self._follow_columns(target, lake)
                if changed is not target:
                    version = self._apply(changed, lake, make_spark, lease.verifier()) or version
                new_columns.end_superseded(self._engine, self._name)
            return version

    def mend(
        self,
        name: str,
        *,
        spark: SparkSession | None = None,
        on_progress: Callable[[MendedTarget], None] = lambda _mended: None,
    ) -> tuple[MendedTarget, ...]:
        """Remove Delta's type widening from the tables that targets have of an instance, or of all instances of a
        table.

        Like `cdc.mend` for change table and base, also while changes are applied. `spark` is used, or a session built,
        if a catalogue has the tables. Raises `TableNotFound`, `NotOwner`, `TargetNotMended`.
        """
        return mend_tables(self._find_tables(name, spark), on_progress)

    def plan_mending(self, name: str, *, spark: SparkSession | None = None) -> tuple[MendedTarget, ...]:
        """Return what `mend` would do; reads the footers of the tables' files. Raises `TableNotFound`, `NotOwner`."""
        return plan_tables(self._find_tables(name, spark))

    def _apply(
        self, target: Target, lake: str, make_spark: Callable[[], SparkSession], verify: Verify
    ) -> SetVersion | None:
        """Apply to the tables of a target what is published."""
        with translated(), self._engine.connect() as connection:
            copied = definitions.list_copied(connection)
        version = _open_applier(lake, target, make_spark, verify, copied).apply()
        if version is not None:
            self._acknowledge(target, version, lake)
        return version

    def read_position(self, name: str, lsn: CommitLsn | None = None) -> SetVersion:
        """Return a set's LSN and the versions of its tables then: at its last apply, or the last one up to an LSN.

        Raises `TargetUnknown`.
        """
        return self._read_set(name, lsn)[2]

    def read(
        self, name: str, instance: str, lsn: CommitLsn | None = None, *, spark: SparkSession | None = None
    ) -> DataFrame:
        """Return the rows of a table of a set at the set's LSN, or at an earlier one that it was at.

        A table that was handed over is found by the name of each of its instances. Raises `TargetUnknown`,
        `TargetTableUnknown` also if the table has left the set.
        """
        lake, target, version = self._read_set(name, lsn)
        name_of = target.options.table_of
        by_name = {name_of(earlier): table for earlier, table in version.tables.items()}
        table = version.tables.get(instance) or by_name.get(name_of(instance))
        if table is None or table.version is None or table.state is not TableState.MEMBER:
            raise TargetTableUnknown(name, instance, str(lsn or version.lsn or "any LSN"))
        own = for_reading(self.make_spark(spark), lake)
        return open_table(own, target, table.capture_instance, without_lease).read(table.version)

    def _read_set(self, name: str, lsn: CommitLsn | None) -> tuple[str, Target, SetVersion]:
        with translated(), self._engine.connect() as connection:
            lake = read_source(connection, self._name).lake
            target = definitions.find_target(connection, name)
        return lake, target, SetTable(lake, target).read(lsn)

    def _find_tables(self, name: str, spark: SparkSession | None) -> Iterator[FoundTarget]:
        with translated(), self._owning() as connection:
            instances = [one.capture_instance for one in choose_instances(connection, name)]
            found = definitions.list_targets(connection)
        return find_tables(found, instances, SharedSpark(partial(self.make_spark, spark)).get)

    def _follow_columns(self, target: Target, lake: str) -> Target:
        """Update the tables to the present columns of the source's tables, and their names.

        Return the target with the newer instances to which its tables are handed over.
        """
        with translated(), self._engine.connect() as connection:
            new = new_columns.find_new_columns(connection, target)
            has_later = definitions.has_later(connection, target)
        changed = self._hand_over(target, lake) if has_later else target
        known, at, said = self._considered.get(target.name, ((), 0.0, ()))
        if new and changed is target and (new != known or time.monotonic() - at > CONSIDERED_AFTER_S):
            recorded = PublishedLake(lake).get_published_instances()[1]
            reasons = new_columns.make_instances(self._engine, self._name, lake, target, recorded)
            for reason in reasons if reasons != said else ():
                emit(ColumnsNotFollowed(target.name, str(reason)))
            self._considered[target.name] = new, time.monotonic(), reasons
        return changed

    def _hand_over(self, target: Target, lake: str) -> Target:
        """Hand tables over to newer instances that have more columns or their new names, where that is possible."""
        recorded, version = PublishedLake(lake).get_published_instances()[1], SetTable(lake, target).read()
        at = version.lsn
        if at is None:
            return target
        found = tuple(
            hand_over.find_hand_overs(
                target, recorded, at, lambda one: bool(find_snapshot(lake, one.instance.member_id, at))
            )
        )
        for change in found:
            table = version.tables.get(change.old.capture_instance)
            is_later = change.old.capture_instance in target.options.table_names
            if table is None or (is_later and table.snapshot == 0 and not target.is_custom):
                # Its last hand-over is not applied yet.
                continue
            with translated(), self._owning() as connection:
                old, names = change.old.capture_instance, target.consumer.instance_names
                options = hand_over.translate(target.options, change, [name for name in names if name != old])
                definitions.hand_over(connection, target, old, change.new, options)
                target = definitions.find_target(connection, target.name)
        return target

    def _acknowledge(self, target: Target, version: SetVersion, lake: str) -> None:
        """Acknowledge the LSN that every table has, for cleanup."""
        lsns = [table.lsn for table in version.tables.values()]
        known = target.consumer.acknowledged_lsn
        if None in lsns or len(lsns) < len(target.consumer.instances):
            return
        least = min(lsn for lsn in lsns if lsn is not None)
        if known is not None and least <= known:
            return
        committed_at = version.time if least == version.lsn else LsnTimes(lake).find_time(least)
        with translated(), self._engine.begin() as connection:
            consumers.acknowledge(connection, target.consumer, least, committed_at)

    @contextmanager
    def _owning(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            own_source(connection, self._name)
            yield connection


def _open_applier(
    lake: str, target: Target, make_spark: Callable[[], SparkSession], verify: Verify, copied: Collection[str]
) -> SetApplier | CustomSetApplier:
    if target.is_custom:
        return CustomSetApplier(lake, target, make_spark, verify)
    return SetApplier(lake, target, TableApplier(lake, target, make_spark, verify).apply, verify, copied)


POLL_S = 0.5


def describe_version(target: str, version: SetVersion) -> str:
    """Return what an apply has done, in a line."""
    stopped = [table for table in version.tables.values() if table.state is TableState.STOPPED]
    noted = "".join(f"; {table.capture_instance} has stopped: {table.note}" for table in stopped)
    members = len(version.tables) - len(stopped)
    return f"target {target}: {members} {'table' if members == 1 else 'tables'} at LSN {version.lsn}{noted}"


def _applied(target: str, version: SetVersion) -> TargetApplied:
    stopped = [table for table in version.tables.values() if table.state is TableState.STOPPED]
    notes = "; ".join(f"{table.capture_instance} has stopped: {table.note}" for table in stopped)
    names = tuple(table.capture_instance for table in stopped)
    return TargetApplied(target, version.lsn, len(version.tables) - len(stopped), names, notes)


@dataclass(slots=True)
class TargetsAgent:
    """Applies one target, or all, each time something is published or its schedule says so."""

    targets: Targets
    name: str | None
    make_spark: Callable[[], SparkSession]
    on_event: Callable[[str], None] = ignore
    _reported: dict[str, str] = field(default_factory=dict)
    """The last event of each target: a table that is still stopped is not reported again and again."""

    def step(self) -> bool:
        """Apply each target that is due; return whether any had anything to do."""
        worked = [self._apply(target) for target in self.targets.list_definitions(self.name)]
        return any(worked)

    def _apply(self, target: Target) -> bool:
        if not self._is_due(target):
            return False
        try:
            version = self.targets.apply_target(target.name, self.make_spark)
        except (LeaseHeld, LeaseLost, LakeUnknown):
            # Another process is applying to it, or capture has not published anything yet.
            return False
        if version is not None:
            event = describe_version(target.name, version)
            if self._reported.get(target.name) != event:
                emit(_applied(target.name, version))
                self.on_event(event)
            self._reported[target.name] = event
        return version is not None

    def _is_due(self, target: Target) -> bool:
        """Return whether a target is due; by hand it always is."""
        schedule = target.options.schedule
        if schedule is None or self.name is not None:
            return True
        last = self.targets.read_position(target.name).recorded_at or target.created_at
        return Schedule(schedule).is_due(last, datetime.now(UTC))


def run_targets(
    agent: TargetsAgent, stop: threading.Event, on_retry: OnRetry = ignore, *, has_run: bool = False
) -> None:
    """Apply targets until `stop` is set. Raises errors that need a decision."""
    run_agent(lambda: nullcontext(agent), stop=stop, idle_s=POLL_S, has_run=has_run, on_retry=on_retry)


@contextmanager
def targets_beside(agent: TargetsAgent, stop: threading.Event, on_retry: OnRetry = ignore) -> Iterator[None]:
    """Apply targets in a thread during the block; what ends the thread is reported as an event.

    If Spark is lost, `stop` is set, which ends the block, and `SparkLost` raised.
    """

    def work(run: JobRun) -> str:
        try:
            run_targets(agent, run.stop, on_retry, has_run=True)
        except (DatabaseCopied, DatabaseNotEnabled):
            # The block says so.
            return ""
        except SparkLost:
            stop.set()
            raise
        except RowtideError as error:
            emit(JobFailed(run.retries, error))
            agent.on_event(f"targets: {RunOutcome.FAILED}, {error}")
            raise
        return ""

    run = JobRun("targets", work)
    try:
        yield
    finally:
        run.request_stop()
        run.wait()
    if isinstance(run.error, SparkLost):
        raise run.error
