"""Sessions that are kept for the rest of an operation.

Enabling a database is eight transactions, each on a session of its own: five milliseconds of processor time for each,
most of it at the server, as much again for its first statements, and over a network with TLS several round trips.
Nothing is kept between operations: an idle session would keep a database from being dropped, and a forked process would
share it. Merge and tracking do not use it, since triggers that others can change run in their sessions. What a step
notes in a connection's `info` is there for the next one, unless it is removed at `checkin`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain

from sqlalchemy.pool import ConnectionPoolEntry, NullPool

_Kept = dict["PoolOfOperations", list[ConnectionPoolEntry]]
_kept: ContextVar[_Kept | None] = ContextVar("_kept", default=None)
"""The unused sessions of the operation that this thread is in; None outside of one."""


@contextmanager
def keeping_sessions() -> Iterator[None]:
    """Keep the sessions that this thread returns to engines of `open_engine`, for its next connection, until the end.

    Also a decorator. Sessions with locks or settings of their own end as elsewhere: they are invalidated, as those of
    `open_session` are.
    """
    if _kept.get() is not None:
        yield
        return
    kept: _Kept = {}
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)
        for session in chain.from_iterable(kept.values()):
            session.close()


class PoolOfOperations(NullPool):
    """Keeps connections only within `keeping_sessions`."""

    def _do_get(self) -> ConnectionPoolEntry:
        unused = (_kept.get() or {}).get(self)
        return unused.pop() if unused else super()._do_get()

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        kept = _kept.get()
        if kept is None or record.dbapi_connection is None:
            super()._do_return_conn(record)
        else:
            kept.setdefault(self, []).append(record)
