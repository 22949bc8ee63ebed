"""Sessions that the server ends when their process is silent: a frozen one would hold their locks for ever.

A process that is stopped, or whose machine is paused, keeps its connections. So a session that holds something for
long says a word from time to time, from a thread of its own: a long cycle, a copy, or a start of Spark is no silence.
The server ends it by `idle_session_timeout`, which nobody needs a right for (docs/decisions/0006).
"""

from __future__ import annotations

import threading
from types import TracebackType

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from rowtide.databases.postgres.silence import watched_of

_BEATS = 6
"""How many words are said within the time of silence."""
_END_S = 5.0
"""How long the end of a beat is waited for."""


class SessionKeepalive:
    """Keeps a session alive while its process runs; the server ends it after the time of silence otherwise.

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
                # The next statement of the session fails, and says why.
                return

    def end(self) -> None:
        """Let the session be silent: it is about to be closed."""
        self._ended.set()
        self._thread.join(_END_S)

    def __enter__(self) -> SessionKeepalive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
