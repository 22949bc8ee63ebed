"""SQLite's errors, as errors of rowtide."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from rowtide.core.errors import Retryable, RowtideError, numbered
from rowtide.core.row_values import Said


@numbered
class FileNotOpened(RowtideError):
    """The database file does not exist, or is not a database."""

    number = 1121
    fact = "the database file {path} cannot be opened: {reason}"
    hint = "Name a SQLite file that is there and that this user may write: sqlite:///folder/file.db."
    path: str
    reason: str


@numbered
class FileBusy(Retryable):
    """Another process held the file's lock too long."""

    number = 1122
    fact = "the database file {path} was locked by another program for {waited_s} seconds"
    hint = "Let the program end its transaction, then run it again."
    path: str
    waited_s: float


@numbered
class FileFailed(RowtideError):
    """SQLite cannot read or write the file."""

    number = 1124
    fact = "the database file {path} cannot be read and written: {reason}"
    hint = (
        "Check the file (`pragma integrity_check`), the disk, and that this user may write to the file and its folder: "
        "what is read of changes is noted there."
    )
    path: str
    reason: Said


@numbered
class StatementTimedOut(RowtideError):
    """A statement in a file took too long: code of the file, such as a trigger or a view, does not end."""

    number = 1125
    fact = "a statement in the database file {path} was stopped after {limit_s:g} seconds"
    hint = (
        "Look for a trigger, view or generated column of the file that does not end. If the file is only large, give "
        "--statement-timeout more seconds."
    )
    path: str
    limit_s: float


@numbered
class ValueTooLarge(RowtideError):
    """A file has a larger value than is read of it."""

    number = 1126
    fact = "the database file {path} has a value or row of more than {limit:,} bytes"
    hint = "If it is one of yours, give --max-row-bytes more."
    path: str
    limit: int


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise `FileFailed` for SQLite's own errors."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise FileFailed(path, " ".join(str(error).split())) from error


@numbered
class SqliteTooOld(RowtideError):
    """The SQLite library is too old."""

    number = 1123
    fact = "this Python has SQLite {version}; rowtide needs {needed} or newer"
    hint = "Use a Python with a newer SQLite library."
    version: str
    needed: str
