"""Stores of immutable files: the few operations that durability needs.

Paths are relative, with `/`. A file never changes once it has its name: readers see all of it or nothing, after a crash
at any point. The errors are chosen by the store's owner, see `StoreErrors`.

Many files are read or deleted concurrently, because an object store needs one request for each, and each waits for the
network.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen

if TYPE_CHECKING:
    import pyarrow as pa


class Missing(KeyError):
    """No file of the store has this path."""


@frozen
class StoreErrors:
    """The errors that a store raises, made from a file's place and a reason."""

    read_failed: Callable[[str, str], RowtideError]
    write_failed: Callable[[str, str], RowtideError]


class Store(Protocol):
    """A flat space of immutable files."""

    def put_durable(self, path: str, data: bytes) -> None:
        """Make the file durable, replacing one of that name. Raises `write_failed`."""

    def write_durable(self, path: str, write: Callable[[pa.NativeFile], object]) -> int:
        """Make a file durable that `write` writes incrementally, as `put_durable`; return its size. Raises
        `write_failed`.
        """

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Make the file durable unless the name is taken; of concurrent callers one gets True.

        Raises `write_failed`, after which the file may exist.
        """

    def get(self, path: str) -> bytes:
        """Return the file's bytes. Raises `Missing`, `read_failed`."""

    def open(self, path: str) -> pa.NativeFile:
        """Open the file for random access. Raises `Missing`, `read_failed`."""

    def list(self, prefix: str, *, after: str = "", before: datetime | None = None) -> Sequence[str]:
        """Return the paths that begin with the prefix and sort above `after`, sorted; with `before`, those of files
        written before a time by the store's clock.

        Raises `read_failed`.
        """

    def delete(self, path: str) -> None:
        """Delete the file if it exists. Raises `write_failed`."""

    def url(self, path: str) -> str:
        """Return the URL by which Spark reads the file."""


class Sweepable(Protocol):
    """A store whose leftovers are found by their age."""

    def sweep(self, before: datetime) -> None:
        """Delete what writers that were killed left under temporary names, and folders empty since before a time.

        Raises `write_failed`.
        """


class Transferable(Store, Protocol):
    """A store whose files are copied to another: found with their sizes, and streamed."""

    def list_folders(self, prefix: str) -> Sequence[str]:
        """Return the names of the folders in one, whose path ends with `/`, sorted. Raises `read_failed`."""

    def list_sizes(self, prefix: str) -> Mapping[str, int]:
        """Return the sizes of the files whose paths begin with the prefix, by path. Raises `read_failed`."""

    def put_stream(self, path: str, read: Callable[[], Iterator[bytes]]) -> None:
        """Make a file durable, as `put_durable`, of pieces of which few are in memory at a time.

        `read` is called again if the file is put again. Raises `write_failed`, and what reading raises.
        """


_AT_ONCE = 16


def delete_all(store: Store, paths: Sequence[str]) -> None:
    """Delete files that exist, in no order. Raises `write_failed`, after which some are deleted."""
    if len(paths) == 1:
        store.delete(paths[0])
    elif paths:
        with ThreadPoolExecutor(_AT_ONCE, "rowtide-delete") as pool:
            for _ in pool.map(store.delete, paths):
                pass


def get_all(store: Store, paths: Sequence[str]) -> list[bytes | None]:
    """Return the bytes of files, None for those that are missing. Raises `read_failed`.

    Threads are half of the 10 to 20 ms that a manifest of a hundred entries takes on a local disk; a network's file
    system needs them.
    """

    def get(path: str) -> bytes | None:
        try:
            return store.get(path)
        except Missing:
            return None

    if len(paths) < 2:
        return [get(path) for path in paths]
    with ThreadPoolExecutor(min(len(paths), _AT_ONCE), "rowtide-get") as pool:
        return list(pool.map(get, paths))


@frozen
class Traffic:
    """`writes` are PUT, POST and LIST, which have one price, `reads` GET; a DELETE costs nothing and is not counted."""

    writes: int = 0
    reads: int = 0
    transferred: int = 0
    """Bytes, sent and received."""

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.writes + other.writes, self.reads + other.reads, self.transferred + other.transferred)

    def since(self, earlier: Traffic) -> Traffic:
        """Return the difference to an earlier count."""
        return Traffic(self.writes - earlier.writes, self.reads - earlier.reads, self.transferred - earlier.transferred)


class _Counter:
    """The requests of this process, counted by many threads."""

    def __init__(self) -> None:
        self.total = Traffic()
        self.changing = threading.Lock()


_counter = _Counter()


def count(added: Traffic) -> None:
    """Count what was asked."""
    with _counter.changing:
        _counter.total += added


def read_traffic() -> Traffic:
    """Return the requests of this process since it began."""
    return _counter.total
