"""Python's collector of cyclic garbage, between batches of work instead of within them.

It runs whenever some hundred objects more are in use than before, and now and then looks at all objects of the process.
Work that holds thousands of rows for some milliseconds calls for that all the time, and has no cycles to be found.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Pauses:
    """How many pauses there are, and whether the collector was on before the first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self.is_ours = False

    def begin(self) -> None:
        with self._lock:
            if self._count == 0 and gc.isenabled():
                gc.disable()
                self.is_ours = True
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self.is_ours:
                gc.enable()
                self.is_ours = False


_PAUSES = _Pauses()


@contextmanager
def collecting_between_batches() -> Iterator[None]:
    """Within, garbage is collected by `collect` alone, in all threads; nothing changes where the collector is off."""
    _PAUSES.begin()
    try:
        yield
    finally:
        _PAUSES.end()


def collect() -> None:
    """Collect what garbage came up since the last time, within `collecting_between_batches`."""
    if _PAUSES.is_ours:
        gc.collect(1)
