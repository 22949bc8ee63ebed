"""Read facts about the server and the connection's role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, text

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.catalogue import ServerIdentity, has_schema, read_server_identity
from rowtide.databases.postgres.errors import NoReplicationRight, translated
from rowtide.log.postgres.stream.stream import ReplicationStream
from rowtide.merge.definitions import SCHEMA as MERGE_SCHEMA
from rowtide.replication.distributor.location import SCHEMA as DISTRIBUTION_SCHEMA
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA as SUBSCRIBER_SCHEMA

SHORTEST_STATISTICS_S = 600
"""The shortest time over which an average is meaningful."""
_OUR_SCHEMAS = ("rowtide", "cdc")
_MADE_BY = {
    "cdc": ("cdc", "rowtide"),
    "agent": ("cdc", "rowtide"),
    "replication": (DISTRIBUTION_SCHEMA, "rowtide", SUBSCRIBER_SCHEMA),
    "merge": (MERGE_SCHEMA,),
    "tracking": (clock.SCHEMA,),
}
"""The schemas that commands made, by their first word: whose owner may run them."""
_MEBIBYTE = 1 << 20


@frozen
class Settings:
    """The server's settings that capture depends on; None: without limit, switched off, or not in this version.

    `standby_slots` is synchronized_standby_slots, None before PostgreSQL 17. `as_standby` is what the server would need
    as a standby to keep slots.
    """

    replication_slots: int
    wal_senders: int
    wal_keep_bytes: int | None
    idle_slot_timeout_s: int | None
    sender_timeout_s: float | None
    synchronous_standbys: str
    standby_slots: str | None
    as_standby: StandbySettings


@frozen
class StandbySettings:
    """A server's settings as a standby; `syncs_slots` is sync_replication_slots, None before PostgreSQL 17.

    `names_database`: primary_conninfo has a database to read slots from; None if the role may not see it.
    """

    syncs_slots: bool | None
    has_feedback: bool
    slot: str
    names_database: bool | None


@frozen
class ConnectedStandby:
    """A standby that receives the server's log, with its physical slot (primary_slot_name), if it uses one.

    `has_feedback` is hot_standby_feedback, known only with a slot.
    """

    name: str
    slot: str | None
    has_feedback: bool | None


@frozen
class ReplicationSlot:
    """A replication slot of the server, also those of other programs.

    `is_kept`: a standby's copy of the primary's, which outlives a promotion.
    """

    name: str
    is_physical: bool
    is_active: bool
    has_failover: bool
    is_kept: bool = False


@frozen
class OpenTransaction:
    """A transaction of another session; one that `has_written` keeps slots from being made and WAL from being freed."""

    pid: int
    role: str
    application: str
    age_s: float
    has_written: bool


@frozen
class PreparedTransaction:
    """A transaction that was prepared for a two-phase commit and not ended."""

    name: str
    role: str
    database: str
    age_s: float


@frozen
class ServerFacts:
    """The server, and its activity.

    `wal_bytes_per_s` is the average since the statistics were reset, None when that was only just now. `refusal` is
    what a replication connection was refused with. `syncs_slots`: a standby is connected that keeps copies of slots;
    None if the role may not see it.
    """

    identity: ServerIdentity
    settings: Settings
    slots: tuple[ReplicationSlot, ...]
    senders_used: int
    wal_bytes_per_s: float | None
    transactions: tuple[OpenTransaction, ...]
    prepared: tuple[PreparedTransaction, ...]
    refusal: RowtideError | None
    standbys: tuple[ConnectedStandby, ...]
    syncs_slots: bool | None


@frozen
class RoleFacts:
    """The role of the connection and its rights.

    `may_replicate` unless a replication connection was refused for the lack of the right. `others` are the owners, that
    the role is not, of what rowtide made here, by the first word of the commands that only these can run.
    """

    name: str
    may_replicate: bool
    may_create: bool
    is_superuser: bool
    others: Mapping[str, str] = field(default_factory=dict)


def read_server(connection: Connection, url: str, *, tries_stream: bool = True) -> ServerFacts:
    """Return the server's facts; transactions of other roles are seen only with the rights of pg_read_all_stats.

    Without `tries_stream` no replication connection is tried.
    """
    senders, rate = connection.execute(text(_ACTIVITY), {"shortest_s": SHORTEST_STATISTICS_S}).one()
    return ServerFacts(
        identity=read_server_identity(connection),
        settings=_read_settings(connection),
        slots=tuple(ReplicationSlot(*row) for row in connection.execute(text(_SLOTS))),
        senders_used=senders,
        wal_bytes_per_s=rate,
        transactions=tuple(OpenTransaction(*row) for row in connection.execute(text(_TRANSACTIONS))),
        prepared=tuple(PreparedTransaction(*row) for row in connection.execute(text(_PREPARED))),
        refusal=_find_refusal(url) if tries_stream else None,
        standbys=tuple(ConnectedStandby(*row) for row in connection.execute(text(_STANDBYS))),
        syncs_slots=connection.execute(text(_SYNCS_SLOTS)).scalar_one(),
    )


def read_role(connection: Connection, refusal: RowtideError | None) -> RoleFacts:
    """Return the role of the connection; `refusal` is what its replication connection was refused with."""
    name, may_create, is_superuser = connection.execute(text(_ROLE)).one()
    schemas = sorted({schema for schemas in _MADE_BY.values() for schema in schemas})
    rows = connection.execute(text(_OTHERS_SCHEMAS), {"schemas": schemas})
    owners: dict[str, str] = {row.name: row.owner for row in rows}
    return RoleFacts(
        name,
        may_replicate=not isinstance(refusal, NoReplicationRight),
        may_create=may_create,
        is_superuser=is_superuser,
        others={
            command: next(owners[schema] for schema in made if schema in owners)
            for command, made in _MADE_BY.items()
            if owners.keys() & set(made)
        },
    )


def sees_others(connection: Connection) -> bool:
    """Return whether the role sees what other roles' sessions do."""
    return bool(connection.execute(text("select pg_has_role('pg_read_all_stats', 'usage')")).scalar_one())


def read_taken_schemas(connection: Connection) -> tuple[str, ...]:
    """Return the schemas of our names that are there."""
    return tuple(schema for schema in _OUR_SCHEMAS if has_schema(connection, schema))


def is_used_otherwise(connection: Connection) -> bool:
    """Return whether the database is merged, or changes are delivered into it: then nobody asked for capture."""
    return is_merged(connection) or has_schema(connection, SUBSCRIBER_SCHEMA)


def is_merged(connection: Connection) -> bool:
    """Return whether the database is a node of a merge, or was one."""
    return has_schema(connection, MERGE_SCHEMA)


def _read_settings(connection: Connection) -> Settings:
    found = {row.name: row.setting for row in connection.execute(text(_SETTINGS))}
    keep_mebibytes = int(found["max_slot_wal_keep_size"])
    return Settings(
        replication_slots=int(found["max_replication_slots"]),
        wal_senders=int(found["max_wal_senders"]),
        wal_keep_bytes=keep_mebibytes * _MEBIBYTE if keep_mebibytes >= 0 else None,
        idle_slot_timeout_s=int(found.get("idle_replication_slot_timeout", 0)) or None,
        sender_timeout_s=int(found["wal_sender_timeout"]) / 1000 or None,
        synchronous_standbys=found["synchronous_standby_names"],
        standby_slots=found.get("synchronized_standby_slots"),
        as_standby=_read_standby_settings(found),
    )


def _read_standby_settings(found: Mapping[str, str]) -> StandbySettings:
    syncs, conninfo = found.get("sync_replication_slots"), found.get("primary_conninfo")
    return StandbySettings(
        syncs_slots=syncs == "on" if syncs is not None else None,
        has_feedback=found["hot_standby_feedback"] == "on",
        slot=found["primary_slot_name"],
        names_database="dbname" in conninfo_to_dict(conninfo) if conninfo is not None else None,
    )


def _find_refusal(url: str) -> RowtideError | None:
    """Open a replication connection and close it: pg_hba.conf, poolers and free senders are proven only by that."""
    try:
        with translated():
            ReplicationStream.connect(url, application_name="rowtide check").close()
    except RowtideError as error:
        return error
    return None


_SETTINGS = """
select name, setting from pg_settings
where name in ('max_replication_slots', 'max_wal_senders', 'max_slot_wal_keep_size', 'idle_replication_slot_timeout',
               'wal_sender_timeout', 'synchronous_standby_names', 'synchronized_standby_slots',
               'sync_replication_slots', 'hot_standby_feedback', 'primary_slot_name', 'primary_conninfo')
"""

_ACTIVITY = """
select (select count(*)::int from pg_stat_replication),
       (select (wal_bytes / extract(epoch from now() - stats_reset))::float8 from pg_stat_wal
        where now() - stats_reset > make_interval(secs => :shortest_s))
"""

# Through JSON, because not every version has every column.
_SLOTS = """
select slot_name::text, slot_type = 'physical', active, coalesce((to_jsonb(s) ->> 'failover')::boolean, false),
       coalesce((to_jsonb(s) ->> 'synced')::boolean, false) and not temporary
from pg_replication_slots s
order by slot_name
"""

# Programs that only copy the log or the server are no standbys; the slots of base backups are temporary.
_STANDBYS = """
select r.application_name, s.slot_name::text, s.xmin is not null or s.catalog_xmin is not null
from pg_stat_replication r left join pg_replication_slots s on s.active_pid = r.pid
where r.state = 'streaming' and s.slot_type is distinct from 'logical' and s.temporary is not true
  and r.application_name not in ('pg_receivewal', 'pg_basebackup')
order by r.application_name
"""

_SYNCS_SLOTS = """
select case when pg_has_role('pg_read_all_stats', 'usage') then exists (
    select from pg_stat_activity where application_name like '%slotsync worker') end
"""

_TRANSACTIONS = """
select pid, coalesce(usename::text, ''), application_name, extract(epoch from now() - xact_start)::float8,
       backend_xid is not null
from pg_stat_activity
where xact_start is not null and backend_type = 'client backend' and pid <> pg_backend_pid()
  and (backend_xid is not null or datname = current_database())
order by xact_start
"""

_PREPARED = """
select gid, owner::text, database::text, extract(epoch from now() - prepared)::float8 from pg_prepared_xacts
order by prepared
"""

_OTHERS_SCHEMAS = """
select n.nspname::text as name, r.rolname::text as owner
from pg_namespace n join pg_roles r on r.oid = n.nspowner
where n.nspname = any(:schemas) and not pg_has_role(n.nspowner, 'usage')
"""

_ROLE = """
select rolname::text, has_database_privilege(current_database(), 'create'), rolsuper
from pg_roles where rolname = current_user
"""
