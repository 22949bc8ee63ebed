"""Python's collector of cyclic garbage, kept from looking at the rows that are worked on.

It runs whenever some hundred objects more are in use than before, and now and then looks at all objects of the process.
Work on thousands of rows at a time calls for that all the time, and leaves no cycles to be found.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

OBJECTS_BETWEEN_COLLECTIONS = 50_000


class _Users:
    """How many want it so, and what the thresholds were before the first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._before = gc.get_threshold()

    def begin(self) -> None:
        with self._lock:
            if self._count == 0:
                self._before = gc.get_threshold()
                collect_rarely()
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                gc.set_threshold(*self._before)


_USERS = _Users()


def collect_rarely() -> None:
    """Let the collector run when thousands of objects more are in use, in all threads; one that is off stays so."""
    first, *others = gc.get_threshold()
    if 0 < first < OBJECTS_BETWEEN_COLLECTIONS:
        gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *others)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Do so within."""
    _USERS.begin()
    try:
        yield
    finally:
        _USERS.end()
