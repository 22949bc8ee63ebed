"""The copy of one table: its chunks, rate and progress."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field

from rowtide.agents.loop import pauses_s
from rowtide.cdc.instances import Instance
from rowtide.cdc.recorded_snapshots import RecordedSnapshot
from rowtide.cdc.snapshot_requests import SnapshotRequest
from rowtide.cdc.snapshots.chunk_copies import ChunkReport, CopiedSoFar
from rowtide.copying.source import OpenTable, PartialRow
from rowtide.core.values import frozen


@frozen
class SnapshotProgress:
    """A report on a copy: chunks, rows and bytes so far, and the rate in rows a second.

    `message` says what happened: it waits, begins again, has ended.
    """

    capture_instance: str
    chunks: int
    of_chunks: int | None
    rows: int
    estimated_rows: int | None
    size: int
    rows_a_second: int | None = None
    message: str | None = None
    is_finished: bool = False

    @property
    def remaining_s(self) -> int | None:
        """The estimated seconds to the end, None if unknown."""
        if self.is_finished or not self.rows_a_second or not self.estimated_rows:
            return None
        return max(self.estimated_rows - self.rows, 0) // self.rows_a_second


_LONGEST_WAIT_S = 0.5
_PIECE_S = 0.25


class CopyInterrupted(Exception):
    """The present chunk is left as it is: its rows count for nothing, and are copied again."""


class Throttle:
    """The rate of one snapshot, shared by the threads that copy it; set by the runner of snapshots."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._rows_per_second: int | None = None
        self._free_at = 0.0

    @property
    def is_stopped(self) -> bool:
        """Whether chunks are to be left."""
        return self._stopped.is_set()

    def set(self, rows_per_second: int | None, *, is_stopped: bool) -> None:
        """Set the limit, None for none, and whether chunks are to be left."""
        self._rows_per_second = rows_per_second
        if is_stopped:
            self._stopped.set()
        else:
            self._stopped.clear()

    def divide(self, rows: int) -> Iterator[int]:
        """Yield rows in pieces, each of which takes a moment at the rate."""
        while rows > 0:
            rate = self._rows_per_second
            piece = rows if rate is None else min(rows, max(1, int(rate * _PIECE_S)))
            yield piece
            rows -= piece

    def take(self, rows: int) -> None:
        """Wait for the time that a number of rows takes at the rate. Raises `CopyInterrupted`."""
        with self._lock:
            now = time.monotonic()
            rate = self._rows_per_second
            # All threads share one schedule, so that the rate is that of the snapshot and not of each thread.
            self._free_at = ends = max(self._free_at, now) + rows / rate if rate else now
        while (wait_s := ends - time.monotonic()) > 0 and self._rows_per_second is not None:
            # In short waits, because the rate may be changed or lifted meanwhile.
            if self._stopped.wait(min(wait_s, _LONGEST_WAIT_S)):
                break
        if self._stopped.is_set():
            raise CopyInterrupted


@dataclass(slots=True)
class TableCopy:
    """A copy in progress; `snapshot` is None before it is planned. Only `take` is called by other threads.

    `opened` is the one session of an instance without key, which `session` closes. `partial` are the rows of chunks
    that cannot be copied whole, `lacking` how many such rows are copied.
    """

    request: SnapshotRequest
    instance: Instance
    snapshot: RecordedSnapshot | None = None
    remaining: deque[int] = field(default_factory=deque)
    running: dict[int, Future[ChunkReport]] = field(default_factory=dict)
    partial: dict[int, Sequence[PartialRow]] = field(default_factory=dict)
    throttle: Throttle = field(default_factory=Throttle)
    opened: OpenTable | None = None
    session: ExitStack = field(default_factory=ExitStack)
    chunks: int = 0
    rows: int = 0
    lacking: int = 0
    size: int = 0
    message: str | None = None
    not_before: float = 0.0
    reported: SnapshotProgress | None = None
    _pauses: Iterator[float] = field(default_factory=pauses_s)
    _in_flight: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _began: float = field(default_factory=time.monotonic)
    _began_rows: int = 0

    @property
    def is_copied(self) -> bool:
        """Whether the base table has all chunks."""
        return self.snapshot is not None and not self.remaining and not self.running

    def plan(self, snapshot: RecordedSnapshot, copied: CopiedSoFar) -> None:
        """Take up a planned snapshot, some chunks of which may be copied."""
        self.snapshot = snapshot
        self.remaining = deque(one for one in range(snapshot.definition.of_chunks) if one not in copied.chunks)
        self.chunks, self.rows, self._began_rows = len(copied.chunks), copied.rows, copied.rows
        self.lacking = copied.lacking
        self.size = self.request.copied_bytes if copied.chunks else 0
        self._began = time.monotonic()

    def take(self, chunk: int, rows: int) -> None:
        """Count a batch of a chunk as the rate lets its rows pass. Raises `CopyInterrupted`."""
        for piece in self.throttle.divide(rows):
            self.throttle.take(piece)
            with self._lock:
                self._in_flight[chunk] = self._in_flight.get(chunk, 0) + piece

    def pop_ended(self) -> Iterable[tuple[int, Future[ChunkReport]]]:
        """Return the chunks whose threads are done with them, and forget these."""
        ended = [(number, future) for number, future in self.running.items() if future.done()]
        for number, _ in ended:
            del self.running[number]
            with self._lock:
                self._in_flight.pop(number, None)
        return ended

    def note_copied(self, report: ChunkReport) -> None:
        """Count a chunk that the base table has."""
        self.chunks += 1
        self.rows += report.rows
        self.lacking += report.lacking
        self.size += report.size
        self.message = None
        self._pauses = pauses_s()

    def note_failed(self, number: int, message: str | None, *, pause: bool) -> None:
        """Copy a chunk again, after a pause that grows."""
        self.remaining.appendleft(number)
        self.message = message
        if pause:
            self.not_before = time.monotonic() + next(self._pauses)

    def report(self) -> SnapshotProgress:
        """Return how far it is."""
        with self._lock:
            rows = self.rows + sum(self._in_flight.values())
        seconds = time.monotonic() - self._began
        rate = int((rows - self._began_rows) / seconds) if seconds > 0 and rows > self._began_rows else None
        definition = self.snapshot.definition if self.snapshot is not None else None
        return SnapshotProgress(
            self.instance.capture_instance,
            self.chunks,
            definition.of_chunks if definition is not None else None,
            rows,
            definition.rows if definition is not None else None,
            self.size,
            rate,
            self.message,
        )
