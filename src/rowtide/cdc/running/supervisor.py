"""The agent of a capture run: scans and housekeeping."""

from __future__ import annotations

import threading
import time

from rowtide.agents.log_reader_process import LogReaderProcess
from rowtide.cdc.capture.capture import Capture
from rowtide.cdc.cleanup.housekeeping import Housekeeping
from rowtide.cdc.running.scan_recorder import ScanRecorder
from rowtide.cdc.scans.pace import LONGEST_REST_S, Pace, Scan


class Supervisor:
    """Capture's scans as they are due, housekeeping between them, while the log reader is kept running."""

    def __init__(
        self,
        capture: Capture,
        housekeeping: Housekeeping,
        reader: LogReaderProcess,
        recorder: ScanRecorder,
        pace: Pace,
        stop: threading.Event,
    ) -> None:
        """`stop` is set when the pace says that it was the last scan."""
        self._capture = capture
        self._housekeeping = housekeeping
        self._reader = reader
        self._recorder = recorder
        self._pace = pace
        self._stop = stop
        self._next_scan = 0.0

    def step(self) -> bool:
        """Scan if that is due, and do a piece of housekeeping; return whether there was anything to do."""
        self._reader.keep_running()
        has_scanned = time.monotonic() >= self._next_scan and self._scan()
        has_kept_house = self._housekeeping.step()
        self._recorder.step()
        if has_scanned:
            self._stop.wait(min(max(self._next_scan - time.monotonic(), 0), LONGEST_REST_S))
        return has_scanned or has_kept_house

    def _scan(self) -> bool:
        begun = time.monotonic()
        worked = self._capture.step()
        if not worked:
            self._recorder.note_empty()
        ended = time.monotonic()
        scan = Scan(worked, worked and self._capture.is_behind, self._capture.position.log, ended - begun)
        self._next_scan = ended + self._pace.pause_after(scan)
        if self._pace.is_over:
            self._stop.set()
        return worked
