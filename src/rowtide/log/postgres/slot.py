"""Publication and slot on PostgreSQL: their creation, their verification before a range becomes durable, and their lag.

The publication is always created before the slot. On PostgreSQL 18 a publication dropped under a running stream is no
error: its changes are silently missing. Hence its oid and the oids of its tables' entries (pg_publication_rel) are
compared with those recorded, before each range becomes durable.

Also reports the transaction that blocks the creation of a slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection, Engine, Executable, text

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import format_log_position
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import ServerIdentity
from rowtide.databases.postgres.connect import require_replication_right
from rowtide.databases.postgres.errors import NoFreeSlot, ServerIsStandby, WalLevelNotLogical, translated
from rowtide.databases.postgres.quoting import quote, statement
from rowtide.events.catalogue import WaitNotReported
from rowtide.events.event import emit
from rowtide.log.errors import PublicationAltered, SlotAdvanced, SlotInvalidated, SlotMissing
from rowtide.log.source_definition import SourceDefinition
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


_SERVER = "select clock_timestamp(), (pg_current_wal_flush_lsn() - '0/0')::bigint"

_SLOT_BACKLOG = """
select (confirmed_flush_lsn - '0/0')::bigint, (restart_lsn - '0/0')::bigint, wal_status, safe_wal_size
from pg_replication_slots
where slot_name = :slot
"""

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
    """Put together what was read; without a log store that can be read it is not known. Pure."""
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


FAILOVER_SLOTS_SINCE = 17
"""The first version with slots that standbys keep a copy of."""

GENERATED_PUBLISHED_FROM = 18


@frozen
class SlotState:
    """A replication slot as `pg_replication_slots` shows it; `confirmed` is a log position.

    `has_failover`: standbys that synchronise slots keep a copy of it; None before PostgreSQL 17, which has no such
    slots. `invalidation` is why the server invalidated it, which PostgreSQL 17 and later say.
    """

    confirmed: int
    wal_status: str
    active_pid: int | None
    has_failover: bool | None = None
    invalidation: str | None = None


def publication_name(database_id: int) -> str:
    """Return the name of the publication (and of the slot) of a database."""
    return f"rowtide_{database_id}"


def require_logical_decoding(connection: Connection, server: ServerIdentity) -> None:
    """Raise `ServerIsStandby`, `WalLevelNotLogical` or `NoReplicationRight` if the log cannot be read."""
    if server.in_recovery:
        raise ServerIsStandby
    if server.wal_level != "logical":
        raise WalLevelNotLogical(server.wal_level)
    require_replication_right(connection)


def require_free_slot(connection: Connection, name: str) -> None:
    """Raise `NoFreeSlot` if the slot is missing and the server has no free one."""
    if find_slot(connection, name) is None and not connection.execute(text(_HAS_FREE_SLOT)).scalar_one():
        raise NoFreeSlot


def ensure_publication(connection: Connection, server: ServerIdentity, name: str) -> int:
    """Create the publication, without tables, if it is missing; return its oid."""
    found = connection.execute(text(_PUBLICATION), {"name": name}).scalar()
    # Looked up before: `create publication` has no `if not exists`.
    if found is None:
        connection.execute(create_publication_step(server, name))
        found = connection.execute(text(_PUBLICATION), {"name": name}).scalar_one()
    return int(found)


def create_publication_step(server: ServerIdentity, name: str) -> Executable:
    """Return the statement that creates the publication, without tables."""
    return statement(f"create publication {quote(name)} {publication_options(server.version)}")


def record_version_step() -> Executable:
    """Return the statement that records which version of the publication's row is the source's own."""
    return statement(_RECORD_VERSION)


def publication_options(version: int) -> str:
    """Return the options of a publication. Rows of partitions are published as their root's.

    From 18 on the server refuses updates of a table with full replica identity and an unpublished generated column.
    """
    generated = ", publish_generated_columns = stored" if version >= GENERATED_PUBLISHED_FROM else ""
    return f"with (publish_via_partition_root = true{generated})"


def create_slot_step(connection: Connection, name: str) -> Executable:
    """Return the statement that creates the slot; from PostgreSQL 17 on one that standbys may keep a copy of."""
    version = connection.execute(text("select current_setting('server_version_num')::int / 10000")).scalar_one()
    failover = ", failover => true" if version >= FAILOVER_SLOTS_SINCE else ""
    return text(f"select pg_create_logical_replication_slot(:name, 'pgoutput'{failover})").bindparams(name=name)


def drop_publication(connection: Connection, name: str) -> None:
    """Drop the publication if it exists."""
    connection.execute(statement(f"drop publication if exists {quote(name)}"))


def ensure_slot(engine: Engine, name: str, on_wait: Callable[[str], None]) -> SlotState:
    """Create the slot if it is missing. The server waits for all open transactions; `on_wait` is called with the
    oldest.
    """
    # Outside a transaction: the server creates no logical slot in one that has written, and waits for the transactions
    # of others meanwhile. An open transaction would hold back vacuum for as long.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        state = find_slot(connection, name)
        if state is None:
            with reporting_blocker(engine, on_wait):
                connection.execute(create_slot_step(connection, name))
            state = find_slot(connection, name)
    if state is None:
        raise SlotMissing(name)
    return state


def drop_slot(engine: Engine, name: str) -> None:
    """Drop a slot of this database if it exists; another database's stays."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(drop_slot_step(name))


def drop_slot_step(name: str) -> Executable:
    """Return the statement that does so."""
    return text(_DROP_SLOT).bindparams(name=name)


def find_slot(connection: Connection, name: str) -> SlotState | None:
    """Return the state of a slot of this database, None if there is none."""
    row = connection.execute(text(_SLOT), {"name": name}).one_or_none()
    return SlotState(*row) if row is not None else None


def read_log_end(connection: Connection) -> int:
    """Return the end of the server's log."""
    return int(connection.execute(text("select (pg_current_wal_insert_lsn() - '0/0')::bigint")).scalar_one())


def require_usable(state: SlotState | None, name: str, position: int) -> SlotState:
    """Raise unless a slot still has everything from a log position on.

    Beside a running log reader, read the slot before the position, which is recorded before it is confirmed. Raises
    `SlotMissing`, `SlotInvalidated`, or `SlotAdvanced` if it was advanced or created again by others.
    """
    if state is None:
        raise SlotMissing(name)
    if state.wal_status == "lost":
        raise SlotInvalidated(name, _CAUSES.get(state.invalidation) or str(state.invalidation))
    # Above the position: the server never sends again what lies between. A slot below it is the usual case, since its
    # state on disk is that of the last checkpoint.
    if state.confirmed > position:
        raise SlotAdvanced(name, format_log_position(state.confirmed), format_log_position(position))
    return state


def verify_publication(connection: Connection, source: SourceDefinition) -> None:
    """Raise `PublicationAltered` unless publication and entries are the recorded ones.

    A dropped table left the publication with that, and has no changes that could be missing. The table of announcements
    is the exception.
    """
    parameters = {"name": source.publication}
    publication_id, option, lost, joined, is_another = connection.execute(text(_ALTERED), parameters).one()
    if publication_id is None:
        raise PublicationAltered(source.publication, "it was dropped")
    if publication_id != source.publication_id:
        raise PublicationAltered(source.publication, "it was dropped and created again")
    if option is not None:
        raise PublicationAltered(source.publication, f"it no longer publishes {option}")
    if lost is not None:
        raise PublicationAltered(source.publication, f"it lost {lost}")
    if joined is not None:
        raise PublicationAltered(source.publication, f"it publishes {joined}, attached to a captured table, as that")
    if is_another:
        raise PublicationAltered(source.publication, "it was altered, and is again what it was")


_PUBLICATION = "select oid::bigint from pg_publication where pubname = :name"

_WAL_REMOVED = "the server removed WAL that it needs, more than max_slot_wal_keep_size"
_CAUSES = {
    None: _WAL_REMOVED,
    "wal_removed": _WAL_REMOVED,
    "idle_timeout": "nothing read it for idle_replication_slot_timeout",
    "wal_level_insufficient": "wal_level was lower than logical",
}
"""Why slots are invalidated, by `invalidation_reason`; PostgreSQL 16 knows the first alone, on a primary."""

# Through JSON, because not every version has the columns.
_SLOT = """
select (confirmed_flush_lsn - '0/0')::bigint, coalesce(wal_status, ''), active_pid,
       (to_jsonb(s) ->> 'failover')::boolean, to_jsonb(s) ->> 'invalidation_reason'
from pg_replication_slots s
where slot_name = :name and database = current_database()
"""

_HAS_FREE_SLOT = """
select count(*) < current_setting('max_replication_slots')::int from pg_replication_slots
"""

_DROP_SLOT = """
select pg_drop_replication_slot(slot_name) from pg_replication_slots
where slot_name = :name and database = current_database()
"""

_ALTERED = """
select (select oid::bigint from pg_publication where pubname = :name),
       (select case when not (pubinsert and pubupdate and pubdelete and pubtruncate) then 'every operation'
                    when not pubviaroot then 'rows of partitions as those of the partitioned table' end
        from pg_publication where pubname = :name),
       (select string_agg(distinct m.source_schema || '.' || m.source_name, ', ')
        from rowtide.members m
        where not exists (select from pg_publication_rel r where r.oid = m.publication_entry_id)
          and (m.feature = 'log' or exists (select from pg_class c where c.oid::bigint = m.source_table_id))),
       (select string_agg(distinct m.source_schema || '.' || m.source_name, ', ')
        from rowtide.members m join pg_class c on c.oid = m.source_table_id and c.relispartition,
             pg_partition_ancestors(c.oid) a, rowtide.members above
        where a.relid <> m.source_table_id::oid and above.source_table_id = a.relid::oid::bigint),
       (select p.xmin::text <> split_part(s.version, ' ', 1) and p.pubowner::text = split_part(s.version, ' ', 2)
        from pg_publication p, (select to_jsonb(known) ->> 'publication_version' from rowtide.source known) s (version)
        where p.pubname = :name)
"""
"""A change of owner updates the row too, but does not change what is published."""

_RECORD_VERSION = """
update rowtide.source s set publication_version = (
    select p.xmin::text || ' ' || p.pubowner::text from pg_publication p where p.pubname = s.publication)
"""
