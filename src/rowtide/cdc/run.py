"""Running capture: the lake lease, the log reader's process, and capture's loop (SQL Server: the capture job)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from rowtide.agents.log_reader import LogReaderProcess
from rowtide.agents.loop import Agent, run_agent
from rowtide.cdc.capture import Capture, CycleReport
from rowtide.cdc.definitions import require_complete
from rowtide.cdc.housekeeping import Housekeeping
from rowtide.cdc.job_administration import read_parameters
from rowtide.cdc.jobs import JobParameters, JobType
from rowtide.cdc.lake_lease import LAKE, LakeLease
from rowtide.cdc.ledger import Ledger
from rowtide.cdc.scan_pace import LONGEST_REST_S, Pace, Scan, ScanLimits
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.lake.session import pinned, spark_watched
from rowtide.log.catalogue import SourceDefinition, read_source
from rowtide.log.manifest import Manifest
from rowtide.log.postgres import slot
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder
from rowtide.log.postgres.membership import mark_log
from rowtide.log.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONCE_PREFIX = "rowtide.once"
IDLE_S = 0.1
_LEASE_PATIENCE_S = 2.0

ChooseLimits = Callable[[ScanLimits], ScanLimits]
"""From the capture job's limits to those of a run."""


@dataclass(frozen=True, slots=True)
class Watchers:
    """Who is told what happens: each cycle, and each retry with its pause in seconds."""

    on_cycle: Callable[[CycleReport], None] = lambda _report: None
    on_retry: Callable[[RowtideError, float], None] = lambda _error, _pause_s: None


def run_capture(
    url: str,
    make_spark: Callable[[], SparkSession],
    *,
    stop: threading.Event,
    watchers: Watchers,
    choose_limits: ChooseLimits,
    has_run: bool = False,
) -> None:
    """Read the log and capture until `stop` is set; see `ScanLimits` for when it ends by itself.

    `choose_limits` is given the capture job's, read when the run begins. Where what it returns is not continuous, all
    that was committed before is published at the end, unless `maxscans` ends it earlier. `has_run`: outages are waited
    out from the beginning.
    Raises `LeaseHeld` when another process captures, `SparkLost`, and every error that needs a decision.
    """
    run = _Run(url, make_spark, stop, watchers, choose_limits, has_run=has_run)
    with spark_watched():
        run_agent(run.open, stop=stop, idle_s=IDLE_S, has_run=has_run, on_retry=watchers.on_retry)


def as_the_job_says(of_job: ScanLimits) -> ScanLimits:
    """Return the limits of a run of the capture job."""
    return of_job


def all_at_once(of_job: ScanLimits) -> ScanLimits:
    """Return the limits of a run that ends when all that was committed before is published."""
    return ScanLimits(maxtrans=of_job.maxtrans, is_continuous=False)


class _Run:
    """What a run of capture keeps, however often its agent is opened."""

    def __init__(
        self,
        url: str,
        make_spark: Callable[[], SparkSession],
        stop: threading.Event,
        watchers: Watchers,
        choose_limits: ChooseLimits,
        *,
        has_run: bool,
    ) -> None:
        self._has_run = has_run
        self._url = url
        self._engine = open_engine(url, application_name=f"rowtide capture on {describe_holder()}")
        self._make_spark = make_spark
        self._stop = stop
        self._watchers = watchers
        self._choose_limits = choose_limits
        self._spark: SparkSession | None = None
        self._begun: tuple[ScanLimits, Pace] | None = None

    @contextmanager
    def open(self) -> Iterator[Agent]:
        self._begun = limits, pace = self._begun or self._begin()
        with ExitStack() as stack:
            lease = stack.enter_context(AdvisoryLease.take(self._engine, LAKE, patience_s=_LEASE_PATIENCE_S))
            source = _verify_source(self._engine, self._url)
            has_run = self._has_run or self._spark is not None
            reader = stack.enter_context(LogReaderProcess(self._url, self._watchers.on_retry, has_run=has_run))
            self._spark = self._spark or pinned(self._make_spark())
            capture, housekeeping = _open_capture(self._spark, source, lease, self._watchers, limits)
            yield _Supervisor(capture, housekeeping, reader, self._stop, pace)

    def _begin(self) -> tuple[ScanLimits, Pace]:
        """Return the limits and the pace; who ends by himself does so behind all that is committed now."""
        with translated(), self._engine.begin() as connection:
            read_source(connection, self._url)
            limits = self._choose_limits(_limits_of(read_parameters(connection, JobType.CAPTURE)))
            return limits, Pace(limits, None if limits.is_continuous else mark_log(connection, ONCE_PREFIX))


class _Supervisor:
    """Capture's scans as they are due, housekeeping between them, while the log reader is kept running."""

    def __init__(
        self,
        capture: Capture,
        housekeeping: Housekeeping,
        reader: LogReaderProcess,
        stop: threading.Event,
        pace: Pace,
    ) -> None:
        self._capture = capture
        self._housekeeping = housekeeping
        self._reader = reader
        self._stop = stop
        self._pace = pace
        self._next_scan = 0.0

    def step(self) -> bool:
        self._reader.keep_running()
        has_scanned = time.monotonic() >= self._next_scan and self._scan()
        has_kept_house = self._housekeeping.step()
        if has_scanned:
            self._stop.wait(min(max(self._next_scan - time.monotonic(), 0), LONGEST_REST_S))
        return has_scanned or has_kept_house

    def _scan(self) -> bool:
        begun = time.monotonic()
        worked = self._capture.step()
        ended = time.monotonic()
        scan = Scan(worked, worked and self._capture.is_behind, self._capture.position.log, ended - begun)
        self._next_scan = ended + self._pace.pause_after(scan)
        if self._pace.is_over:
            self._stop.set()
        return worked


def _open_capture(
    spark: SparkSession, source: SourceDefinition, lease: AdvisoryLease, watchers: Watchers, limits: ScanLimits
) -> tuple[Capture, Housekeeping]:
    """Return capture, and what is to be done between its cycles."""
    store = open_store(source.log_store)
    held = LakeLease.take(store, lease)
    ledger = Ledger(spark, source.lake, source.source_id)
    capture = Capture(ledger, store, held, maxtrans=limits.maxtrans, on_cycle=watchers.on_cycle)
    return capture, Housekeeping.over(lease.connection, ledger, held)


def _verify_source(engine: Engine, url: str) -> SourceDefinition:
    """Return the definition; raise what the log reader would only find out in its own process."""
    with translated(), engine.connect() as connection:
        source = read_source(connection, url)
        require_complete(connection)
        manifest = Manifest(open_store(source.log_store))
        manifest.load()
        slot.verify_slot(connection, source.slot, manifest.state.position.log)
        slot.verify_publication(connection, source)
    return source


def _limits_of(parameters: JobParameters) -> ScanLimits:
    return ScanLimits(
        parameters.maxtrans,
        parameters.maxscans,
        parameters.pollinginterval,
        is_continuous=parameters.continuous is not False,
    )
