"""The file of a SQLite subscriber: opened for delivery, told from another in its place, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import make_url

from rowtide.core.errors import RowtideError
from rowtide.databases.sqlite.connect import IN_MEMORY, LOCK_DEADLINE_S, is_busy, open_url
from rowtide.databases.sqlite.errors import FileBusy
from rowtide.replication.errors import SubscriberFileFailed

_OF_THE_FILE = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
)
_NOT_SQLITES = 0


def connect(url: str) -> sqlite3.Connection:
    """Open a subscriber's file; each statement is a transaction of its own until one is begun.

    Foreign keys are not for replication: what the publisher committed has passed its own, and a cascade here would
    take away rows that are still to be deleted. Raises `FileNotOpened`, `SqliteTooOld`.
    """
    connection = open_url(url)
    connection.execute("pragma foreign_keys = off")
    return connection


def path_of(url: str) -> str:
    """Return the path that a subscriber's URL names."""
    return make_url(url).database or IN_MEMORY


def identify(path: str) -> tuple[int, int] | None:
    """Return what tells a file from one that takes its name; None where there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise numbered errors for SQLite's own, where no command is run that could be what is wrong."""
    try:
        yield
    except sqlite3.Error as error:
        raise find_failure(path, error) or _failed(path, error) from error


def find_failure(path: str, error: sqlite3.Error) -> RowtideError | None:
    """Return the error for what is wrong with the file or its lock; None where it is something else."""
    code = getattr(error, "sqlite_errorcode", _NOT_SQLITES)
    if code and is_busy(error):
        # A reader that stays keeps a commit from a file without write-ahead log.
        return FileBusy(path, LOCK_DEADLINE_S)
    return _failed(path, error) if code & 0xFF in _OF_THE_FILE else None


def code_of(error: sqlite3.Error) -> str:
    """Return SQLite's name of an error; Python's where it comes from there."""
    return getattr(error, "sqlite_errorname", type(error).__name__)


def _failed(path: str, error: sqlite3.Error) -> SubscriberFileFailed:
    return SubscriberFileFailed(path, code_of(error), str(error))
