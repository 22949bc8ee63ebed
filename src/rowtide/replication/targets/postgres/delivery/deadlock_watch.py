"""Deadlocks with programs of the subscriber's, which the agent's transaction is to lose.

The server looks for a deadlock once for each wait, a while after it began, and ends the transaction that has looked. A
program that begins to wait for an agent which waits for it already would be the one to look: so the agent looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psycopg

from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.errors import translated
from rowtide.events.catalogue import DeadlocksNotWatched
from rowtide.events.event import emit

_PREPARED = 0
"""What a prepared transaction has instead of a process."""
_WAITING = """
with recursive waiting (process) as (
    select pg_catalog.unnest(pg_catalog.pg_blocking_pids(own)) from pg_catalog.unnest(%(own)s::int[]) own
    where not exists (
        select from pg_catalog.pg_locks l where l.pid = own and not l.granted and l.locktype = 'extend')
    union
    select pg_catalog.unnest(pg_catalog.pg_blocking_pids(process)) from waiting
)
select from waiting where process = any (%(blocking)s::int[]) limit 1
"""
"""Two that add pages to one table wait for each other for a moment, and not for a commit."""


def is_deadlocked(watcher: psycopg.Connection, own: Sequence[int], *, or_prepared: bool = False) -> bool:
    """Return whether one of our sessions waits for another or itself, at once or behind programs.

    `or_prepared`: or for a prepared transaction, which may be of one of them. Raises as `translated`.
    """
    blocking = [*own, *((_PREPARED,) if or_prepared else ())]
    with translated():
        return watcher.execute(_WAITING, {"own": list(own), "blocking": blocking}).fetchone() is not None


class DeadlockWatch:
    """Detects a deadlock between a session of ours and a program, and cancels the session's statement."""

    def __init__(self, watched: psycopg.Connection, connect: Callable[[], psycopg.Connection]) -> None:
        """`connect` opens the connection to look from, when it is first needed."""
        self._watched = watched
        self._connect = connect
        self._watcher: psycopg.Connection | None = None
        self._is_blind = False
        self.has_ended_one = False

    def look(self) -> None:
        """Look once; a subscriber that gives no connection to look from is delivered to as before."""
        if self._is_blind:
            return
        try:
            self._watcher = self._watcher or self._connect()
            if is_deadlocked(self._watcher, [self._watched.info.backend_pid]):
                self.has_ended_one = True
                with translated():
                    self._watched.cancel_safe()
        except RowtideError as error:
            self._is_blind = True
            emit(DeadlocksNotWatched(error))

    def close(self) -> None:
        """Close the connection to look from."""
        if self._watcher is not None:
            self._watcher.close()
