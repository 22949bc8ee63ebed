"""When the log store's segments were durable."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest

Times = npt.NDArray[np.float64]
"""Seconds since 1970."""

_POLL_S = 0.5


class SegmentTimes:
    """Of the segments that are written while it watches, because they are merged and truncated soon."""

    def __init__(self, log_store: str) -> None:
        self._manifest = Manifest.open(open_store(log_store))
        self._created: dict[int, float] = {}

    @classmethod
    @contextmanager
    def watch(cls, log_store: str) -> Iterator[SegmentTimes]:
        """Watch until the context ends."""
        times, stop = cls(log_store), threading.Event()
        watcher = threading.Thread(target=times._run, args=(stop,), daemon=True)
        watcher.start()
        try:
            yield times
        finally:
            stop.set()
            watcher.join()
        times._look()

    def of(self, lsns: npt.NDArray[np.int64]) -> Times:
        """Return when the segment with each of these LSNs was durable."""
        last = np.array(sorted(self._created))
        created = np.array([self._created[lsn] for lsn in last.tolist()])
        found: Times = created[np.searchsorted(last, lsns)]
        return found

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(_POLL_S):
            self._look()

    def _look(self) -> None:
        for segment in self._manifest.refresh().segments:
            # One that replaces others ends like the last of them, which was seen before.
            self._created.setdefault(segment.last.value, segment.created_at.timestamp())
