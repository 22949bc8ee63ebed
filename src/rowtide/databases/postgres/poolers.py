"""Connection poolers, recognized by what they do: another process answers than the one that the connection reported.

A server reports the process of the session as the connection begins; a pooler, which lends sessions, reports a number
of its own. Whether it lends a session for a transaction only shows when two connections compete for one
(docs/decisions/0039).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo

_REFUSED = "unsupported startup parameter"
"""What PgBouncer says of a parameter that it neither passes on nor is told to ignore."""
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
            # No second session in time: this one is held, or all of a pool's are in use.
            return False
    return _lends_transactions[place]


def _compete(session: Session) -> bool:
    """Return whether a second connection's transaction gets this one's session, or this one another than before."""
    conninfo = make_conninfo(session.info.dsn, password=session.info.password or None)
    with _Competing.connect(conninfo, autocommit=True, prepare_threshold=None) as other:
        for _ in range(_TRIES):
            before = _ask_process(session)
            try:
                other.execute("begin")
            except psycopg.errors.ProtocolViolation:
                # It lends a session for a statement.
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
