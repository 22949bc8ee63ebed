"""The file of a SQLite subscriber: opening it for delivery, recognizing a replacement, and explaining its errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.databases.sqlite.connect import IN_MEMORY, begin_immediate, open_url
from rowtide.databases.sqlite.errors import LOCK_DEADLINE_S, FileBusy, is_busy
from rowtide.databases.urls import parse_url
from rowtide.replication.errors.subscribing import SubscriberFileFailed, SubscriberFileReplaced, SubscriberFileUnusable

_UNWRITABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
_OF_THE_FILE = (*_UNWRITABLE, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SubscriberFile:
    """A subscriber's open file; autocommit until a transaction is begun.

    Foreign keys are not enforced: what the publisher committed satisfies its own, and a cascade here would delete rows
    that are still to be deleted. `patience_s` is the busy timeout. Opening raises `FileNotOpened`, `SqliteTooOld`.
    """

    def __init__(self, url: str, *, patience_s: float = LOCK_DEADLINE_S) -> None:
        self.path = path_of(url)
        self._patience_s = patience_s
        # Before it is opened: one that is moved in its place meanwhile counts as another.
        self._identity = find_inode(self.path)
        self.connection = open_url(url)
        self.connection.execute("pragma foreign_keys = off")
        self.connection.execute(f"pragma busy_timeout = {int(patience_s * 1000)}")

    def close(self) -> None:
        """Close the file; an uncommitted transaction is rolled back."""
        self.connection.close()

    def begin(self) -> None:
        """Begin a transaction with the file's write lock. Raises `FileBusy`, `SubscriberFileReplaced`.

        Restoring a backup may move another file to this path: this connection would continue to write to the previous
        one.
        """
        begin_immediate(self.connection, self._patience_s)
        if find_inode(self.path) != self._identity:
            self.undo()
            raise SubscriberFileReplaced(self.path)

    def commit(self) -> None:
        """Commit the transaction."""
        failpoint("sqlite_subscriber_commit.before")
        self.connection.commit()
        failpoint("sqlite_subscriber_commit.after")

    def undo(self) -> None:
        """Roll back the transaction and release the lock at once: the process may pause before it closes the file."""
        self.connection.rollback()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """As `begin`; commits at the end, rolls back on errors, and turns SQLite's own into numbered ones."""
        with self.undone_by_errors():
            self.begin()
            yield self.connection
            self.commit()

    @contextmanager
    def undone_by_errors(self) -> Iterator[None]:
        """Roll back the transaction on an error.

        SQLite's own errors become numbered errors about the file, as no published command is run.
        """
        try:
            yield
        except sqlite3.Error as error:
            self.undo()
            raise self.find_failure(error) or self._failed(error) from error
        except BaseException:
            self.undo()
            raise

    def find_failure(self, error: sqlite3.Error) -> RowtideError | None:
        """Return the error for a fault of the file or its lock; None for any other fault."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
        if code and is_busy(error):
            # A reader that stays keeps a commit from a file without write-ahead log.
            return FileBusy(self.path, self._patience_s)
        return self._failed(error) if code & 0xFF in _OF_THE_FILE else None

    def _failed(self, error: sqlite3.Error) -> RowtideError:
        is_unwritable = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF in _UNWRITABLE
        kind = SubscriberFileFailed if is_unwritable else SubscriberFileUnusable
        return kind(self.path, code_of(error), str(error))


def path_of(url: str) -> str:
    """Return the path that a subscriber's URL names."""
    return parse_url(url).database or IN_MEMORY


def code_of(error: sqlite3.Error) -> str:
    """Return SQLite's name of an error; Python's if the error is Python's."""
    return getattr(error, "sqlite_errorname", type(error).__name__)


def find_inode(path: str) -> tuple[int, int] | None:
    """Return a file's device and inode, which distinguish it from a replacement at the same path.

    None if it does not exist.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
