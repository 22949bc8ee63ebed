"""The agent of one database: it runs the capture job and the cleanup job (SQL Server Agent, for CDC's two jobs).

Each job runs in a thread, so that an error of one does not end the other; they share one Spark. A process for each job,
as SQL Server Agent has it, would start a Spark of a gigabyte for each, and a lake has one writer at a time. Jobs are
started, stopped, changed and dropped through the database, which the agent reads every second, because such commands
come from other computers. Without a running agent a request is refused instead of being stored: nobody expects a stop
that is obeyed a week later.

Delivery is no job: it needs neither Spark nor the lake, may be divided over machines, and must not end with the JVM. A
fault of the JVM ends both jobs and the agent, which a service manager has to restart.

This module also defines the work of the two jobs' runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from rowtide.agents.loop import JobAction, JobRun, OnRetry, RunOutcome, decide, ignore, run_agent
from rowtide.agents.schedule import Schedule
from rowtide.cdc.access import own_source
from rowtide.cdc.capture.capture import CycleReport
from rowtide.cdc.cleanup.housekeeping import clean_up
from rowtide.cdc.definitions import list_enabled, require_complete
from rowtide.cdc.jobs import definitions as job_history
from rowtide.cdc.jobs.definitions import RETENTION_MINUTES, Job, JobType, read_jobs
from rowtide.cdc.jobs.requests import AGENT, take_requests
from rowtide.cdc.requests import CleanupOrder
from rowtide.cdc.running.capture_run import job_limits, run_capture
from rowtide.cdc.running.context import CaptureContext
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import parse_url
from rowtide.events.catalogue import JobEnded, JobFailed, JobStarted, RunsNotRecorded
from rowtide.events.event import emit, scope
from rowtide.lake.errors import SparkLost
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class SharedSpark:
    """One session for the threads of a process, built at first use."""

    make: Callable[[], SparkSession]
    lock: threading.Lock = field(default_factory=threading.Lock)
    made: SparkSession | None = None

    def get(self) -> SparkSession:
        """Return the session, built by the first call."""
        with self.lock:
            self.made = self.made or self.make()
            return self.made


def work_of(job_type: JobType, job: Job | None, context: CaptureContext, engine: Engine) -> Callable[[JobRun], str]:
    """Return the work of a job's run, which takes the job's parameters as they are now."""
    match job_type:
        case JobType.CAPTURE:
            return partial(_capture, context)
        case JobType.CLEANUP:
            retention = (job.parameters.retention if job is not None else None) or RETENTION_MINUTES
            return partial(_clean_up, context, engine, CleanupOrder(retention=timedelta(minutes=retention)))


def _capture(context: CaptureContext, run: JobRun) -> str:
    cycles: list[int] = []

    def on_cycle(report: CycleReport) -> None:
        cycles[:] = [cycles[0] if cycles else report.cycle, report.cycle]
        context.watchers.on_cycle(report)

    watchers = replace(context.watchers, on_cycle=on_cycle, on_retry=_retry_watcher(context, run))
    run_capture(replace(context, stop=run.stop, watchers=watchers, has_run=True), job_limits)
    return f"cycles {cycles[0]} to {cycles[1]}" if cycles else "nothing to capture"


def _clean_up(context: CaptureContext, engine: Engine, order: CleanupOrder, run: JobRun) -> str:
    cleaning = _Cleaning(context, engine, order, run)
    on_retry = _retry_watcher(context, run)
    run_agent(lambda: nullcontext(cleaning), stop=run.stop, idle_s=0, has_run=True, on_retry=on_retry)
    return cleaning.message


@dataclass(slots=True)
class _Cleaning:
    """An agent whose one step ends its run."""

    context: CaptureContext
    engine: Engine
    order: CleanupOrder
    run: JobRun
    message: str = "0 rows removed from 0 tables"

    def step(self) -> bool:
        notes: list[str] = []
        cleaned = clean_up(
            self.engine,
            parse_url(self.context.url).name,
            self.order,
            on_progress=lambda _progress: self.run.require_wanted(),
            on_note=notes.append,
        )
        removed = f"{sum(found.removed_rows for found in cleaned)} rows removed from {len(cleaned)} tables"
        self.message = "; ".join([removed, *notes])
        self.run.stop.set()
        return True


def _retry_watcher(context: CaptureContext, run: JobRun) -> OnRetry:
    def on_retry(error: RowtideError, pause_s: float) -> None:
        run.count_retry(error)
        context.watchers.on_retry(error, pause_s)

    return on_retry


POLL_S = 1.0
_LEASE_PATIENCE_S = 10.0


def run_jobs(
    context: CaptureContext,
    on_event: Callable[[str], None] = ignore,
    job_types: Collection[JobType] = tuple(JobType),
    on_step: Callable[[], None] = ignore,
    *,
    is_standby: bool = False,
) -> None:
    """Run jobs of a database until the run is stopped.

    `on_event` is called when a job begins and when it ends, `on_step` about every second: the agent's sign of life.

    Raises `LeaseHeld` where another agent runs them, which a standby waits for; `DatabaseNotEnabled`, `NotOwner`,
    `DefinitionsIncomplete`, `SparkLost`.
    """
    agent = JobAgent(context, on_event, job_types)
    try:
        run_agent(
            agent.open,
            stop=context.stop,
            idle_s=POLL_S,
            on_retry=context.watchers.on_retry,
            on_step=on_step,
            is_standby=is_standby,
        )
    finally:
        agent.end()


@dataclass(slots=True)
class _JobState:
    """The state of a job: its current run, when the last run began, whether the job existed at the last step."""

    run: JobRun | None = None
    run_id: int = 0
    recorded_retries: int = 0
    last_begun: datetime | None = None
    was_wanted: bool = False


class JobAgent:
    """The jobs' runs, which outlive a lost connection of the agent's own."""

    def __init__(
        self, context: CaptureContext, on_event: Callable[[str], None], job_types: Collection[JobType]
    ) -> None:
        self._context = replace(context, make_spark=SharedSpark(context.make_spark).get)
        self._engine = open_engine(context.url, application_name=f"rowtide agent on {describe_holder()}")
        self._on_event = on_event
        self._job_types = job_types
        self._jobs: dict[JobType, _JobState] = {}
        self._lease: AdvisoryLease | None = None
        self._lost: SparkLost | None = None

    @contextmanager
    def open(self) -> Iterator[JobAgent]:
        """Take the agent's lease."""
        with AdvisoryLease.take(self._engine, AGENT, patience_s=_LEASE_PATIENCE_S) as lease:
            self._lease = lease
            with translated():
                own_source(lease.connection, parse_url(self._context.url).name)
                require_complete(lease.connection)
                if not self._jobs:
                    self._begin(lease.connection)
            yield self

    def step(self) -> bool:
        """Process the jobs, their requests and their runs once. Raises `SparkLost`."""
        assert self._lease is not None
        # Verified before any decision, because another agent may run the jobs by now.
        self._lease.verify()
        connection = self._lease.connection
        with translated():
            requests = take_requests(connection)
            jobs = read_jobs(connection)
            # Without tables there are no jobs, but capture continues to read, or else the server would keep its log for
            # ever.
            reads_on = not list_enabled(connection)
            for job_type, state in self._jobs.items():
                job = jobs.get(job_type)
                is_wanted = job is not None or (job_type is JobType.CAPTURE and reads_on)
                requested = requests.get(job_type, JobAction.NOTHING)
                self._update(connection, job_type, job, requested, is_wanted=is_wanted)
                state.was_wanted = is_wanted
        if self._lost is not None:
            raise self._lost
        return False

    def end(self) -> None:
        """Stop all runs, wait for them, and record it."""
        running = [state.run for state in self._jobs.values() if state.run is not None]
        for run in running:
            # All are asked to end before the first is waited for.
            run.request_stop()
        for run in running:
            run.wait()
        try:
            with translated(), self._engine.begin() as connection:
                for job_type in self._jobs:
                    self._record(connection, job_type)
        except RowtideError as error:
            emit(RunsNotRecorded(error))

    def _begin(self, connection: Connection) -> None:
        """Take over from an agent that is gone: its runs are lost, requests to it are void."""
        job_history.record_lost(connection)
        take_requests(connection)
        for job_type in self._job_types:
            last = job_history.find_last_run(connection, job_type)
            self._jobs[job_type] = _JobState(last_begun=last.started_at if last is not None else None)

    def _update(
        self, connection: Connection, job_type: JobType, job: Job | None, requested: JobAction, *, is_wanted: bool
    ) -> None:
        self._record(connection, job_type)
        state = self._jobs[job_type]
        action = decide(
            is_running=state.run is not None,
            is_wanted=is_wanted,
            was_wanted=state.was_wanted,
            requested=requested,
            is_due=_find_due(job, state.last_begun, datetime.now(UTC)),
        )
        if action is JobAction.START:
            self._start(connection, job_type, job)
        elif action is JobAction.STOP and state.run is not None:
            state.run.request_stop()

    def _start(self, connection: Connection, job_type: JobType, job: Job | None) -> None:
        state = self._jobs[job_type]
        state.last_begun = datetime.now(UTC)
        state.recorded_retries = 0
        state.run_id = job_history.record_start(connection, job_type, describe_holder())
        state.run = JobRun(job_type, work_of(job_type, job, self._context, self._engine))
        with scope(job=job_type):
            emit(JobStarted())
        self._on_event(f"{job_type}: started")

    def _record(self, connection: Connection, job_type: JobType) -> None:
        """Record the outcome of a run."""
        state = self._jobs[job_type]
        run = state.run
        if run is None:
            return
        outcome = run.outcome
        if outcome is not RunOutcome.RUNNING:
            job_history.record_end(connection, state.run_id, outcome, run.retries, run.message)
            state.run = None
            with scope(job=job_type):
                emit(_ending_of(run))
            self._on_event(f"{job_type}: {outcome}{f', {run.message}' if run.message else ''}")
            if isinstance(run.error, SparkLost):
                # No job can continue in this process.
                self._lost = run.error
        elif run.retries > state.recorded_retries:
            job_history.record_retries(connection, state.run_id, run.retries, run.message)
            state.recorded_retries = run.retries


def _ending_of(run: JobRun) -> JobEnded | JobFailed:
    if run.error is not None:
        return JobFailed(run.retries, run.error)
    return JobEnded(run.outcome, run.retries, run.message)


def _find_due(job: Job | None, last_begun: datetime | None, now: datetime) -> bool | None:
    """Return whether a job is due: since its last run, or since it was added; None without a schedule."""
    if job is None or job.parameters.schedule is None:
        return None
    return Schedule(job.parameters.schedule).is_due(max(job.created_at, last_begun or job.created_at), now)
