"""Records the scans and errors of a run of capture in the source database, at intervals."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine

from rowtide.cdc.capture.capture import Capture, CycleReport
from rowtide.cdc.scans.metrics import ScanMetrics, ScanPhase, ScanWriter
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.errors import translated
from rowtide.events.catalogue import ScansNotRecorded
from rowtide.events.event import emit
from rowtide.storage.store import Traffic, read_traffic

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
