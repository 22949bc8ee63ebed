"""Leases on PostgreSQL: a session-level advisory lock, held by a session that stays open as long as the lease.

The server ends the session of a silent process, for example a stopped one: see `SessionKeepalive`. A process that takes
or verifies a lease also reads the format of the publisher's metadata, which an upgrade raises first: so a process of an
earlier version that is still running writes nothing after that.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType

from sqlalchemy import Connection, Engine, text

from rowtide.core.formats import StoreFormat, parse_definition, require as require_format
from rowtide.databases.postgres.advisory_locks import LEASES, key_of_named_lease
from rowtide.databases.postgres.errors import TransactionsPooled, translated
from rowtide.databases.postgres.functions import recorded_definition
from rowtide.databases.postgres.poolers import place_of_pooler
from rowtide.databases.postgres.query_memo import made_once
from rowtide.databases.postgres.session_settings import require_session
from rowtide.databases.postgres.silent_sessions import watched_of
from rowtide.log.errors import LeaseHeld, LeaseLost
from rowtide.log.membership import SCHEMA
from rowtide.log.postgres.session_keepalive import SessionKeepalive
from rowtide.log.source_definition import FORMAT

_PAUSE_S = 0.2
_ENDING_S = 2.0
"""The server takes a moment to notice that a process has ended, longer under load. Until then that process still has
the lease, though no other process took it.
"""


def describe_holder() -> str:
    """Return a description of this process (host, process) for other processes to read."""
    return f"{socket.gethostname()} pid {os.getpid()}"


@made_once
def find_holder(connection: Connection, name: str) -> str | None:
    """Return the holder of a lease of this database: host, process, session; None if it is free."""
    holder = connection.execute(text(_HOLDER), _parameters(name)).scalar()
    return str(holder) if holder is not None else None


def end_sessions(connection: Connection, holder: str) -> None:
    """End the other sessions of a process that had a lease and is gone or stopped: they would keep their locks.

    Sessions that are younger than this connection are spared: a new process may have the name of the earlier one.
    """
    if holder != describe_holder():
        names = [f"rowtide {kind} on {holder}".encode()[:_NAME_BYTES].decode(errors="ignore") for kind in _KINDS]
        with translated():
            connection.execute(text(_END), {"names": names})


class AdvisoryLease:
    """A lease held by one open session. It ends with the session, also if the process crashes, or is stopped for too
    long.

    With `is_of_any_format` the database may have any format: for its migration. Raises `ConnectionFailed`,
    `TransactionsPooled`.
    """

    def __init__(self, connection: Connection, name: str, *, is_of_any_format: bool = False) -> None:
        self.connection = connection
        self._name = name
        self._is_of_any_format = is_of_any_format
        with translated():
            self._heartbeat = SessionKeepalive(connection)

    @classmethod
    def take(
        cls, engine: Engine, name: str, *, patience_s: float = _ENDING_S, is_of_any_format: bool = False
    ) -> AdvisoryLease:
        """Take a lease, waiting at most `patience_s` for its holder to release it. Raises `LeaseHeld`, naming the
        holder; unless `is_of_any_format`, `FormatNewer` and `FormatOutdated` for a database of another format.
        """
        with translated():
            # No transaction stays open with the lease: it would hold back vacuum for as long as the process runs.
            connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            require_session(connection.connection.driver_connection)
            deadline = time.monotonic() + patience_s
            while not connection.execute(text(_TRY), _parameters(name)).scalar_one():
                if time.monotonic() >= deadline:
                    holder = find_holder(connection, name)
                    connection.close()
                    raise LeaseHeld(name, holder or "a session that has just ended")
                time.sleep(_PAUSE_S)
        lease = cls(connection, name, is_of_any_format=is_of_any_format)
        try:
            lease.verify()
        except BaseException:
            lease.release()
            raise
        return lease

    def verify(self) -> None:
        """Raise `ConnectionFailed` if the session, and so the lease, is gone; `FormatNewer` if the database was
        upgraded meanwhile.
        """
        with translated():
            found = self.connection.execute(text(_SESSION)).one()
        session = watched_of(self.connection)
        # Behind a pooler in transaction mode, another session holds the advisory lock.
        if found.pid != session.known_pid:
            # The pooler's mode has changed since it was determined.
            raise TransactionsPooled(place_of_pooler(session))
        if not self._is_of_any_format:
            _require_writable(found.place, found.definition)

    def verifier(self) -> Callable[[], None]:
        """Return a function that verifies the lease from another thread, each time with a new session.

        It raises `LeaseLost` if the session that holds the lease is gone, `ConnectionFailed` if that is not known,
        `FormatNewer` if the database was upgraded meanwhile.
        """
        with translated():
            pid = self.connection.execute(text("select pg_backend_pid()")).scalar_one()
        return partial(_verify_session, self.connection.engine, self._name, pid)

    def release(self) -> None:
        self._heartbeat.end()
        # The session ends even if the engine pools connections.
        self.connection.invalidate()
        self.connection.close()

    def __enter__(self) -> AdvisoryLease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def verify_format(connection: Connection) -> None:
    """Raise `FormatNewer`, `FormatOutdated` unless this build may write to a database's definitions."""
    found = connection.execute(text(_FORMAT)).one()
    _require_writable(found.place, found.definition)


# `pg_locks` decides, not whether the pid lives: pids are reused, and a session can lose its lock by
# `pg_advisory_unlock`.
def _verify_session(engine: Engine, name: str, pid: int) -> None:
    with translated(), engine.connect() as connection:
        found = connection.execute(text(_IS_HELD), {**_parameters(name), "pid": pid}).one()
        _require_writable(found.place, found.definition)
        if not found.is_held:
            raise LeaseLost(name, find_holder(connection, name) or "nobody")


def _require_writable(place: str, definition: str | None) -> None:
    """Raise `FormatNewer`, `FormatOutdated` unless this build may write to a database. A database without a format is
    accepted here: reading its definitions refuses it.
    """
    stored = parse_definition(definition)
    if stored is not None:
        require_format(StoreFormat.require_writable, FORMAT, place, stored)


def _parameters(name: str) -> dict[str, int]:
    return LEASES.get(name) or key_of_named_lease(name)


_KINDS, _NAME_BYTES = ("capture", "snapshot", "difference"), 63
_END = """
select pg_terminate_backend(pid) from pg_stat_activity
where application_name = any(:names) and usename = session_user and datname = current_database()
  and backend_start < (select backend_start from pg_stat_activity where pid = pg_backend_pid())
"""

_TRY = "select pg_try_advisory_lock(:class, :key)"

_PLACE = f"current_database()::text as place, {recorded_definition(SCHEMA)} as definition"
_FORMAT = f"select {_PLACE}"
_SESSION = f"select pg_backend_pid() as pid, {_PLACE}"
_IS_HELD = f"""
select exists (
    select from pg_locks
    where locktype = 'advisory' and granted and classid = :class and objid = :key and pid = :pid
      and database = (select oid from pg_database where datname = current_database())
) as is_held, {_PLACE}
"""  # noqa: S608

_HOLDER = """
select format('%s (server pid %s, user %s, since %s)', a.application_name, a.pid, a.usename,
              to_char(a.backend_start, 'YYYY-MM-DD HH24:MI:SS'))
from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.classid = :class and l.objid = :key
  and l.database = (select oid from pg_database where datname = current_database())
"""
