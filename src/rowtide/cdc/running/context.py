"""The context of a run of capture or of the jobs, created at its start and passed as a whole; and the reports of a run.

A new option of a run is a field here. An agent within the run gets the context with its own `stop` and watchers, by
`dataclasses.replace`. `Capture` and `SnapshotRunner` get the values that they need, not the context; a value that only
one function needs is an argument of that function.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine

from rowtide.agents.runs import OnRetry, ignore
from rowtide.cdc.capture.capture import Capture, CycleReport
from rowtide.cdc.ddl.retyping import WidenedTable
from rowtide.cdc.scans.metrics import ScanMetrics, ScanPhase, ScanWriter
from rowtide.cdc.scans.pace import USUAL, CaptureOptions
from rowtide.cdc.snapshots.table_copy import SnapshotProgress
from rowtide.cdc.widening_removal import MendedTable
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.events.catalogue import (
    ColumnsWidened,
    CopyAdvanced,
    CyclePublished,
    RowsCaptured,
    ScansNotRecorded,
    TableMended,
)
from rowtide.events.event import emit
from rowtide.storage.store import Traffic, read_traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@frozen
class CaptureWatchers:
    """Called from the threads of a run: at each cycle, at each retry, as the copy of a table advances, before a table
    gets wider types, and as one is mended.
    """

    on_cycle: Callable[[CycleReport], None] = ignore
    on_retry: OnRetry = ignore
    on_snapshot: Callable[[SnapshotProgress], None] = ignore
    on_widened: Callable[[WidenedTable], None] = ignore
    on_mended: Callable[[MendedTable], None] = ignore


@frozen
class CaptureContext:
    """One run on one database; `stop` ends it. With `has_run`, outages are waited out from the beginning.

    `make_spark` is called when Spark is needed.
    """

    url: str
    make_spark: Callable[[], SparkSession]
    stop: threading.Event = field(default_factory=threading.Event)
    watchers: CaptureWatchers = field(default_factory=CaptureWatchers)
    options: CaptureOptions = USUAL
    has_run: bool = False
    copies_tables: bool = True
    """Whether snapshots that are requested are copied beside capture."""


def emitting(watchers: CaptureWatchers) -> CaptureWatchers:
    """Return watchers that emit an event for each report, and pass it on. Retries are events already: `run_agent`."""

    def on_cycle(report: CycleReport) -> None:
        for one in report.changes:
            emit(RowsCaptured(one.capture_instance, one.inserts, one.updates, one.deletes))
        emit(_published(report))
        watchers.on_cycle(report)

    def on_snapshot(report: SnapshotProgress) -> None:
        emit(_copied(report))
        watchers.on_snapshot(report)

    def on_widened(table: WidenedTable) -> None:
        names, types = zip(*table.columns, strict=True)
        emit(ColumnsWidened(table.capture_instance, table.path, names, types, table.size, table.is_rewritten))
        watchers.on_widened(table)

    def on_mended(table: MendedTable) -> None:
        files = table.files, table.read_bytes, table.written_bytes
        emit(TableMended(table.capture_instance, table.path, table.was_marked, *files))
        watchers.on_mended(table)

    return CaptureWatchers(on_cycle, watchers.on_retry, on_snapshot, on_widened, on_mended)


def _published(report: CycleReport) -> CyclePublished:
    return CyclePublished(
        cycle=report.cycle,
        lsn=report.to_position,
        instances=report.instances,
        transactions=report.figures.tran_count,
        rows=report.figures.command_count,
        seconds=report.seconds,
        is_heartbeat=report.is_heartbeat,
    )


def _copied(report: SnapshotProgress) -> CopyAdvanced:
    return CopyAdvanced(
        instance=report.capture_instance,
        chunks=report.chunks,
        of_chunks=report.of_chunks,
        rows=report.rows,
        estimated_rows=report.estimated_rows,
        size_bytes=report.size,
        rows_per_second=report.rows_a_second,
        remaining_s=report.remaining_s,
        message=report.message,
        is_finished=report.is_finished,
    )


WRITE_INTERVAL_S = 10.0


class ScanRecorder:
    """The recorder of one run, which continues when the run's agent is opened again."""

    def __init__(self) -> None:
        self._metrics = ScanMetrics()
        self._capture: Capture | None = None
        self._writer: ScanWriter | None = None
        self._connection: Connection | None = None
        self._next_write = 0.0
        self._read_traffic: Callable[[], Traffic] = read_traffic
        self._counted = read_traffic()

    def reopen(self) -> None:
        """Note that capture is being opened: what fails now fails in that phase."""
        self._capture = None
        self._connection = None

    def write_to(self, connection: Connection) -> None:
        """Write on a connection from now on, that of the lake lease: until it was taken, another run may have
        written.
        """
        self._connection = connection
        self._writer = ScanWriter(self._metrics)

    def watch(self, capture: Capture, read_traffic: Callable[[], Traffic] = read_traffic) -> None:
        """Note that capture is open; `read_traffic` returns what it and its log reader have asked of object stores."""
        self._capture = capture
        self._read_traffic = read_traffic
        self._counted = read_traffic()

    def note_cycle(self, report: CycleReport) -> None:
        """Count a cycle; one that published a heartbeat alone is an empty scan."""
        if report.is_heartbeat:
            self.note_empty()
        else:
            self._metrics.scanned(report.figures, datetime.now(UTC), report.seconds, self._take_traffic())

    def note_empty(self) -> None:
        """Count a scan that found nothing."""
        self._metrics.scanned_nothing(datetime.now(UTC), self._take_traffic())

    def fail(self, error: RowtideError) -> None:
        """Note an error of capture."""
        self._fail(error, self._capture.phase if self._capture is not None else ScanPhase.READING_CONFIGURATION)

    def fail_reading(self, error: RowtideError) -> None:
        """Note an error of the log reader."""
        self._fail(error, ScanPhase.FIRST_SCAN)

    def step(self) -> None:
        """Write new figures if the last write is a while ago; without news nothing is written, so that an idle database
        stays idle.
        """
        if self._writer is None or self._connection is None or time.monotonic() < self._next_write:
            return
        if self._metrics.has_news:
            self._next_write = time.monotonic() + WRITE_INTERVAL_S
            with translated():
                self._writer.write(self._connection)

    def close(self, engine: Engine) -> None:
        """Write what is left, unless the lake was never held; a failure to write does not fail the run."""
        if self._writer is None:
            return
        try:
            with translated(), engine.begin() as connection:
                self._writer.write(connection)
        except RowtideError as error:
            emit(ScansNotRecorded(error))

    def _take_traffic(self) -> Traffic:
        """Return the requests since the last call."""
        before, self._counted = self._counted, self._read_traffic()
        return self._counted.since(before)

    def _fail(self, error: RowtideError, phase: ScanPhase) -> None:
        position = self._capture.position if self._capture is not None else None
        self._metrics.failed(error, phase, datetime.now(UTC), position)
