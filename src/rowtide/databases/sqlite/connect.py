"""Connections to SQLite files, also to those that strangers write, and write transactions that wait fairly."""

from __future__ import annotations

import random
import re
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from time import monotonic
from typing import Any, Self

from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.databases.sqlite.errors import (
    LOCK_DEADLINE_S,
    FileBusy,
    FileNotOpened,
    SqliteTooOld,
    StatementTimedOut,
    ValueTooLarge,
    find_fault,
    is_busy,
)
from rowtide.databases.urls import DatabaseUrl, parse_url

# Connections to files that strangers write: no statement of ours runs for ever, whatever the file makes it run. A
# file contains code: triggers, views, generated columns, checks, expressions of indexes. It runs within the
# statements that read and write the file. A thread interrupts a statement that takes too long; SQLite itself limits
# the size of a value, and lets the schema use no function or virtual table that does more than compute.

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
            self.execute(f"pragma {setting}").fetchall()
        # The expressions of a file can make values of any size: `zeroblob(1e9)`, `hex`, `printf`.
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

    # The time is noted without a context manager, since this runs for every row.
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


NEEDED_VERSION = (3, 37, 0)
"""For `pragma table_list` with strict tables; the triggers, which other programs run, need only 3.15."""
_RETRY_MS = (1.0, 5.0)
IN_MEMORY = ""

_ALTERING = re.compile(
    r"\s*(create(?! (temporary|index temp\.))|alter|drop|insert|update|delete|pragma \w+ =)", re.IGNORECASE
)
"""Matches no comments: SQLite reports the statements of triggers as comments."""


def open_url(url: str | DatabaseUrl, limits: FileLimits | None = None) -> sqlite3.Connection:
    """Open the file that a URL names. Raises `FileNotOpened` if it does not exist, `SqliteTooOld`."""
    return open_file(parse_url(url).database or IN_MEMORY, limits)


def open_connection(url: str | DatabaseUrl, limits: FileLimits | None = None) -> Connection:
    """Return SQLAlchemy's connection to the file that a URL names, in autocommit mode until a transaction is begun.

    All files share one engine, and with it the statements that were compiled before. Raises as `open_url`.
    """
    opened = _OPENED.set((parse_url(url), limits))
    try:
        return _ENGINE.connect()
    finally:
        _OPENED.reset(opened)


_OPENED: ContextVar[tuple[DatabaseUrl, FileLimits | None]] = ContextVar("opened")
"""The file that a connection of the shared engine is opened for, with its limits."""
_ENGINE = create_engine(
    "sqlite+pysqlite://",
    creator=lambda: open_url(*_OPENED.get()),
    poolclass=NullPool,
    isolation_level="AUTOCOMMIT",
    hide_parameters=True,
)


def open_file(path: str, limits: FileLimits | None = None) -> sqlite3.Connection:
    """Open an existing database file in autocommit mode; with limits, one that strangers write.

    Raises `FileNotOpened`, `FileBusy`, `FileDamaged`, `SqliteTooOld`.
    """
    if sqlite3.sqlite_version_info < NEEDED_VERSION:
        raise SqliteTooOld(sqlite3.sqlite_version, ".".join(map(str, NEEDED_VERSION)))
    if path in (IN_MEMORY, ":memory:"):
        return sqlite3.connect(":memory:", isolation_level=None)
    factory = sqlite3.Connection if limits is None else StrangeFile
    try:
        connection = sqlite3.connect(
            _existing(path), uri=True, timeout=LOCK_DEADLINE_S, isolation_level=None, factory=factory
        )
        if limits is not None and isinstance(connection, StrangeFile):
            connection.limited_by(limits)
        # SQLite opens a file only with the first statement: one that is no database is refused here, not later.
        # To its end: a debugger that holds the cursor would keep the statement active, beside which SQLite lets nobody
        # replace a function, as SQLAlchemy does.
        connection.execute("select 1 from sqlite_schema limit 1").fetchall()
    except sqlite3.DatabaseError as error:
        if is_busy(error) or error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CORRUPT:
            raise find_fault(path, error) from error
        raise FileNotOpened(path, str(error)) from error
    return connection


def begin_file(path: Path) -> None:
    """Let an empty file have a write-ahead log: what reads it does not keep others from writing.

    With a rollback journal a commit waits for all readers, and apps leave cursors open for minutes. A longer wait is no
    solution, since no new reader can begin while a commit waits. A file with tables stays as its programs made it: they
    may have it on a network's file system, or back up the one file.
    """
    if path.stat().st_size == 0:
        with closing(open_file(str(path))) as connection, suppress(sqlite3.OperationalError):
            connection.execute("pragma journal_mode = wal")


def path_of(connection: sqlite3.Connection) -> str:
    """Return the file of a connection's main database; `IN_MEMORY` if it has none."""
    return next(str(path) for _, name, path in connection.execute("pragma database_list") if name == "main")


@contextmanager
def write_transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Write in one transaction: committed at the end, rolled back by an exception. Raises `FileBusy`."""
    begin_immediate(connection)
    try:
        yield connection
    except BaseException:
        connection.rollback()
        raise
    failpoint("sqlite_commit.before")
    connection.commit()
    failpoint("sqlite_commit.after")


@contextmanager
def rehearsal(connection: sqlite3.Connection, statements: list[str]) -> Iterator[sqlite3.Connection]:
    """Write in one transaction that is rolled back; what alters something is appended to a list. Raises `FileBusy`."""
    noted: list[str] = []
    begin_immediate(connection)
    connection.set_trace_callback(noted.append)
    try:
        yield connection
    finally:
        connection.set_trace_callback(None)
        connection.rollback()
    # A statement is reported again for each time that a trigger of its table fires, as of Python 3.11.
    once = [sql for sql, before in zip(noted, ["", *noted], strict=False) if sql != before]
    statements.extend(sql for sql in once if _ALTERING.match(sql))


def begin_immediate(connection: sqlite3.Connection, patience_s: float | None = None) -> None:
    """Begin a transaction with the write lock. Raises `FileBusy` after `patience_s`, or `LOCK_DEADLINE_S`.

    SQLite's own busy handler waits up to 100 ms between attempts, and can be overtaken indefinitely; so the lock is
    requested every few milliseconds, at random intervals.
    """
    timeout_ms = connection.execute("pragma busy_timeout").fetchone()[0]
    connection.execute("pragma busy_timeout = 0")
    patience_s = LOCK_DEADLINE_S if patience_s is None else patience_s
    deadline = time.monotonic() + patience_s
    try:
        while not _has_begun(connection):
            if time.monotonic() >= deadline:
                raise FileBusy(path_of(connection), patience_s)
            time.sleep(random.uniform(*_RETRY_MS) / 1000)  # noqa: S311 -- not for secrets
    finally:
        connection.execute(f"pragma busy_timeout = {timeout_ms}")


def _has_begun(connection: sqlite3.Connection) -> bool:
    try:
        # A transaction that begins with a read and then writes fails at once where another has written meanwhile
        # (SQLITE_BUSY_SNAPSHOT), whatever the busy timeout is.
        connection.execute("begin immediate")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
        return False
    return True


def _existing(path: str) -> str:
    return Path(path).absolute().as_uri() + "?mode=rw"
