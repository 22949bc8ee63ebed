"""The thread of a runner of snapshots, beside capture."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

from rowtide.agents.runs import pauses_s
from rowtide.cdc.snapshots.runner import POLL_S, SnapshotRunner
from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.events.catalogue import CopiesRetry
from rowtide.events.emission import emit
from rowtide.events.event import inheriting
from rowtide.log.errors import LeaseLost

THREAD = "rowtide-snapshots"
_STEP_S = 0.25


class SnapshotThread:
    """A runner in a thread of its own."""

    def __init__(self, runner: SnapshotRunner) -> None:
        self._runner = runner
        self._wake = threading.Event()
        self._is_over = False
        self._thread: Future[None] | None = None

    @contextmanager
    def running(self) -> Iterator[SnapshotThread]:
        """Run the thread during the block; at its end, chunks that are being copied are left."""
        with ThreadPoolExecutor(1, THREAD) as pool:
            self._thread = pool.submit(inheriting(self._run, job="snapshots"))
            try:
                yield self
            finally:
                self._is_over = True
                self._wake.set()
                wait([self._thread])

    @property
    def awaited(self) -> CommitLsn | None:
        """The LSN that has to be published so that covered snapshots can be read; None if there is none."""
        return self._runner.awaited

    def was_idle_since(self, moment: float) -> bool:
        """Return whether all requests were looked at since a moment, and nothing is to be done; look at them now."""
        self._wake.set()
        return self._runner.was_idle_since(moment)

    def verify(self) -> None:
        """Raise the error that has ended the thread."""
        if self._thread is not None and self._thread.done():
            self._thread.result()

    def _run(self) -> None:
        pauses = pauses_s()
        try:
            while not self._is_over:
                try:
                    if self._runner.step():
                        self._runner.wait(_STEP_S)
                    else:
                        self._wait(POLL_S)
                    pauses = pauses_s()
                except RowtideError as error:
                    if error.remedy is not Remedy.RETRY or isinstance(error, LeaseLost):
                        raise
                    emit(CopiesRetry(error))
                    self._runner.reset()
                    self._wait(next(pauses))
        finally:
            self._runner.close()

    def _wait(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()
