"""How fast rows of a snapshot may be copied, and whether at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

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
        """Wait as long as so many rows take at the rate. Raises `CopyInterrupted`."""
        with self._lock:
            now = time.monotonic()
            rate = self._rows_per_second
            self._free_at = ends = max(self._free_at, now) + rows / rate if rate else now
        while (wait_s := ends - time.monotonic()) > 0 and self._rows_per_second is not None:
            if self._stopped.wait(min(wait_s, _LONGEST_WAIT_S)):
                break
        if self._stopped.is_set():
            raise CopyInterrupted
