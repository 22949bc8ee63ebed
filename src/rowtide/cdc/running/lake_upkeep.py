"""Upkeep of the lake's tables beside capture: compaction, checkpoints and vacuum, in a thread of its own.

No cycle waits for it. One table is worked on at a time, by the holder of the lake lease only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from rowtide.cdc.lake_lease import LakeLease
from rowtide.core.errors import RowtideError
from rowtide.delta.checkpoints import is_checkpoint_due, maintain_log
from rowtide.delta.snapshot import Location, Tail
from rowtide.events.catalogue import UpkeepEnded, UpkeepFailed
from rowtide.events.emission import emit
from rowtide.events.event import inheriting
from rowtide.lake.tables import Compacted, compact, vacuum
from rowtide.log.errors import LeaseLost

THREAD = "rowtide-upkeep"


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
        with ThreadPoolExecutor(1, THREAD) as pool:
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
