"""Connections to files that strangers write: no statement of ours runs for ever, whatever the file makes it run.

A file brings code along: triggers, views, generated columns, checks, expressions of indexes. It runs within the
statements that read and write the file. A thread interrupts a statement that takes too long; SQLite itself limits the
size of a value, and lets the schema use no function or virtual table that does more than compute.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any, Self

from rowtide.core.values import frozen
from rowtide.databases.sqlite.errors import StatementTimedOut, ValueTooLarge

_SETTINGS = ("trusted_schema = off", "cell_size_check = on", "mmap_size = 0")
_FEW = 16
"""Rows of one statement whose time is counted together."""
_DEFENSIVE = getattr(sqlite3, "SQLITE_DBCONFIG_DEFENSIVE", None)
"""Python can set it from 3.12 on; it keeps a schema from being edited as a table, and `journal_mode` from being off."""


@frozen
class FileLimits:
    """How long a statement may take, and how large a value may be."""

    statement_s: float
    value_bytes: int


class StrangeFile(sqlite3.Connection):
    """A connection whose statements are interrupted when they take too long; open it with `limited_by`."""

    limits: FileLimits
    running_since: float | None = None

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(factory or _Cursor)

    def execute(self, *statement: Any) -> Any:
        return self.cursor().execute(*statement)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Any:
        return self.cursor().executemany(sql, rows)

    def limited_by(self, limits: FileLimits) -> Self:
        """Return the connection, with the limits set for all that follows."""
        self.limits = limits
        for setting in _SETTINGS:
            self.execute(f"pragma {setting}")
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value_bytes)
        set_defensive(self, is_on=True)
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="sqlite deadline", daemon=True).start()
        return self

    def close(self) -> None:
        if hasattr(self, "_ended"):
            self._ended.set()
        super().close()

    def _watch(self) -> None:
        limit_s = self.limits.statement_s
        while not self._ended.wait(min(limit_s / 4, 1.0)):
            since = self.running_since
            if since is not None and monotonic() - since > limit_s:
                try:
                    self.interrupt()
                except sqlite3.ProgrammingError:
                    return  # it was closed at this moment


class _Cursor(sqlite3.Cursor):
    connection: StrangeFile

    # Each says when it began, without a context manager: a cursor is asked for every row.
    def execute(self, *statement: Any) -> Self:
        self.connection.running_since = monotonic()
        try:
            return super().execute(*statement)
        finally:
            self.connection.running_since = None

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Self:
        try:
            return super().executemany(sql, self._few_by_few(rows))
        finally:
            self.connection.running_since = None

    def _few_by_few(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Yield rows; the time of each few counts for itself."""
        for place, row in enumerate(rows):
            if place % _FEW == 0:
                self.connection.running_since = monotonic()
            yield row

    def fetchone(self) -> Any:
        self.connection.running_since = monotonic()
        try:
            return super().fetchone()
        finally:
            self.connection.running_since = None

    def fetchmany(self, size: int | None = None) -> list[Any]:
        self.connection.running_since = monotonic()
        try:
            return super().fetchmany(self.arraysize if size is None else size)
        finally:
            self.connection.running_since = None

    def fetchall(self) -> list[Any]:
        self.connection.running_since = monotonic()
        try:
            return super().fetchall()
        finally:
            self.connection.running_since = None

    def __next__(self) -> Any:
        self.connection.running_since = monotonic()
        try:
            return super().__next__()
        finally:
            self.connection.running_since = None


def limits_of(connection: sqlite3.Connection) -> FileLimits | None:
    """Return the limits that a connection was opened with; None if it has none."""
    return connection.limits if isinstance(connection, StrangeFile) else None


def set_defensive(connection: sqlite3.Connection, *, is_on: bool) -> None:
    """Refuse, or allow, that statements edit the schema as a table, where Python can."""
    if _DEFENSIVE is not None:
        connection.setconfig(_DEFENSIVE, is_on)  # type: ignore[attr-defined, unused-ignore] # from Python 3.12


def failure_of(connection: sqlite3.Connection, path: str, error: Exception) -> StatementTimedOut | ValueTooLarge | None:
    """Return the error of a limit that a connection has reached; None for any other error."""
    limits, code = limits_of(connection), getattr(error, "sqlite_errorcode", 0) & 0xFF
    if limits is None:
        return None
    if code == sqlite3.SQLITE_INTERRUPT:
        return StatementTimedOut(path, limits.statement_s)
    # Python raises it for values that it has read, without SQLite's code.
    if code == sqlite3.SQLITE_TOOBIG or "too big" in str(error):
        return ValueTooLarge(path, limits.value_bytes)
    return None
