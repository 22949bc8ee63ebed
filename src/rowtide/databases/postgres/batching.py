"""A connection that defers statements without a needed result until the next one with a result: one round trip for
both.

Each wait for a result costs a round trip; on the networks that devices have, round trips are most of the duration of a
short task. Deferred statements are sent in order, in libpq's pipeline mode.
"""

from __future__ import annotations

import logging
import selectors
import time
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import sql
from psycopg.adapt import AdaptersMap
from psycopg.pq import TransactionStatus
from psycopg.types.string import TextLoader
from sqlalchemy import text
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.owner_functions import functions_path
from rowtide.databases.postgres.received_texts import Parameters, ReceivedTexts, Text, length_of, shortened
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS
from rowtide.databases.postgres.silent_sessions import WatchedConnection

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import Dialect

    from rowtide.databases.urls import DatabaseUrl

_END = "set constraints all immediate"
"""Runs at the end of a transaction, so that deferred constraints are checked while a failure can still be assigned to a
row.

Users' deferred triggers run there, and those that they defer again at the commit: under the path of the role's own.
"""
Rows = list[tuple[Any, ...]]


MOST_SENT = 256 * 1024
"""So many characters of long parameters are sent while a transaction is open, whatever the network: sixteen seconds at
128 kbit/s.
"""
_MOST_SENT_S = 0.25
"""On a fast network, more characters are sent then, if they take no longer than this by the last measurement."""
_TIMED = MOST_SENT // 8
"""The least number of characters from which the network's speed is measured."""


class NotReceived(Exception):
    """Parameters are too long to be sent while a transaction is open: `receive` sends them outside of one."""

    def __init__(self, texts: Sequence[Text]) -> None:
        super().__init__()
        self.texts = texts


class BatchingConnection(WatchedConnection):
    """A connection in autocommit mode; `begin` opens a transaction, in which `put` defers statements.

    Parameters that are too long to be sent in an open transaction are received before it. If code of untrusted roles
    may run in its transactions, `distrust` sets the statements that run at their ends.
    """

    minds_blockers = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waiting: list[tuple[str, Parameters]] = []
        self._is_open = False
        self._is_repeatable = False
        self._received = ReceivedTexts()
        self._characters_s = 0.0
        """The measured speed of sending long parameters, including the server's work."""
        self._step: Callable[[], bool] | None = None
        self._checks: Sequence[str] = ()
        self._repairs: Sequence[str] = ()
        self.cursor_factory = _FlushingCursor

    @property
    def is_open(self) -> bool:
        """Whether a transaction of `begin` is open."""
        return self._is_open

    @property
    def is_in_transaction(self) -> bool:
        """Whether any transaction is open, or deferred."""
        return self._is_open or self.info.transaction_status is not TransactionStatus.IDLE

    @property
    def most_sent(self) -> int:
        """How many characters of long parameters are sent while a transaction is open."""
        return max(MOST_SENT, int(self._characters_s * _MOST_SENT_S))

    def begin(self, *statements: str, is_repeatable: bool = False) -> None:
        """Open a transaction by these statements, which are sent with the first that needs an answer.

        A repeatable transaction raises `NotReceived` for texts that are too long: roll it back, and repeat it once they
        are received.
        """
        self._waiting = [(each, None) for each in statements]
        self._is_open, self._is_repeatable = True, is_repeatable

    def receive(self, texts: Sequence[Text], *, is_more: bool = False) -> None:
        """Send texts outside of transactions, in short pieces; statements with them are sent without them then.

        With `is_more` those that were received before stay, else they are forgotten.
        """
        if not is_more:
            self._received.forget()
        try:
            for statements in self._received.statements(texts):
                # Each piece is waited for, so that both ends notice progress.
                with self._timing(sum(map(length_of, statements))), self.sending(always=True):
                    for statement, parameters in statements:
                        psycopg.Cursor(self).execute(sql.SQL(statement), parameters)
        except BaseException:
            self.discard_received()
            raise

    def discard_received(self) -> None:
        """Note that the received texts no longer exist."""
        self._received = ReceivedTexts()

    def distrust(self, checks: Sequence[str], repairs: Sequence[str]) -> None:
        """Run statements, which may fail, before the end of each transaction of `begin`, and others after it."""
        self._checks, self._repairs = checks, repairs
        # Code of others could give a prepared statement's name to another one.
        self.prepare_threshold = None

    @property
    def _ends(self) -> Sequence[str]:
        return (*self._checks, *functions_path(), _END, *self._checks, "commit", *self._repairs)

    def put(self, statement: str, parameters: Parameters = None) -> None:
        """Run a statement without a result; in a transaction of `begin`, defer it until the next one with a result."""
        self._waiting.append((statement, parameters))
        if not self._is_open:
            self.flush()

    def put_first(self, *statements: str) -> None:
        """Run statements as `put`; if the transaction of `begin` was not sent yet, as the first ones of it."""
        place = 1 if self._is_open and self.info.transaction_status is TransactionStatus.IDLE else len(self._waiting)
        self._waiting[place:place] = [(each, None) for each in statements]
        self.flush()

    def flush(self) -> None:
        """Send the deferred statements. Raises the first error, after which the rest is not executed."""
        with self.sending():
            pass

    def read(
        self,
        *statements: tuple[str, Parameters],
        texts: bool = False,
        begins: Sequence[str] = (),
        ends: Sequence[str] = (),
    ) -> list[Rows]:
        """Return the rows of statements, in one round trip with the deferred ones.

        `begins` are statements before them, `ends` behind them.

        With `texts`, each value is the server's text.
        """
        cursors: list[psycopg.Cursor[tuple[Any, ...]]] = []
        with self.sending(always=len(statements) + len(ends) > 1):
            for begin in begins:
                self.queue(begin)
            for statement, parameters in statements:
                cursor = self.text_cursor() if texts else psycopg.Cursor(self)
                cursor.execute(sql.SQL(statement), parameters)
                cursors.append(cursor)
            for end in ends:
                self.queue(end)
        return [[] if cursor.description is None else cursor.fetchall() for cursor in cursors]

    def read_last(self, *statements: tuple[str, Parameters], texts: bool = False) -> list[Rows]:
        """Return the rows of statements, and commit the transaction of `begin` after them, in one round trip."""
        answers = self.read(*statements, ends=self._ends, texts=texts)
        self._is_open = False
        return answers

    @contextmanager
    def working(self, step: Callable[[], bool]) -> Iterator[None]:
        """Within the block, run steps of other work while waiting for the result of a pipeline.

        A step should take a few milliseconds, must not use this connection nor raise, and returns whether there is
        another one.
        """
        self._step = step
        try:
            yield
        finally:
            self._step = None

    def text_cursor(self) -> psycopg.Cursor[tuple[Any, ...]]:
        """Return a cursor that returns each value as the server's text; it does not send deferred statements first."""
        return _TextCursor(self)

    def commit_open(self) -> None:
        """Commit a transaction of `begin`."""
        self._waiting += [(each, None) for each in self._ends]
        self.flush()
        self._is_open = False

    def roll_back(self) -> None:
        """Discard deferred statements, and roll back the transaction at the server."""
        self._waiting, self._is_open = [], False
        if not self.closed and self.info.transaction_status is not TransactionStatus.IDLE:
            self.execute("rollback")

    @contextmanager
    def sending(self, *, always: bool = False) -> Iterator[None]:
        """Send what waits together with what is executed within."""
        waiting, self._waiting = self._waiting, []
        length = sum(map(length_of, waiting)) if self._is_open else 0
        if length > self.most_sent:
            waiting, missing = shortened(waiting, self._received)
            length = sum(map(length_of, waiting))
            if missing and self._is_repeatable and length > self.most_sent:
                raise NotReceived(missing)
        if not waiting and not always:
            yield
            return
        try:
            with self._timing(length), self.pipeline():
                for statement, parameters in waiting:
                    if parameters is None:
                        self.queue(statement)
                    else:
                        psycopg.Cursor(self).execute(sql.SQL(statement), parameters)
                yield
                if self._step is not None:
                    self._work(self._step)
        except BaseException:
            # The driver assumes that statements are prepared which the server skipped after the failed one.
            self._prepared.clear()
            raise

    def queue(self, statement: str) -> None:
        """Have a statement without parameters run within `sending`; nobody asks for its rows.

        A cursor of its own would cost more than most such statements do, and would send each alone.
        """
        for _ in self._exec_command(statement):
            raise AssertionError("outside of a pipeline it would be waited for")

    @contextmanager
    def _timing(self, length: int) -> Iterator[None]:
        """Measure the speed of sending within the block, if enough is sent."""
        began = time.monotonic()
        yield
        if length >= _TIMED:
            self._characters_s = length / max(time.monotonic() - began, 1e-6)

    def _work(self, step: Callable[[], bool]) -> None:
        """Take steps until there is an answer, or none is left."""
        # The server buffers its results until it is asked for them.
        self.pgconn.send_flush_request()
        with selectors.DefaultSelector() as selector:
            selector.register(self.pgconn.socket, selectors.EVENT_READ)
            # Data that did not fit the socket's buffer is sent between the steps.
            while self.pgconn.flush() >= 0 and not selector.select(0) and step():
                pass

    @contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - psycopg's
    ) -> Iterator[psycopg.Transaction]:
        self.flush()
        with super().transaction(savepoint_name, force_rollback) as transaction:
            yield transaction


@lru_cache(maxsize=1)
def _text_adapters() -> AdaptersMap:
    """Return what loads each value as the server's text: made once, as it takes longer than most statements."""
    adapters = AdaptersMap(psycopg.adapters)
    for known in adapters.types:
        for code in filter(None, (known.oid, known.array_oid)):
            adapters.register_loader(code, TextLoader)
    return adapters


class _TextCursor(psycopg.Cursor[tuple[Any, ...]]):
    """Gives each value as the server's text."""

    @property
    def adapters(self) -> AdaptersMap:
        return _text_adapters()


class _FlushingCursor(psycopg.Cursor[tuple[Any, ...]]):
    """Sends what waits before each statement."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        with _batching(self).sending():
            super().execute(query, params, **options)
        return self

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
        _batching(self).flush()
        super().executemany(query, params_seq, **options)

    def copy(self, *arguments: Any, **options: Any) -> Any:
        _batching(self).flush()
        return super().copy(*arguments, **options)


def _batching(cursor: psycopg.Cursor[tuple[Any, ...]]) -> BatchingConnection:
    assert isinstance(cursor.connection, BatchingConnection)
    return cursor.connection


class BatchingDialect(PGDialect_psycopg):
    """SQLAlchemy's dialect for such connections: statements without a needed result are deferred, and the server's
    version is not queried.
    """

    supports_statement_cache = True

    def connect(self, *arguments: Any, **options: Any) -> Any:
        return BatchingConnection.connect(*arguments, **options)

    def initialize(self, connection: Connection) -> None:
        number = session_of(connection).info.server_version
        self.server_version_info = (number // 10000, number % 10000)
        self.supports_identity_columns = True
        self.default_schema_name = None
        # These settings are pinned.
        self.default_isolation_level = "READ COMMITTED"
        self._backslash_escapes = False

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        session = cursor.connection
        is_write = context is not None and (context.isinsert or context.isupdate or context.isdelete)
        waits = context is not None and context.execution_options.get(_WAITING)
        if session.is_open and (waits or (is_write and not context.compiled.effective_returning)):
            session.put(statement, parameters)
        else:
            cursor.execute(statement, parameters)

    def do_executemany(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        for each in parameters:
            self.do_execute(cursor, statement, each, context)


registry.register("postgresql.rowtide_batching", __name__, BatchingDialect.__name__)


class _IsOfNews(logging.Filter):
    """Leaves out that a pipeline in which a statement failed could not be ended: the statement's error is raised."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("error ignored terminating")


_IS_OF_NEWS = _IsOfNews()


def open_batching_engine(
    url: str | DatabaseUrl, *, application_name: str = "rowtide", settings: Mapping[str, str] = PINNED_SETTINGS
) -> Engine:
    """Return an engine as `open_engine` does, whose connections are `BatchingConnection`."""
    logging.getLogger("psycopg").addFilter(_IS_OF_NEWS)
    return open_engine(url, application_name=application_name, settings=settings, driver="rowtide_batching")


_WAITING = "rowtide_waits"
DEFERS = {_WAITING: True}
"""Execution options of a statement without an answer that is no insert, update or delete: in a transaction it waits."""


def execute_together(
    connection: Connection, requests: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[Sequence[tuple[Any, ...]]]:
    """Return the rows of queries with named parameters, as `text` takes them, in one round trip; rows have names."""
    session = session_of(connection)
    cursors = []
    with session.sending(always=True):
        for query, parameters in requests:
            cursor = psycopg.Cursor(session)
            cursors.append(cursor.execute(sql.SQL(_compiled(connection.dialect, query)), parameters))
    return [_named(cursor) for cursor in cursors]


@lru_cache(maxsize=100)
def _compiled(dialect: Dialect, query: str) -> str:
    return str(text(query).compile(dialect=dialect))


def _named(cursor: psycopg.Cursor[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    make = _row_type(tuple(column.name for column in cursor.description or ()))
    return [make(*row) for row in cursor]


@lru_cache(maxsize=100)
def _row_type(names: tuple[str, ...]) -> Callable[..., tuple[Any, ...]]:
    # Expressions have no name of their own.
    return namedtuple("Row", names, rename=True)


def session_of(connection: Connection) -> BatchingConnection:
    """Return the driver's connection of an engine of `open_batching_engine`."""
    session = connection.connection.driver_connection
    assert isinstance(session, BatchingConnection)
    return session
