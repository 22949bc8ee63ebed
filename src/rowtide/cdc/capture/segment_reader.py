"""Reads the segments of a cycle: small ones whole, once, several at a time, though they are needed twice."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from rowtide.core.records import RECORD
from rowtide.log.store.entries import Segment
from rowtide.log.store.segments import read_segment
from rowtide.storage.store import Store

MOST_KEPT_BYTES = 64 * 1024 * 1024
"""In memory: as much as a part that is converted."""
_AT_ONCE = 8
_COLUMNS = tuple(name for name in RECORD.names if name != "payload")


class SegmentReader:
    """Reads segments of one cycle, and keeps the first ones up to some size; for several threads."""

    def __init__(self, store: Store, most_kept_bytes: int = MOST_KEPT_BYTES) -> None:
        self._store = store
        self._room = most_kept_bytes
        self._kept: dict[str, pa.Table] = {}
        self._lock = threading.Lock()

    def read(self, segment: Segment, columns: Sequence[str]) -> pa.Table:
        """Return columns of a segment's records; never `payload`. Raises as `read_segment`."""
        self.fetch([segment])
        kept = self._kept.get(segment.path)
        if kept is None:
            return read_segment(self._store, segment.path, columns)
        return kept.select(list(columns))

    def fetch(self, segments: Sequence[Segment]) -> None:
        """Read those of the segments that can be kept. Raises as `read_segment`."""
        with self._lock:
            wanted = []
            for segment in segments:
                if segment.path not in self._kept and segment.raw_bytes <= self._room:
                    self._room -= segment.raw_bytes
                    wanted.append(segment.path)
            if len(wanted) == 1:
                self._kept[wanted[0]] = self._read_whole(wanted[0])
            elif wanted:
                with ThreadPoolExecutor(_AT_ONCE, "rowtide-read") as pool:
                    self._kept.update(zip(wanted, pool.map(self._read_whole, wanted), strict=True))

    def _read_whole(self, path: str) -> pa.Table:
        return read_segment(self._store, path, _COLUMNS)
