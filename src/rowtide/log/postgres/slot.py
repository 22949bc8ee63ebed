"""Publication and slot on PostgreSQL: created once, and verified before what is read through them becomes durable.

The publication is always created before the slot. On PostgreSQL 18 a publication dropped under a running stream is no
error: its changes are silently missing. Hence its oid and the oids of its tables' entries (pg_publication_rel) are
compared with those recorded, before each range becomes durable.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Engine, Executable, text

from rowtide.core.lsn import format_log_position
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import ServerIdentity
from rowtide.databases.postgres.connect import require_replication_right
from rowtide.databases.postgres.errors import NoFreeSlot, ServerIsStandby, WalLevelNotLogical
from rowtide.databases.postgres.quoting import quote, statement
from rowtide.log.errors import PublicationAltered, SlotAdvanced, SlotInvalidated, SlotMissing
from rowtide.log.postgres.backlog import reporting_blocker
from rowtide.log.source_definition import SourceDefinition

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
        raise PublicationAltered(source.publication, f"it publishes {joined} as the table that it was attached to")
    if is_another:
        raise PublicationAltered(source.publication, "it was altered, and changed back")


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
"""The number of the transaction that wrote the publication's row, and its owner, are one text, as they are recorded
(`_RECORD_VERSION`): a change of owner writes the row too, but does not change what is published. Read through JSON,
because sources from before it was recorded lack the column.
"""

_RECORD_VERSION = """
update rowtide.source s set publication_version = (
    select p.xmin::text || ' ' || p.pubowner::text from pg_publication p where p.pubname = s.publication)
"""
