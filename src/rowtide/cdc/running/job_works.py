"""What the runs of the two jobs do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from rowtide.agents.runs import JobRun, work_off
from rowtide.cdc.capture.capture import CycleReport
from rowtide.cdc.cleanup.cleanup import Cleaned
from rowtide.cdc.cleanup.housekeeping import clean_up
from rowtide.cdc.cleanup.retention import CleanupOrder
from rowtide.cdc.jobs.definitions import Job
from rowtide.cdc.jobs.parameters import RETENTION_MINUTES, JobType
from rowtide.cdc.running.capture_run import Watchers, as_the_job_says, run_capture
from rowtide.core.errors import RowtideError
from rowtide.databases.urls import parse_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class _SharedSpark:
    """One session for the threads of a process: who is first has it built."""

    make: Callable[[], SparkSession]
    lock: threading.Lock = field(default_factory=threading.Lock)
    made: SparkSession | None = None

    def get(self) -> SparkSession:
        with self.lock:
            self.made = self.made or self.make()
            return self.made


class JobWorks:
    """The jobs' work on one database, with one Spark for both."""

    def __init__(self, url: str, engine: Engine, make_spark: Callable[[], SparkSession], watchers: Watchers) -> None:
        self._url = url
        self._engine = engine
        self._database = parse_url(url).name
        self._spark = _SharedSpark(make_spark)
        self._watchers = watchers

    def of(self, job_type: JobType, job: Job | None) -> Callable[[JobRun], str]:
        """Return the work of a run, which takes the job's parameters as they are now."""
        match job_type:
            case JobType.CAPTURE:
                return self._capture
            case JobType.CLEANUP:
                retention = (job.parameters.retention if job is not None else None) or RETENTION_MINUTES
                return lambda run: self._clean_up(run, timedelta(minutes=retention))

    def _capture(self, run: JobRun) -> str:
        cycles: list[int] = []

        def on_cycle(report: CycleReport) -> None:
            cycles[:] = [cycles[0] if cycles else report.cycle, report.cycle]
            self._watchers.on_cycle(report)

        run_capture(
            self._url,
            self._spark.get,
            stop=run.stop,
            watchers=Watchers(on_cycle, self._retry_watcher(run)),
            choose_limits=as_the_job_says,
            has_run=True,
        )
        return f"cycles {cycles[0]} to {cycles[1]}" if cycles else "nothing to capture"

    def _clean_up(self, run: JobRun, retention: timedelta) -> str:
        order = CleanupOrder(retention=retention)
        notes: list[str] = []

        def work() -> tuple[Cleaned, ...]:
            notes.clear()
            return clean_up(
                self._engine,
                self._database,
                order,
                self._spark.get,
                on_progress=lambda _progress: run.require_wanted(),
                on_note=notes.append,
            )

        cleaned = work_off(work, stop=run.stop, on_retry=self._retry_watcher(run)) or ()
        removed = f"{sum(found.removed_rows for found in cleaned)} rows removed from {len(cleaned)} tables"
        return "; ".join([removed, *notes])

    def _retry_watcher(self, run: JobRun) -> Callable[[RowtideError, float], None]:
        def on_retry(error: RowtideError, pause_s: float) -> None:
            run.count_retry(error)
            self._watchers.on_retry(error, pause_s)

        return on_retry
