"""What the runs of the two jobs do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from rowtide.agents.loop import OnRetry, run_agent
from rowtide.agents.runs import JobRun
from rowtide.cdc.capture.capture import CycleReport
from rowtide.cdc.cleanup.housekeeping import clean_up
from rowtide.cdc.cleanup.retention import CleanupOrder
from rowtide.cdc.jobs.definitions import Job
from rowtide.cdc.jobs.parameters import RETENTION_MINUTES, JobType
from rowtide.cdc.running.capture_run import as_the_job_says, run_capture
from rowtide.cdc.running.context import CaptureContext, Watchers
from rowtide.core.errors import RowtideError
from rowtide.databases.urls import parse_url

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

    watchers = Watchers(on_cycle, _retry_watcher(context, run), context.watchers.on_snapshot)
    run_capture(replace(context, stop=run.stop, watchers=watchers, has_run=True), as_the_job_says)
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
