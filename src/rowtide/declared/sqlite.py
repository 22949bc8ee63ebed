"""Declared state of a SQLite file: its features, its tables' names, and a lock."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.connect import open_url
from rowtide.databases.sqlite.errors import translated
from rowtide.databases.urls import parse_url
from rowtide.declared.errors import ApplyRunning

FEATURES = ("merging", "tracked")
"""The modules for the features of such a database."""
_PATIENCE_S = 5.0
_PAUSE_S = 0.1


def spell_tables(url: str, names: Iterable[str]) -> Mapping[str, str]:
    """Return the names of the tables that users' names mean, without those that are not there."""
    with translated(parse_url(url).database or ""), closing(open_url(url)) as connection:
        found = {name: find_table(connection, name) for name in names}
    return {name: table.name for name, table in found.items() if table is not None}


@contextmanager
def applying_alone(url: str) -> Iterator[None]:
    """Exclude other processes that apply a declared state to files of the folder. Raises `ApplyRunning`.

    The folder is locked, not the file: closing another descriptor of the file would end SQLite's own locks.
    """
    folder = Path(parse_url(url).database or "").absolute().parent
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise ApplyRunning(str(folder)) from None
            time.sleep(_PAUSE_S)
        else:
            return
