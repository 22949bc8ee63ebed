"""Connections to SQLite files, and write transactions that wait fairly for the lock."""

from __future__ import annotations

import random
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from rowtide.core.failpoints import failpoint
from rowtide.databases.sqlite.errors import (
    LOCK_DEADLINE_S,
    FileBusy,
    FileNotOpened,
    SqliteTooOld,
    find_fault,
    is_busy,
)
from rowtide.databases.sqlite.strange_files import FileLimits, StrangeFile
from rowtide.databases.urls import DatabaseUrl, parse_url

NEEDED_VERSION = (3, 37, 0)
"""For `pragma table_list` with strict tables; the triggers, which other programs run, need only 3.15."""
_RETRY_MS = (1.0, 5.0)
IN_MEMORY = ""

_ALTERING = re.compile(
    r"\s*(create(?! (temporary|index temp\.))|alter|drop|insert|update|delete|pragma \w+ =)", re.IGNORECASE
)
"""What triggers execute comes as comments."""


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
        connection.execute("select 1 from sqlite_schema").fetchone()
    except sqlite3.DatabaseError as error:
        if is_busy(error) or error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CORRUPT:
            raise find_fault(path, error) from error
        raise FileNotOpened(path, str(error)) from error
    return connection


def begin_file(path: Path) -> None:
    """Let an empty file have a write-ahead log: what reads it does not keep others from writing.

    With a rollback journal a commit waits until nobody reads, and apps leave cursors open for minutes; waiting longer
    is no way, since nobody can begin to read while a commit waits. A file with tables stays as its programs made it:
    they may have it on a network's file system, or back up the one file.
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
        connection.execute("begin immediate")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
        return False
    return True


def _existing(path: str) -> str:
    return Path(path).absolute().as_uri() + "?mode=rw"
