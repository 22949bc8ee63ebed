"""Stores that note what is asked of them, whose files grow older at will, and which sleep or lose replies."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa

from rowtide.log.errors import LogStoreWriteFailed
from rowtide.log.store.location import LocalStore
from rowtide.storage.store import Store


class WatchedStore:
    """Passes everything on to another store, and notes the calls in order, each as a method's name and a path."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.calls: list[tuple[str, str]] = []

    def take_calls(self) -> list[str]:
        """Return the names of the methods called since the last time."""
        with self._lock:
            taken, self.calls = self.calls, []
        return [name for name, _ in taken]

    def put_durable(self, path: str, data: bytes) -> None:
        self._note("put_durable", path)
        self._store.put_durable(path, data)

    def write_durable(self, path: str, write: Callable[[pa.NativeFile], object]) -> int:
        self._note("write_durable", path)
        return self._store.write_durable(path, write)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._note("put_if_absent", path)
        return self._store.put_if_absent(path, data)

    def get(self, path: str) -> bytes:
        self._note("get", path)
        return self._store.get(path)

    def open(self, path: str) -> pa.NativeFile:
        self._note("open", path)
        return self._store.open(path)

    def list(self, prefix: str, *, after: str = "", before: datetime | None = None) -> Sequence[str]:
        self._note("list", prefix)
        return self._store.list(prefix, after=after, before=before)

    def delete(self, path: str) -> None:
        self._note("delete", path)
        self._store.delete(path)

    def url(self, path: str) -> str:
        return self._store.url(path)

    def _note(self, name: str, path: str) -> None:
        with self._lock:
            self.calls.append((name, path))


class SleepingStore(WatchedStore):
    """Runs `sleep` once when `is_to_sleep`: in front of the next put, or behind it."""

    is_to_sleep = False

    def __init__(self, store: Store, sleep: Callable[[], None], *, behind: bool) -> None:
        super().__init__(store)
        self._sleep = sleep
        self._behind = behind

    def put_if_absent(self, path: str, data: bytes) -> bool:
        is_asleep, self.is_to_sleep = self.is_to_sleep, False
        if is_asleep and not self._behind:
            self._sleep()
        is_put = super().put_if_absent(path, data)
        if is_asleep and self._behind:
            self._sleep()
        return is_put


class AgingStore(LocalStore):
    """A local store in which time passes by order, and a clock that says so."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self._folder = root
        self._passed_s = 0.0

    def clock(self) -> float:
        """Return the seconds that passed."""
        return self._passed_s

    def pass_time(self, by: timedelta) -> None:
        """Let all files grow older."""
        self._passed_s += by.total_seconds()
        for path in self.list(""):
            file = self._folder / path
            written = file.stat().st_mtime - by.total_seconds()
            os.utime(file, (written, written))


class LosingStore(LocalStore):
    """A local store that carries out the next put and fails to say so."""

    is_losing = False

    def put_if_absent(self, path: str, data: bytes) -> bool:
        is_put = super().put_if_absent(path, data)
        if self.is_losing:
            self.is_losing = False
            raise LogStoreWriteFailed(self.url(path), "the reply was lost")
        return is_put
