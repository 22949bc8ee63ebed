"""Delete many files: an object store takes one request for each, and waits for each are waits for the network."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from rowtide.storage.store import Store

_AT_ONCE = 16


def delete_all(store: Store, paths: Sequence[str]) -> None:
    """Delete files that exist, in no order. Raises `write_failed`, after which some are deleted."""
    if len(paths) == 1:
        store.delete(paths[0])
    elif paths:
        with ThreadPoolExecutor(_AT_ONCE, "rowtide-delete") as pool:
            for _ in pool.map(store.delete, paths):
                pass
