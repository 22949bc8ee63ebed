"""Sessions that the server ends if their process is silent for too long.

A process that is stopped, or whose machine is paused, keeps its connections, and would hold their locks for ever. So a
session that holds locks for long runs a trivial query periodically, in a thread of its own: a long cycle, a copy or a
start of Spark does not end it. The server ends a silent one by `idle_session_timeout`, which any role may set
(docs/decisions/0006).
"""

from __future__ import annotations

import threading
from types import TracebackType

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from rowtide.databases.postgres.silent_sessions import watched_of

_BEATS = 6
"""How many beats fit into the time of silence, so that a late one does no harm."""
_END_S = 5.0
"""How long `end` waits for a beat that is running."""


class SessionKeepalive:
    """Keeps a session alive while its process runs; without a beat the server ends it after the time of silence.

    The connection is in autocommit mode, and may be used by one other thread.
    """

    def __init__(self, connection: Connection) -> None:
        """Raises psycopg's errors."""
        self._session = session = watched_of(connection)
        for name in ("idle_session_timeout", "idle_in_transaction_session_timeout"):
            session.execute(sql.SQL(f"set {name} = '{session.silence_s}s'"))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="rowtide-heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._ended.wait(self._session.silence_s / _BEATS):
            try:
                self._session.execute("select 1")
            except psycopg.Error:
                # Not raised here: the next statement of the session fails with the reason.
                return

    def end(self) -> None:
        """Stop the beats: the session is about to be closed."""
        self._ended.set()
        self._thread.join(_END_S)

    def __enter__(self) -> SessionKeepalive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
