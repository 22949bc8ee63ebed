"""Connections to a pooler that lends another session for each transaction: for reading alone.

The session belongs to other programs before and after. So each transaction sets rowtide's settings for itself, is read
only, and is rolled back: nothing of it stays. What needs a session of its own is refused with `TransactionsPooled`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Self

import psycopg
from psycopg.pq import TransactionStatus

from rowtide.databases.postgres.errors import TransactionsPooled
from rowtide.databases.postgres.silence import SESSION, WatchedConnection

_READ_ONLY = "pg_catalog.set_config('transaction_read_only', 'on', true)"


class PooledConnection(WatchedConnection):
    """A connection whose transactions are each in a session of their own."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._pinning = _READ_ONLY

    def pin(self, expressions: str) -> None:
        """Have each transaction evaluate expressions first, which set its settings."""
        # Prepared statements stay in the session in which they were.
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
            # The pooler lends a session for a statement.
            raise self._refusal() from error
        while begun.nextset():
            pass
        row = begun.fetchone()
        assert row is not None
        self.begin_watch(*row[-2:])

    def commit(self) -> None:
        # Whatever a query has set for longer than its transaction would be set for the next program.
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


def require_session(connection: object) -> None:
    """Refuse a connection that has another session for each transaction. Raises `TransactionsPooled`."""
    if isinstance(connection, PooledConnection):
        connection.refuse()
