"""SQLite's errors, as errors of rowtide."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowtide.core.errors import Retryable, RowtideError
from rowtide.core.redaction import Said

if TYPE_CHECKING:
    from sqlalchemy.exc import DBAPIError

LOCK_DEADLINE_S = 10.0


class FileNotOpened(RowtideError, number=1121):
    """The database file does not exist, or is not a database."""

    fact = "the database file {path} cannot be opened: {reason}"
    hint = "Name an existing SQLite file that this user may write to: sqlite:///folder/file.db."
    path: str
    reason: str


class FileBusy(Retryable, number=1122):
    """Another process held the file's lock too long."""

    fact = "the database file {path} was locked by another program for {waited_s} seconds"
    hint = "Let the program end its transaction, then run it again."
    path: str
    waited_s: float


class FileFailed(RowtideError, number=1124):
    """SQLite cannot read or write the file."""

    fact = "the database file {path} cannot be read and written: {reason}"
    hint = """Check the file (`pragma integrity_check`), the disk, and that this user may write to the file and its
        folder: what is read of changes is noted there."""
    path: str
    reason: Said


class FileDamaged(FileFailed, number=1133):
    """Pages of the file are not as SQLite wrote them, so no result of it can be trusted."""

    fact = "the database file {path} is damaged: {reason}"
    hint = """Keep a copy of it. Put a backup back, or save the rows that can be read into a new file by `.recover` of
        SQLite's shell. A file that merges is then subscribed again, or its backup reinitialised."""


class StatementTimedOut(RowtideError, number=1125):
    """A statement in a file took too long: code of the file, such as a trigger or a view, does not end."""

    fact = "a statement in the database file {path} was stopped after {limit_s:g} seconds"
    hint = """Look for a trigger, view or generated column of the file that does not end. If the file is only large,
        give --statement-timeout more seconds."""
    path: str
    limit_s: float


class ValueTooLarge(RowtideError, number=1126):
    """A file has a value above the limit of what is read."""

    fact = "the database file {path} has a value or row of more than {limit:,} bytes"
    hint = "If the value is yours, raise --max-row-bytes."
    path: str
    limit: int


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise `FileFailed`, `FileDamaged` or `FileBusy` for SQLite's own errors."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise find_fault(path, error) from error
    except _sqlalchemy_errors() as error:
        if not isinstance(error.orig, sqlite3.Error):
            raise
        raise find_fault(path, error.orig) from error


def _sqlalchemy_errors() -> tuple[type[DBAPIError], ...]:
    """Return SQLAlchemy's error of drivers; none if it was never imported."""
    module = sys.modules.get("sqlalchemy.exc")
    return (module.DBAPIError,) if module is not None else ()


def find_fault(path: str, error: Exception) -> FileFailed | FileBusy:
    """Return the fault of a file that an SQLite error reports."""
    if is_busy(error):
        return FileBusy(path, LOCK_DEADLINE_S)
    is_damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT
    return (FileDamaged if is_damaged else FileFailed)(path, " ".join(str(error).split()))


def is_busy(error: Exception) -> bool:
    """Whether another connection holds the requested lock; includes extended error codes."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class SqliteTooOld(RowtideError, number=1123):
    """The SQLite library is too old."""

    fact = "this Python has SQLite {version}; rowtide needs {needed} or newer"
    hint = "Use a Python with a newer SQLite library."
    version: str
    needed: str
