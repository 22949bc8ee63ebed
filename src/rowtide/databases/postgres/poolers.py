"""Connection poolers: recognised by their behaviour, and read through in transaction mode.

A server reports the process of the session as the connection begins; a pooler, which lends sessions, reports a number
of its own. Whether it lends a session for a transaction only shows when two connections compete for one
(docs/decisions/0039). Such a session belongs to other programs before and after. So each transaction sets rowtide's
settings for itself, is read only, and is rolled back: nothing of it stays. What needs a session of its own is refused
with `TransactionsPooled`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Self, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from rowtide.databases.postgres.errors import TransactionsPooled
from rowtide.databases.postgres.silent_sessions import SESSION, WatchedConnection

_REFUSED = "unsupported startup parameter"
"""PgBouncer's message for a parameter that it neither passes on nor is configured to ignore."""
_TRIES = 5
_PATIENCE_S = 10.0

Session = psycopg.Connection[tuple[Any, ...]]
Connected = TypeVar("Connected")
_lends_transactions: dict[tuple[str, ...], bool] = {}
"""By host, port, database and user: what was found in this process."""


def place_of(session: Session) -> tuple[str, ...]:
    """Return the database and the role of a session."""
    info = session.info
    return info.host, str(info.port), info.dbname, info.user


def refuses_parameters(message: str) -> bool:
    """Return whether a pooler refused a connection for one of its startup parameters."""
    return _REFUSED in message


def connect_without_options(connect: Callable[[str], Connected], own: str, given: str) -> Connected:
    """Connect with `options` of rowtide's own; where a pooler refuses them, with those that were given alone."""
    try:
        return connect(own)
    except psycopg.OperationalError as error:
        if not refuses_parameters(str(error)):
            raise
    return connect(given)


def lends_transactions(session: Session) -> bool:
    """Return whether the pooler that answers in a session lends another one for each transaction.

    The session is in autocommit mode. What was found is known from then on in this process.
    """
    place = place_of(session)
    if place not in _lends_transactions:
        try:
            _lends_transactions[place] = _compete(session)
        except psycopg.Error:
            # No second session in time: the first one is reserved, or all sessions of the pool are in use.
            return False
    return _lends_transactions[place]


def _compete(session: Session) -> bool:
    """Return whether a second connection's transaction gets this one's session, or this one another than before."""
    conninfo = make_conninfo(session.info.dsn, password=session.info.password or None)
    with _Competing.connect(conninfo, autocommit=True, prepare_threshold=None) as other:
        # A pool with a free session may assign the same one again: a single match proves nothing.
        for _ in range(_TRIES):
            before = _ask_process(session)
            try:
                other.execute("begin")
            except psycopg.errors.ProtocolViolation:
                # The pooler is in statement mode.
                return True
            if _ask_process(other) == before or _ask_process(session) != before:
                return True
            other.execute("rollback")
    return False


def _ask_process(session: Session) -> object:
    return session.execute("select pg_catalog.pg_backend_pid()", prepare=False).fetchone()


class _Competing(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits for each answer no longer than a pooler should need to lend a session."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        return super().wait(gen, interval, _PATIENCE_S if timeout is None else timeout)


_READ_ONLY = "pg_catalog.set_config('transaction_read_only', 'on', true)"


class PooledConnection(WatchedConnection):
    """A connection whose transactions are each in a session of their own."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._pinning = _READ_ONLY

    def pin(self, expressions: str) -> None:
        """Let each transaction first evaluate expressions that set its settings."""
        # Prepared statements exist only in the session that prepared them.
        self.prepare_threshold = None
        self.cursor_factory = _cursor_of(self.cursor_factory)
        self._pinning = f"{_READ_ONLY}, {expressions}"

    @contextmanager
    def within_transaction(self) -> Iterator[None]:
        """Begin a transaction with its settings, unless in one; in autocommit mode it ends with the block."""
        is_first = self.pgconn.transaction_status == TransactionStatus.IDLE
        if is_first:
            self._begin()
        try:
            yield
        except psycopg.errors.ReadOnlySqlTransaction as error:
            raise self._refusal() from error
        finally:
            if is_first and self.autocommit and not self.closed:
                psycopg.Cursor(self).execute("rollback")

    def _begin(self) -> None:
        begin = "begin; " if self.autocommit else ""
        try:
            begun = psycopg.Cursor(self).execute(f"{begin}select {self._pinning}, {SESSION}".encode())
        except psycopg.errors.ProtocolViolation as error:
            # The pooler is in statement mode.
            raise self._refusal() from error
        while begun.nextset():
            pass
        row = begun.fetchone()
        assert row is not None
        self.begin_watch(*row[-2:])

    def commit(self) -> None:
        # A setting that a query makes beyond its transaction would affect the next program.
        self.rollback()

    def transaction(self, *_: Any, **__: Any) -> NoReturn:
        self.refuse()

    def refuse(self) -> NoReturn:
        """Refuse what needs a session. Raises `TransactionsPooled`."""
        raise self._refusal()

    def _refusal(self) -> TransactionsPooled:
        return TransactionsPooled(place_of_pooler(self))


def place_of_pooler(connection: psycopg.Connection[Any]) -> str:
    """Return the address of the pooler that a connection goes to."""
    return f"{connection.info.host}:{connection.info.port}"


class _PooledCursor(psycopg.Cursor[tuple[Any, ...]]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        session = self.connection
        assert isinstance(session, PooledConnection)
        with session.within_transaction():
            return super().execute(query, params, **options)

    def executemany(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def copy(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def stream(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        assert isinstance(self.connection, PooledConnection)
        self.connection.refuse()


def _cursor_of(cursor: type[psycopg.Cursor[Any]]) -> type[psycopg.Cursor[Any]]:
    """Return a class of cursors like another, for pooled connections."""
    return _PooledCursor if issubclass(_PooledCursor, cursor) else type("_PooledCursor", (cursor, _PooledCursor), {})
