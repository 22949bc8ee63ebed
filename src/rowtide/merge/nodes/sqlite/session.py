"""The connection to a SQLite file that takes part in a merge: its transactions, its log applied, and its errors."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Any, Self

from sqlalchemy import Connection, Select
from sqlalchemy.exc import DBAPIError

from rowtide.core.failpoints import failpoint
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.connect import begin_immediate, failure_of, path_of, rehearsal
from rowtide.databases.sqlite.errors import FileBusy, find_fault, is_busy
from rowtide.databases.sqlite.guarding import read_format, writing
from rowtide.databases.sqlite.sql_text import quote
from rowtide.merge.articles import DeviceLimits, Subscription
from rowtide.merge.catalogue import list_merged, list_publications, read_nickname
from rowtide.merge.errors.nodes import FileHasReaders, NodeBusy
from rowtide.merge.errors.rows import NOT_UTF_8, RowsRefused
from rowtide.merge.exchange_state import require_session
from rowtide.merge.nodes.node_tables import MetadataFormat
from rowtide.merge.nodes.sqlite.metadata import node_form
from rowtide.merge.nodes.sqlite.metadata.log_application import apply_log, is_logged
from rowtide.merge.nodes.sqlite.metadata.row_metadata import decode
from rowtide.merge.nodes.sqlite.metadata.system_tables import AGENT

CACHE = "pragma cache_size = -65536"
"""Cache size in KiB: metadata and rows are read and written by rowguid, at random places of the file."""
FOREIGN_KEY = ("SQLITE_CONSTRAINT_FOREIGNKEY", "FOREIGN KEY constraint failed")
"""The name and the text of SQLite's error for a foreign key."""
_OF_ROWS = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_ERROR)
"""SQLite's error codes about a row, not about the file."""
_OWN_IS_GONE = re.compile(r"no such (table|index): (main\.)?(MSmerge_|sysmerge|__sys)")
"""What SQLite says once a program has dropped a part of the metadata."""


class SqliteSession:
    """Foreign keys are enforced for merged rows, even if the file's other programs do not enable them."""

    def __init__(self, connection: Connection, limits: DeviceLimits | None = None) -> None:
        self.connection = connection
        self.limits = limits
        self.format = MetadataFormat(node_form.FORMAT)
        session = connection.connection.driver_connection
        assert isinstance(session, sqlite3.Connection)
        self.session = session
        self.session.text_factory = decode
        self.session.execute("pragma foreign_keys = on")
        self.session.execute(CACHE)
        self.path = path_of(self.session)

    def close(self) -> None:
        """Close the file; an uncommitted transaction is rolled back."""
        self.session.rollback()
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def read_together(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        if not node_form.is_prepared(self.session):
            return [[] for _ in statements]
        return [[dict(row) for row in self.connection.execute(each, values).mappings()] for each in statements]

    def read_ahead(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        return self.read_together(*statements, values=values)

    def require_session(self, subscription: Subscription) -> None:
        require_session(self.connection, subscription)

    @contextmanager
    def failing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._file_failure(error) from error
        except DBAPIError as error:
            if not isinstance(error.orig, sqlite3.Error):
                raise
            raise self._file_failure(error.orig) from error

    def working(self, step: Callable[[], bool]) -> AbstractContextManager[None]:  # noqa: ARG002 - no server
        return nullcontext()

    @contextmanager
    def transaction(
        self,
        *,
        is_durable: bool = True,
        is_repeatable: bool = False,  # noqa: ARG002 - nothing is sent
    ) -> Iterator[None]:
        self.format.require_writable()
        if self.session.in_transaction:
            # A part of it, as on PostgreSQL.
            with self.savepoint("merge_part"):
                yield
            return
        # Without a write-ahead log it is the commits that keep the file whole.
        is_synced = is_durable or not clock.has_own_snapshots(self.session)
        self.session.execute(f"pragma synchronous = {'full' if is_synced else 'normal'}")
        try:
            begin_immediate(self.session)
        except FileBusy as error:
            raise NodeBusy(self.path, str(error)) from error
        try:
            self._verify_format()
            with writing(self.session, AGENT):
                yield
            failpoint("sqlite_merge_commit.before")
            self._commit()
        except sqlite3.IntegrityError as error:
            # A deferred foreign key.
            self.session.rollback()
            raise self.failure(error, "the transaction") from error
        except sqlite3.Error as error:
            self.session.rollback()
            raise self._file_failure(error) from error
        except BaseException:
            self.session.rollback()
            raise
        failpoint("sqlite_merge_commit.after")

    def _verify_format(self) -> None:
        """Raise `FormatNewer` and the like if an upgrade has migrated the metadata since they were accepted."""
        if self.format.is_known and node_form.is_there(self.session):
            self.format.accept(self.path, read_format(self.session, node_form.FORMAT_VIEW))
            self.format.require_writable()

    def _commit(self) -> None:
        try:
            self.session.commit()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or clock.has_own_snapshots(self.session):
                raise
            raise FileHasReaders(self.path, str(error)) from error

    @contextmanager
    def rehearsing(self, statements: list[str]) -> Iterator[None]:
        try:
            with rehearsal(self.session, statements), writing(self.session, AGENT):
                yield
        except FileBusy as error:
            raise NodeBusy(self.path, str(error)) from error

    @contextmanager
    def trying(self) -> Iterator[None]:
        with self.rehearsing([]):
            self.apply()
            yield

    def apply_log(self) -> None:
        if is_logged(self.session):
            with self.transaction(is_durable=False):
                self.apply()

    def apply(self) -> None:
        """Apply the log in the caller's write transaction."""
        if is_logged(self.session):
            apply_log(self.session, list_merged(self.connection))

    @contextmanager
    def altering(self) -> Iterator[None]:
        # Dropping a table would delete its rows, with the actions that foreign keys have for that.
        self.session.execute("pragma foreign_keys = off")
        try:
            with self.transaction():
                yield
        finally:
            self.session.execute("pragma foreign_keys = on")

    def forget_tables(self) -> None:
        made = "select type, name from temp.sqlite_schema where name like 'rowtide%' and type in ('table', 'view')"
        for kind, name in self.session.execute(made).fetchall():
            self.session.execute(f"drop {kind} temp.{quote(name)}")

    def is_publisher(self) -> bool:
        """Whether foreign keys' actions are those that the publication's tables had before."""
        own = read_nickname(self.connection)
        return any(publication.publisher == own for publication in list_publications(self.connection))

    @contextmanager
    def refusing(self, subject: str) -> Iterator[None]:
        """Write all or nothing, in one savepoint; raise our errors for the file's about a subject."""
        try:
            with self.savepoint("merge_rows"):
                yield
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise self.failure(error, subject) from error

    @contextmanager
    def savepoint(self, name: str) -> Iterator[None]:
        """Undo what is done within if it raises."""
        self.session.execute(f"savepoint {name}")
        try:
            yield
        except BaseException:
            if self.session.in_transaction:
                self.session.execute(f"rollback to {name}")
            raise
        finally:
            if self.session.in_transaction:
                self.session.execute(f"release {name}")

    def failure(self, error: Exception, subject: str) -> Exception:
        """Return our error for one raised while writing rows."""
        if isinstance(error, UnicodeError):
            return RowsRefused(subject, *NOT_UTF_8)
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISMATCH)
        if code & 0xFF in _OF_ROWS and not _OWN_IS_GONE.match(str(error)):
            name, reason = getattr(error, "sqlite_errorname", type(error).__name__), " ".join(str(error).split())
            # `on delete restrict` is a trigger of SQLite's own.
            return RowsRefused(subject, FOREIGN_KEY[0] if reason == FOREIGN_KEY[1] else name, reason)
        return self._file_failure(error)

    def _file_failure(self, error: Exception) -> Exception:
        reason = " ".join(str(error).split())
        limited = failure_of(self.session, self.path, error)
        if limited is not None:
            return limited
        if isinstance(error, sqlite3.Error) and is_busy(error):
            return NodeBusy(self.path, reason)
        return find_fault(self.path, error)
