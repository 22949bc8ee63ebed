"""Python's cyclic garbage collector, made to run rarely while thousands of rows are processed.

By default it runs after every few hundred new objects, and now and then traverses all objects of the process.
Processing thousands of rows at a time triggers that constantly, and creates no cycles that it could free.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

OBJECTS_BETWEEN_COLLECTIONS = 50_000


class _Users:
    """The number of blocks that are active, and the thresholds before the first of them."""

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
    """Run the collector only after thousands of new objects, in all threads; if it is disabled, it stays disabled."""
    first, *others = gc.get_threshold()
    if 0 < first < OBJECTS_BETWEEN_COLLECTIONS:
        gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *others)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Call `collect_rarely` for the duration of a block, and restore the thresholds after the last one."""
    _USERS.begin()
    try:
        yield
    finally:
        _USERS.end()
