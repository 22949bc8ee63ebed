"""Silent sessions: a program waits for a reply that does not come, or a server for a program that is gone.

Keepalives and `tcp_user_timeout` end a connection whose network is gone, not one behind a device that continues
acknowledging, and no timeout of the server's ends a session that waits in the middle of a message, up to PostgreSQL 16.
So a waiting program looks, with a second connection, whether the server is working for it, and whether sessions of
rowtide's are silent. It terminates these, as each role may terminate its own sessions (docs/decisions/0007).
"""

from __future__ import annotations

import math
import os
import select
import socket
import struct
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, LiteralString, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.waiting import Ready

from rowtide.databases.postgres.denied import find_grant
from rowtide.events.catalogue import SilentSessionEnded
from rowtide.events.event import emit

if TYPE_CHECKING:
    from sqlalchemy import Connection

SILENCE_S = 60
"""A session is silent after this time without a message, unless `SETTING` says otherwise."""
MISSING_GRANT = "rowtide_missing_grant"
"""The attribute of psycopg's errors that has the missing grant."""
SETTING = "rowtide.silence_timeout"
"""A setting of a session, role, database or server: seconds."""
SLOWEST_BYTES_S = 8_000
"""The rate of the slowest network: the time for an answer is extended by what sending takes at this rate."""
MERGE = "rowtide merge"
"""The application_name of merge's sessions: their transactions wait for nothing but short messages of their program."""
SESSION = f"pg_catalog.pg_backend_pid(), pg_catalog.current_setting('{SETTING}', true)"
"""Expressions that a session evaluates as it begins: see `WatchedConnection.begin_watch`."""

_TRANSACTION_TIMES = 10
"""The longest transaction of a merge, as a multiple of the time of silence."""
_LEAST_S, _MOST_S = 1, 86_400
_LOOKS = 4
"""How often a waiting program looks within the time of silence."""
_MOST_LOOK_S = 10
"""The limit of each step of a look; it is never longer than the time of silence."""
_TRANSACTION_TIMEOUT_FROM = 170000
_BYTES_ACKED = struct.Struct("=Q")
_BYTES_ACKED_AT = 120
"""Where Linux has `tcpi_bytes_acked` in its tcp_info."""

Answer = TypeVar("Answer")


class NotAnswered(psycopg.OperationalError):
    """The server did not answer in time."""

    def __init__(self, silence_s: int, reason: str) -> None:
        super().__init__(reason)
        self.silence_s = silence_s
        self.reason = reason


def read_silence(setting: str | None) -> int:
    """Return the seconds that a setting means; `SILENCE_S` if it has no number."""
    try:
        return min(max(int(setting or SILENCE_S), _LEAST_S), _MOST_S)
    except ValueError:
        return SILENCE_S


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection with a deadline for each reply; it waits without limit for a server that is working for it.

    Raises `NotAnswered` where the server waits too, or cannot be reached.
    """

    minds_blockers: ClassVar[bool] = False
    """Whether it stops waiting for a lock that is held by a silent session of another program."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.silence_s = SILENCE_S
        self._pid = self.pgconn.backend_pid
        self.is_pooled = False
        """Whether a pooler lends the session."""
        self._heard = self._counted_at = time.monotonic()
        self._counted = 0
        """The bytes that the other end had acknowledged at `_counted_at`."""
        self._looked: float | None = None
        """When it looked last, while `await_socket` waits."""
        self._copied: int | None = None
        """The bytes that the server had processed of a COPY by the last look."""
        self._blocking: dict[int, tuple[int, float]] = {}
        """For each COPY that this session waits for: its processed bytes, and since when that number is unchanged."""

    @property
    def known_pid(self) -> int:
        """The server's process, as the session said."""
        return self._pid

    def begin_watch(self, pid: int, setting: str | None) -> None:
        """Note the session's reply to `SESSION`; a pooler reports another process id than the server's."""
        self._pid, self.silence_s = pid, read_silence(setting)
        self.is_pooled = pid != self.pgconn.backend_pid

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        try:
            return super().wait(gen, interval, timeout) if timeout is not None else self._await(gen, interval)
        except psycopg.errors.InsufficientPrivilege as error:
            self._name_grant(error)
            raise

    def _name_grant(self, error: psycopg.errors.InsufficientPrivilege) -> None:
        """Note which grant was lacking: only a role that may connect now can look it up."""
        # By a connection of its own: the transaction that was refused accepts no more statements.
        with suppress(psycopg.Error), _open_look(self) as looking:
            missing = find_grant(error.diag.message_primary or "", error.diag.context or "", looking)
            if missing is not None:
                setattr(error, MISSING_GRANT, missing)

    def _await(self, gen: Any, interval: float) -> Any:
        self._note_answer()
        noting, pause_s = self._noting(gen), self.silence_s / _LOOKS
        while True:
            try:
                return super().wait(noting, interval, pause_s)
            except psycopg.errors._WaitTimeout:  # noqa: SLF001 - it has no other name
                if time.monotonic() - self._heard >= pause_s:
                    self._look()

    def await_socket(self, *, is_sending: bool, patience_ms: int | None = None) -> bool:
        """Wait until more can be read, or with `is_sending` sent, and read what has arrived.

        Return false if that takes longer than `patience_ms`: then call it again. A sender must not check before that
        whether anything is left to send: the rest may just have been sent, and the server replies only when it is asked
        to.
        """
        now = time.monotonic()
        if self._looked is None:
            self._looked = self._heard = now
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN | (select.POLLOUT if is_sending else 0))
        ends_at = math.inf if patience_ms is None else now + patience_ms / 1000
        while True:
            looks_at = self._looked + self.silence_s / _LOOKS
            ready = poll.poll(max(0.0, min(looks_at, ends_at) - time.monotonic()) * 1000)
            if ready:
                self._looked = None
                if any(event & select.POLLIN for _, event in ready):
                    self._note_answer()
                self.pgconn.consume_input()
                return True
            now = time.monotonic()
            if now >= looks_at:
                self._looked = now
                self._look()
            if now >= ends_at:
                return False

    def _noting(self, gen: Generator[Any, Any, Answer]) -> Generator[Any, Any, Answer]:
        """Run psycopg's generator, and note each time that something arrives from the server."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready and ready & Ready.R:
                    self._note_answer()
                wanted = gen.send(ready)
        except StopIteration as ended:
            answer: Answer = ended.value
            return answer

    def _note_answer(self) -> None:
        self._heard = time.monotonic()
        # At most once a second, since the count is a system call, and replies may come thousands of times as often.
        if self._heard - self._counted_at > 1:
            self._counted, self._counted_at = _count_acknowledged(self.pgconn.socket), self._heard

    def _look(self) -> None:
        unheard_s = time.monotonic() - self._heard
        # Bytes that a proxy has acknowledged may still be on their way to the server: the deadline is extended by the
        # time that they need on the slowest supported network.
        sent = _count_acknowledged(self.pgconn.socket) - self._counted
        limit_s = self.silence_s + max(sent, 0) / SLOWEST_BYTES_S
        try:
            with _open_look(self) as looking:
                reason = self._judge(looking, unheard_s, limit_s)
        except psycopg.Error as error:
            # An error with an SQLSTATE is a reply: a refused connection says nothing about this session.
            is_reached = error.sqlstate is not None or unheard_s < limit_s
            reason = None if is_reached else f"and cannot be reached: {' '.join(str(error).split())}"
        if reason is not None:
            self.pgconn.finish()
            raise NotAnswered(self.silence_s, reason)

    def _judge(self, looking: psycopg.Connection[tuple[Any, ...]], unheard_s: float, limit_s: float) -> str | None:
        """End silent sessions; return why this one gets no reply, None if it may still get one."""
        end_silent(looking, self.silence_s)
        found = looking.execute(sql.SQL(_OWN_STATE), [self._pid]).fetchone()
        if found is None:
            return f"pid {self._pid} is gone"
        description, waits_for_program, waits_for_lock, since_s, copied = found
        if copied is not None:
            if copied != self._copied:
                self._copied, self._heard = copied, time.monotonic()
                return None
            # The COPY's own counter tells whether data arrives.
            limit_s = self.silence_s
        if waits_for_program and min(unheard_s, since_s) >= limit_s:
            # Both ends wait for each other: the message was lost with a connection that the network has dropped. The
            # session's locks would stay until the server's keepalive finds out, hours later by default.
            looking.execute("select pg_terminate_backend(%s)", [self._pid])
            return f"{description} waited for its program, and was ended"
        if waits_for_lock and unheard_s >= limit_s:
            given = [self._pid, self.silence_s, self._find_still(looking)]
            report_ended(looking.execute(sql.SQL(_END_BLOCKERS), given).fetchall())
        if self.minds_blockers and waits_for_lock and unheard_s >= limit_s:
            blockers = [name for (name,) in looking.execute(sql.SQL(_SILENT_BLOCKERS), [self._pid, self.silence_s])]
            return f"{description} waits for {', '.join(blockers)}" if blockers else None
        return None

    def _find_still(self, looking: psycopg.Connection[tuple[Any, ...]]) -> list[int]:
        """Return the processes of each COPY that this session waits for, and in which no byte has moved."""
        now, known = time.monotonic(), self._blocking
        copied: list[tuple[int, int]] = looking.execute(_COPYING, [self._pid]).fetchall()
        self._blocking = {
            pid: known[pid] if pid in known and known[pid][0] == count else (count, now) for pid, count in copied
        }
        return [pid for pid, (_, since) in self._blocking.items() if now - since >= self.silence_s]


class _Looking(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose waits have the limit of a look."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        return super().wait(gen, interval, _MOST_LOOK_S if timeout is None else timeout)


def _open_look(of: WatchedConnection) -> _Looking:
    info, look_s = of.info, min(of.silence_s, _MOST_LOOK_S)
    conninfo = make_conninfo(
        info.dsn, password=info.password or None, application_name="rowtide look", connect_timeout=look_s
    )
    # Names refer to pg_catalog only: anybody's objects may be in the role's search_path.
    own = {"search_path": "pg_catalog", "statement_timeout": f"{look_s}s"}
    if of.is_pooled:
        # In a session that other programs use next, settings are made only for a transaction.
        looking = _Looking.connect(conninfo, prepare_threshold=None)
        for name, value in own.items():
            looking.execute(sql.SQL(f"set local {name} = '{value}'"))
        return looking
    given = info.get_parameters().get("options", "")
    options = " ".join([given, *(f"-c {name}={value}" for name, value in own.items())])
    return _Looking.connect(make_conninfo(conninfo, options=options.lstrip()), autocommit=True)


def _count_acknowledged(descriptor: int) -> int:
    """Return how many bytes the other end of a TCP connection has acknowledged; 0 where that is not known."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None or descriptor < 0:
        return 0
    with suppress(OSError, struct.error), socket.socket(fileno=os.dup(descriptor)) as copy:
        tcp_info = copy.getsockopt(socket.IPPROTO_TCP, option, _BYTES_ACKED_AT + _BYTES_ACKED.size)
        return int(_BYTES_ACKED.unpack_from(tcp_info, _BYTES_ACKED_AT)[0])
    return 0


def limits_of_time(connection: WatchedConnection) -> Sequence[str]:
    """Return the statements that limit the time of a transaction of short statements, at its beginning.

    Only `transaction_timeout` applies while the server waits in the middle of a message.
    """
    limits = [f"set local idle_in_transaction_session_timeout = '{connection.silence_s}s'"]
    if connection.info.server_version >= _TRANSACTION_TIMEOUT_FROM:
        limits.append(f"set local transaction_timeout = '{_TRANSACTION_TIMES * connection.silence_s}s'")
    return limits


def end_silent(connection: psycopg.Connection[tuple[Any, ...]], silence_s: int) -> int:
    """End sessions of rowtide's and of this role that hold locks and are silent; return how many."""
    query, parameters = ending_silent(silence_s)
    ended = connection.execute(sql.SQL(query), parameters).fetchall()
    report_ended(ended)
    return len(ended)


def ending_silent(silence_s: int) -> tuple[LiteralString, Sequence[int]]:
    """Return the query that ends silent sessions, for `report_ended`."""
    return _END_SILENT, [silence_s]


def report_ended(ended: Sequence[Sequence[str]]) -> None:
    """Log the sessions that were ended."""
    for (description,) in ended:
        emit(SilentSessionEnded(description))


def end_silent_beside(connection: Connection) -> int:
    """Like `end_silent`, on a connection of an engine of `open_engine`."""
    session = watched_of(connection)
    return end_silent(session, session.silence_s)


def name_holders(connection: psycopg.Connection[Any], table: str | None = None) -> str:
    """Return who holds locks on a table, given by its quoted name, or on any that it may write; the longest first.

    Uses a second connection, because the transaction that waited in vain has failed.
    """
    assert isinstance(connection, WatchedConnection)
    try:
        with _open_look(connection) as looking:
            given = {"own": connection.known_pid, "table": table}
            found = [name for (name,) in looking.execute(sql.SQL(_HOLDERS), given)]
    except psycopg.Error:
        return "sessions that could not be asked for"
    return ", ".join(found) or "transactions that have ended meanwhile"


def watched_of(connection: Connection) -> WatchedConnection:
    """Return the driver's connection of an engine of `open_engine`: several threads may use it, one at a time."""
    session = connection.connection.driver_connection
    assert isinstance(session, WatchedConnection)
    return session


_NAME = "format('pid %%s (%%s, %%s)', a.pid, a.usename, coalesce(nullif(a.application_name, ''), a.backend_type))"
_SINCE = "extract(epoch from clock_timestamp() - a.state_change)::float8"
_WAITS_FOR_PROGRAM = "(a.state is distinct from 'active' or a.wait_event in ('ClientRead', 'ClientWrite'))"
_HAS_ADVISORY = "exists (select from pg_locks l where l.pid = a.pid and l.locktype = 'advisory' and l.granted)"

_OWN_STATE = f"""
select {_NAME}, {_WAITS_FOR_PROGRAM}, a.wait_event_type = 'Lock', coalesce({_SINCE}, 'infinity'),
       (select c.bytes_processed from pg_stat_progress_copy c where c.pid = a.pid)
from pg_stat_activity a where a.pid = %s
"""
_SILENT_BLOCKERS = f"""
select format('%%s, which is silent', {_NAME})
from pg_stat_activity a
where a.pid = any (pg_blocking_pids(%s)) and a.state <> 'active' and {_SINCE} >= %s
"""
_MOST_NAMED = 5
_HOLDERS = f"""
select coalesce(
    format('pid %%s (%%s)', a.pid, concat_ws(', ', a.usename, coalesce(nullif(a.application_name, ''), a.backend_type),
        'since ' || to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS'))),
    format('prepared transaction %%L of %%s, since %%s', p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI:SS')))
from (
    select distinct l.pid, l.virtualtransaction from pg_locks l
    where l.locktype = 'relation' and l.granted
      and l.database = (select oid from pg_database where datname = current_database())
      and case when %(table)s::text is null then l.relation >= 16384 and l.mode <> 'AccessShareLock'
          else l.relation = to_regclass(%(table)s)
              or l.relation in (select relid from pg_partition_tree(to_regclass(%(table)s))) end
) holding
left join pg_stat_activity a on a.pid = holding.pid
left join pg_prepared_xacts p on holding.pid is null and p.transaction in (
    select t.transactionid from pg_locks t
    where t.locktype = 'transactionid' and t.pid is null and t.virtualtransaction = holding.virtualtransaction)
where holding.pid is distinct from %(own)s and (a.pid is not null or p.gid is not null)
order by coalesce(a.xact_start, p.prepared) limit {_MOST_NAMED}
"""
# A client that reads a COPY slowly is in the middle of one statement: it is ended only if it holds other locks.
_ENDING = f"""
with silent as materialized (
    select a.pid, format('%%s, silent for %%s s', {_NAME}, round({_SINCE})) as description
    from pg_stat_activity a
    where a.datname = current_database() and a.usename = session_user and a.pid <> pg_backend_pid()
      and {{chosen}} and {_SINCE} >= %s
      and (a.xact_start is not null or {_HAS_ADVISORY})
      and (a.state <> 'active' or a.wait_event = 'ClientRead' or a.wait_event = 'ClientWrite' and exists (
          select from pg_locks l where l.pid = a.pid and l.granted
          and (l.locktype = 'advisory' or l.locktype = 'relation' and l.mode <> 'AccessShareLock')))
      and {{copying}}
)
select description from silent where pg_terminate_backend(pid)
"""
_IS_NO_COPY = "not exists (select from pg_stat_progress_copy c where c.pid = a.pid)"
_END_SILENT = _ENDING.format(chosen=f"a.application_name = '{MERGE}'", copying=_IS_NO_COPY)
# Delivery agents may wait inside a transaction for more of it: they are ended only if they block another session.
_END_BLOCKERS = _ENDING.format(
    chosen="a.application_name ~ '^rowtide (distribution|snapshot) on ' and a.pid = any (pg_blocking_pids(%s))",
    copying=f"({_IS_NO_COPY} or a.pid = any (%s::int[]))",
)
_COPYING = "select pid, bytes_processed from pg_stat_progress_copy where pid = any (pg_blocking_pids(%s))"
