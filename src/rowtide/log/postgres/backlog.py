"""WAL beside a replication slot: why the server retains it, how far the log is read, and who blocks a statement."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection, Engine, text

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.events.catalogue import WaitNotReported
from rowtide.events.event import emit
from rowtide.log.store.state import ManifestState

MISSING = "missing"


@frozen
class OldTransaction:
    """The oldest transaction that writes: the server retains the WAL from that transaction's beginning on.

    `name` says how an administrator ends it; `since` is None if the role may not see it.
    """

    name: str
    since: datetime | None

    def __str__(self) -> str:
        return f"{self.name}, since {self.since.isoformat(timespec='seconds') if self.since else 'unknown'}"


@frozen
class Backlog:
    """The server's WAL beside a slot, at the server's time `now`; positions are log positions.

    `confirmed` and `restart` are None without the slot; `wal_status` is `MISSING` then. `safe_bytes` is how much more
    WAL may be written before the slot is at risk, None if nothing limits what it retains.
    """

    now: datetime
    log_end: int
    confirmed: int | None
    restart: int | None
    wal_status: str
    safe_bytes: int | None
    oldest_prepared: OldTransaction | None
    oldest_open: OldTransaction | None

    @property
    def kept_bytes(self) -> int | None:
        """The bytes of WAL that the server retains because of the slot."""
        return max(self.log_end - self.restart, 0) if self.restart is not None else None

    def find_cause(self, log_reader: str | None) -> str | None:
        """Return what holds back the retained WAL; None if only the server's next checkpoint or keepalive is due.
        Pure.
        """
        if self.confirmed is None or self.restart is None:
            return None
        unread = self.log_end - self.confirmed
        if unread > self.confirmed - self.restart:
            return f"the log reader, {unread} bytes behind" if log_reader else "the log reader, which is not running"
        oldest = _oldest(self.oldest_prepared, self.oldest_open)
        return str(oldest) if oldest is not None else None


def find_oldest(connection: Connection) -> OldTransaction | None:
    """Return the oldest transaction of the server that writes, prepared or open; None if there is none."""
    return _oldest(_read_oldest(connection, _PREPARED), _read_oldest(connection, _OPEN))


def _oldest(*transactions: OldTransaction | None) -> OldTransaction | None:
    return min((old for old in transactions if old is not None), key=_age, default=None)


def _age(old: OldTransaction) -> tuple[bool, float]:
    return old.since is None, old.since.timestamp() if old.since is not None else 0.0


def read_backlog(connection: Connection, slot: str) -> Backlog:
    """Read the backlog from the server."""
    now, log_end = connection.execute(text(_SERVER)).one()
    found = connection.execute(text(_SLOT_BACKLOG), {"slot": slot}).one_or_none()
    confirmed, restart, wal_status, safe_bytes = found or (None, None, MISSING, None)
    return Backlog(
        now=now,
        log_end=log_end,
        confirmed=confirmed,
        restart=restart,
        wal_status=wal_status or "",
        safe_bytes=safe_bytes,
        # Separate from the open ones: a prepared transaction has no session that could be ended, and survives restarts.
        oldest_prepared=_read_oldest(connection, _PREPARED),
        oldest_open=_read_oldest(connection, _OPEN),
    )


def _read_oldest(connection: Connection, query: str) -> OldTransaction | None:
    row = connection.execute(text(query)).one_or_none()
    return OldTransaction(*row) if row is not None else None


# The flushed position, because the walsender sends no more than that; a mark needs the inserted one. An LSN as a number
# is its distance from 0/0.
_SERVER = "select clock_timestamp(), (pg_current_wal_flush_lsn() - '0/0')::bigint"

_SLOT_BACKLOG = """
select (confirmed_flush_lsn - '0/0')::bigint, (restart_lsn - '0/0')::bigint, wal_status, safe_wal_size
from pg_replication_slots
where slot_name = :slot
"""

# The oldest by its number, here and below, since that is what keeps the slot from advancing; of the two it is the one
# that began first, since people look for it by its time.
_PREPARED = """
select format('prepared transaction %L of %s in database %s', gid, owner, database), prepared
from pg_prepared_xacts
order by age(transaction) desc
limit 1
"""

_OPEN = """
select format('transaction of pid %s (%s, %s) in database %s', pid, usename, application_name, datname), xact_start
from pg_stat_activity
where backend_xid is not null and pid <> pg_backend_pid()
order by age(backend_xid) desc
limit 1
"""


@frozen
class ReadingStatus:
    """How far the log is read, at the server's time `now`.

    `reader` is the holder of the log's lease, None if no process reads. All that was committed by `as_of` was read;
    `unread_bytes` of the server's log were not, None where the log store does not say. `kept_bytes` is the WAL that the
    server keeps for the slot.
    """

    now: datetime
    reader: str | None
    as_of: datetime | None
    unread_bytes: int | None
    kept_bytes: int | None

    @property
    def lag_s(self) -> float | None:
        """How long ago all was read that was committed by then; 0 at the log's end, None where it is not known."""
        return 0.0 if self.unread_bytes == 0 else seconds_between(self.as_of, self.now)


def describe_reading(backlog: Backlog, state: ManifestState | None, reader: str | None) -> ReadingStatus:
    """Combine what the server and the log store say; what was read is unknown if the log store cannot be read. Pure."""
    return ReadingStatus(
        now=backlog.now,
        reader=reader,
        as_of=state.as_of if state is not None else None,
        unread_bytes=max(backlog.log_end - state.position.log, 0) if state is not None else None,
        kept_bytes=backlog.kept_bytes,
    )


def seconds_between(earlier: datetime | None, later: datetime) -> float | None:
    """Return how long ago a time was, never below 0; None where it is not known."""
    return max((later - earlier).total_seconds(), 0.0) if earlier is not None else None


PATIENCE_S = 2.0
"""A wait is reported after this time, and again when another transaction blocks."""


@contextmanager
def reporting_blocker(engine: Engine, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Report, while the block runs, the oldest transaction that writes, if the block takes long. Calls from a
    thread.
    """
    is_over = threading.Event()
    # The caller's session is busy with the statement that waits, so another one looks for the blocker.
    thread = threading.Thread(target=_report, args=(engine, on_wait, is_over), name="rowtide waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _report(engine: Engine, on_wait: Callable[[str], None], is_over: threading.Event) -> None:
    reported = None
    while not is_over.wait(PATIENCE_S):
        try:
            with translated(), engine.connect() as connection:
                oldest = find_oldest(connection)
        except RowtideError as error:
            emit(WaitNotReported(error))
            return
        if oldest is not None and oldest != reported:
            on_wait(f"waiting until this ends: {oldest}")
            reported = oldest
