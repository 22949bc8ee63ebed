"""The threads beside capture: the runner of snapshots, and the upkeep of the lake's tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial

from rowtide.agents.loop import pauses_s
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.snapshots.runner import POLL_S, SnapshotRunner
from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.delta.checkpoints import is_checkpoint_due, maintain_log
from rowtide.delta.snapshot import Location, Tail
from rowtide.events.catalogue import CopiesRetry, UpkeepEnded, UpkeepFailed
from rowtide.events.event import emit, inheriting
from rowtide.lake.tables import Compacted, compact, vacuum
from rowtide.log.errors import LeaseLost

UPKEEP_THREAD = "rowtide-upkeep"


class _Stopped(Exception):
    """The run ends: what has begun is left."""


class LakeUpkeep:
    """Takes work from capture's thread and does it in its own, in the order in which it came.

    What fails is logged, and comes back when the table's turn does; what was left has no effect on readers.
    """

    def __init__(self, lease: LakeLease) -> None:
        """`lease` is for the upkeep's thread alone."""
        self._lease = lease
        self._changed = threading.Condition()
        self._works: dict[tuple[str, str], Callable[[], object]] = {}
        self._is_over = False

    @contextmanager
    def running(self) -> Iterator[LakeUpkeep]:
        """Run the thread during the block; at its end, stop after the present table's commit and join."""
        with ThreadPoolExecutor(1, UPKEEP_THREAD) as pool:
            thread = pool.submit(inheriting(self._run, job="upkeep"))
            try:
                yield self
            finally:
                self._end()
                thread.result()

    def compact(self, table: Compacted) -> None:
        """Compact a table."""
        self._add("compaction", table.path, lambda: compact(table, self._require))

    def vacuum(self, path: str) -> None:
        """Delete the files of a table that no version needs."""
        self._add("vacuum", path, partial(vacuum, path))

    def maintain_log(self, location: Location, version: int, properties: Mapping[str, str], tail: Tail) -> None:
        """Write a version's checkpoint when due, see `checkpoints.maintain_log`."""
        if is_checkpoint_due(location, version, properties):
            self._add("checkpoint", location.path, partial(maintain_log, location, version, properties, tail))

    def start(self, work: Callable[[Callable[[], None]], None]) -> Future[None]:
        """Start work, which is given what raises unless a commit may be made; what the run leaves never ends."""
        ended: Future[None] = Future()

        def run() -> None:
            try:
                work(self._require)
            except BaseException as error:
                ended.set_exception(error)
                raise
            ended.set_result(None)

        self._add("base", str(id(ended)), run)
        return ended

    def _add(self, kind: str, path: str, work: Callable[[], object]) -> None:
        with self._changed:
            if not self._is_over:
                # Later work of a kind has all that earlier work would have.
                self._works[kind, path] = work
                self._changed.notify()

    def _end(self) -> None:
        with self._changed:
            self._is_over = True
            self._works.clear()
            self._changed.notify()

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            (kind, path), work = taken
            try:
                self._require()
                work()
            except _Stopped:
                return
            except LeaseLost as error:
                emit(UpkeepEnded(error))
                self._end()
            except RowtideError as error:
                emit(UpkeepFailed(kind, path, error))

    def _take(self) -> tuple[tuple[str, str], Callable[[], object]] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._works or self._is_over)
            if self._is_over:
                return None
            first = next(iter(self._works))
            return first, self._works.pop(first)

    def _require(self) -> None:
        """Raise unless a commit may be made now."""
        if self._is_over:
            raise _Stopped
        self._lease.require()


SNAPSHOTS_THREAD = "rowtide-snapshots"
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
        with ThreadPoolExecutor(1, SNAPSHOTS_THREAD) as pool:
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
