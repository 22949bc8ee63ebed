"""Which files of a copy have the content of their originals: kept with it, so that a repeat need not read them."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable

from rowtide.storage.store import Store, Transferable

FOLDER = ".copied/"
_FLUSHED_FILES = 1000
_FLUSHED_S = 10.0


class Verified:
    """The verified files of a copy; for several threads."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`store` is the lake's folder at the target."""
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._sizes: dict[tuple[str, str], int] = {}
        self._added: set[tuple[str, str]] = set()
        self._unwritten: list[tuple[str, str, int]] = []
        self._written_at = clock()

    @classmethod
    def load(cls, store: Transferable) -> Verified:
        """Return what earlier runs verified. A record that cannot be read is ignored."""
        verified = cls(store)
        for path in store.list(FOLDER):
            try:
                found = json.loads(store.get(path))
                verified._sizes |= {(portion, file): int(size) for portion, file, size in found}
            except (KeyError, ValueError, TypeError):
                continue
        return verified

    def has(self, portion: str, path: str, size: int) -> bool:
        """Return whether a file of a size was verified."""
        return self._sizes.get((portion, path)) == size

    def was_added(self, portion: str, path: str) -> bool:
        """Return whether a file was compared in this run."""
        return (portion, path) in self._added

    def add(self, portion: str, path: str, size: int) -> None:
        """Add a file that was compared with its original; recorded from time to time."""
        with self._lock:
            self._sizes[portion, path] = size
            self._added.add((portion, path))
            self._unwritten.append((portion, path, size))
            if len(self._unwritten) >= _FLUSHED_FILES or self._clock() - self._written_at > _FLUSHED_S:
                self._flush()

    def flush(self) -> None:
        """Record what was added. Raises `write_failed`."""
        with self._lock:
            self._flush()

    def forget(self) -> None:
        """Delete the record: what is there is no copy any more. Raises `write_failed`."""
        for path in self._store.list(FOLDER):
            self._store.delete(path)

    def _flush(self) -> None:
        if self._unwritten:
            self._store.put_durable(f"{FOLDER}{uuid.uuid4().hex}.json", json.dumps(self._unwritten).encode())
            self._unwritten.clear()
        self._written_at = self._clock()
