"""Applies targets as something is published, or on their schedules, until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowtide.agents.runs import JobRun, OnRetry, RunOutcome, ignore, run_agent
from rowtide.agents.schedule import Schedule
from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.core.errors import RowtideError
from rowtide.events.catalogue import JobFailed, TargetApplied
from rowtide.events.emission import emit
from rowtide.lake.errors import SparkLost
from rowtide.log.errors import DatabaseCopied, DatabaseNotEnabled, LeaseHeld, LeaseLost
from rowtide.targets.api import Targets
from rowtide.targets.definitions import TableState, Target
from rowtide.targets.sets import SetVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
            # Another process applies to it now, or capture has not published anything yet.
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
