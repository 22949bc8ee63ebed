"""Alter tables in use: in short transactions, with slow steps outside of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, TextClause, event

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.locks import limit_wait, retry_locked
from rowtide.databases.postgres.quoting import statement

Result = TypeVar("Result")
Action = Callable[[Connection], Result]


class Alterations(Protocol):
    """Runs the steps of an alteration in order."""

    def run(self, table: str, action: Action[Result]) -> Result:
        """Run an action in a transaction with a short lock timeout. Raises `LockNotObtained`."""

    def run_alone(self, statement: TextClause) -> int:
        """Run a statement in its own transaction, without lock timeout; return the number of rows written."""

    def tell(self, message: str) -> None:
        """Report a step that takes long."""


class Committing:
    """Alterations that take effect, each step by itself."""

    def __init__(self, engine: Engine, on_progress: Callable[[str], None] = lambda _message: None) -> None:
        self._engine = engine
        self._on_progress = on_progress

    def tell(self, message: str) -> None:
        self._on_progress(message)

    def run(self, table: str, action: Action[Result]) -> Result:
        return retry_locked(self._engine, table, partial(self._attempt, action))

    def run_alone(self, statement: TextClause) -> int:
        with translated(), self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return connection.execute(statement).rowcount

    def _attempt(self, action: Action[Result]) -> Result:
        with translated(), self._engine.begin() as connection:
            connection.execute(limit_wait())
            result = action(connection)
            failpoint("tracking_commit.before")
        failpoint("tracking_commit.after")
        return result


class Rehearsing:
    """Alterations that are rolled back at the end; statements that run alone are only recorded."""

    def __init__(self, connection: Connection, statements: list[str]) -> None:
        self._connection = connection
        self._statements = statements

    def run(self, table: str, action: Action[Result]) -> Result:  # noqa: ARG002 - of the protocol
        self._connection.execute(limit_wait())
        return action(self._connection)

    def run_alone(self, statement: TextClause) -> int:
        self._statements.append(str(statement.compile(self._connection)))
        return 0

    def tell(self, message: str) -> None:
        """No effect: nothing takes long."""


def execute_all(connection: Connection, statements: Iterable[str]) -> None:
    """Execute statements without parameters, in the caller's transaction."""
    for sql in statements:
        connection.execute(statement(sql))


@contextmanager
def rehearsing(engine: Engine, statements: list[str]) -> Iterator[Rehearsing]:
    """Yield alterations without effect; their statements are appended to a list."""
    with translated(), engine.connect() as connection, connection.begin() as transaction:
        with rehearsing_on(connection, statements) as rehearsed:
            yield rehearsed
        transaction.rollback()


@contextmanager
def rehearsing_on(connection: Connection, statements: list[str]) -> Iterator[Rehearsing]:
    """Yield alterations in the caller's transaction, which rolls them back; their statements are appended to a list."""
    note = partial(_note_statement, statements)
    event.listen(connection, "before_cursor_execute", note)
    try:
        yield Rehearsing(connection, statements)
    finally:
        event.remove(connection, "before_cursor_execute", note)


def _note_statement(noted: list[str], _connection: Connection, _cursor: object, sql: str, *_more: Any) -> None:
    """Record a statement that alters something."""
    if not sql.lstrip().lower().startswith("select"):
        noted.append(sql)
