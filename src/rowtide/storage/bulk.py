"""Many files at once: an object store takes one request for each, and a request is a wait for the network."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from rowtide.storage.store import Missing, Store

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
    """Return the bytes of files, None for those that are missing. Raises `read_failed`."""

    def get(path: str) -> bytes | None:
        try:
            return store.get(path)
        except Missing:
            return None

    if len(paths) < 2:
        return [get(path) for path in paths]
    with ThreadPoolExecutor(min(len(paths), _AT_ONCE), "rowtide-get") as pool:
        return list(pool.map(get, paths))
