"""Tables of tracking: tombstones, truncations, tracked objects."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, text

from rowtide.core.errors import RowtideError
from rowtide.core.formats import (
    FormatNewer,
    FormatOutdated,
    FormatUnnumbered,
    Requirement,
    StoreFormat,
    parse_definition,
    require,
)
from rowtide.core.values import frozen
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.catalogue import find_table_id, spell_names
from rowtide.databases.postgres.functions import as_seen, format_creation, recorded_definition
from rowtide.tracking.errors import NothingTracked, NotTracked
from rowtide.tracking.options import StampIndex, Storage, TrackedTable, TrackingKeyType, TrackingOptions

TOMBSTONES = f'{clock.SCHEMA}."__sysOCSDeletedRows"'
TRUNCATIONS = f'{clock.SCHEMA}."__sysTruncations"'
TRACKED_OBJECTS = f'{clock.SCHEMA}."__sysOCSTrackedObjects"'
FORMAT = StoreFormat("change tracking of the database")
"""The format of the schema, and of the triggers of the tracked tables."""

_TOMBSTONE_COLUMNS = (
    '"__sysTN" text not null, "__sysDeleteTxBsn" bigint not null, "__sysInsertTxBsn" bigint, '
    '"__sysRK" text[] not null, "__sysDeletedTime" timestamptz not null default now(), "__sysTrackingContext" uuid'
)
_OBJECT_COLUMNS = (
    '"__sysTN" text primary key, "__sysTableId" oid not null unique, "__sysKeyType" text not null, '
    '"__sysOptions" int not null, "__sysStorage" text not null, "__sysIndex" text not null, '
    '"__sysMinValidCsn" bigint not null, '
    '"__sysLostTime" timestamptz, "__sysSignature" text not null, "__sysKey" text[] not null, '
    '"__sysParts" bigint[] not null'
)
# Tombstones come in the order of their numbers, near enough: an index of ranges costs a delete nothing.
_TOMBSTONE_INDEX = (
    f'create index if not exists "__sysOCSDeletedRows_bsn" on {TOMBSTONES} using brin ("__sysDeleteTxBsn") '
    "with (pages_per_range = 16, autosummarize = on)"
)


def _identify(table: str) -> str:
    """Return the statement that sets a replica identity, which a publication for all tables requires for deletes."""
    is_identified = f"(select relreplident = 'f' from pg_class where oid = '{table}'::regclass)"
    return f"do $$begin if not {is_identified} then alter table {table} replica identity full; end if; end$$"


CREATIONS = (
    *clock.CREATIONS,
    f"create table if not exists {TOMBSTONES} ({_TOMBSTONE_COLUMNS})",
    _TOMBSTONE_INDEX,
    f'create table if not exists {TRUNCATIONS} ("__sysTN" text not null, "__sysTruncateTxBsn" bigint not null)',
    _identify(TOMBSTONES),
    _identify(TRUNCATIONS),
    f"create table if not exists {TRACKED_OBJECTS} ({_OBJECT_COLUMNS})",
    format_creation(clock.SCHEMA, FORMAT),
)
"""The statements that create the clock and the tables if they do not exist."""


def has_tracked_objects(connection: Connection, requirement: Requirement = StoreFormat.require_readable) -> bool:
    """Whether the catalogue exists; or did, by the tombstones that were made with it: a query says what is missing.

    Raises `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` as `requirement` does for its format.
    """
    database, is_there, definition = connection.execute(text(_STATE)).one()
    if is_there:
        require(requirement, FORMAT, database, parse_definition(definition))
    return bool(is_there)


def find_refusal(connection: Connection) -> RowtideError | None:
    """Return why this build does not read what is tracked; None if it does."""
    try:
        has_tracked_objects(connection)
    except (FormatNewer, FormatOutdated, FormatUnnumbered) as refusal:
        return refusal
    return None


def require_tracking(connection: Connection) -> None:
    """Raise `NothingTracked` if no table is tracked; as `StoreFormat.require_writable` for another format."""
    if not has_tracked_objects(connection, StoreFormat.require_writable):
        raise NothingTracked


def list_tracked(
    connection: Connection, requirement: Requirement = StoreFormat.require_readable
) -> tuple[TrackedTable, ...]:
    """Return all tracked tables by name. Raises as `requirement` for another format."""
    if not has_tracked_objects(connection, requirement):
        return ()
    query = as_seen(connection, f'{_SELECT} order by "__sysTN"', clock.SCHEMA)
    return tuple(map(_tracked, connection.execute(text(query))))


def get_tracked(
    connection: Connection, name: str, requirement: Requirement = StoreFormat.require_readable
) -> TrackedTable:
    """Return a tracked table by the name that a user gives, its current one or that when it was enabled.

    Raises `NotTracked`; as `requirement` for another format.
    """
    if not has_tracked_objects(connection, requirement):
        raise NotTracked(name)
    by_name = text(
        as_seen(
            connection,
            f"""{_SELECT} where "__sysTN" = any(:names) or "__sysTableId" = :source_id
        order by "__sysTableId" is distinct from :source_id, array_position(:names, "__sysTN")""",
            clock.SCHEMA,
        )
    )
    named = {"names": spell_names(connection, name), "source_id": find_table_id(connection, name)}
    # The table that has the name now comes before one that had it when it was enabled.
    rows = connection.execute(by_name, named).all()
    if not rows:
        raise NotTracked(name)
    return _tracked(rows[0])


@frozen
class AsMade:
    """A table as it was when its triggers were created.

    `signature` describes the triggers and their functions, `key` lists the key's columns, `parts` the oids of the
    partitions with its rows.
    """

    source_id: int
    signature: str
    key: tuple[str, ...]
    parts: tuple[int, ...]


def read_as_made(connection: Connection, name: str) -> AsMade:
    """Return a tracked table as it was when its triggers were created."""
    columns = '"__sysTableId"::bigint, "__sysSignature", "__sysKey", "__sysParts"'
    statement = as_seen(connection, f'select {columns} from {TRACKED_OBJECTS} where "__sysTN" = :name', clock.SCHEMA)
    source_id, signature, key, parts = connection.execute(text(statement), {"name": name}).one()
    return AsMade(source_id, signature, tuple(key), tuple(parts))


def put_tracked(connection: Connection, tracked: TrackedTable, made: AsMade) -> None:
    """Write a tracked table to the catalogue, in the caller's transaction."""
    connection.execute(
        text(
            f"insert into {TRACKED_OBJECTS} values "
            "(:name, :source_id, :key_type, :options, :storage, :index, :min_valid_csn, null, :signature, :key, "
            ":parts) "
            'on conflict ("__sysTN") do update set "__sysTableId" = excluded."__sysTableId", '
            '"__sysMinValidCsn" = excluded."__sysMinValidCsn", "__sysLostTime" = null, '
            '"__sysSignature" = excluded."__sysSignature", "__sysKey" = excluded."__sysKey", '
            '"__sysParts" = excluded."__sysParts"'
        ),
        {
            "name": tracked.name,
            "source_id": made.source_id,
            "key_type": tracked.key_type,
            "options": tracked.options.value,
            "storage": tracked.storage,
            "index": tracked.index,
            "min_valid_csn": tracked.min_valid_csn,
            "signature": made.signature,
            "key": list(made.key),
            "parts": list(made.parts),
        },
    )


def set_min_valid(connection: Connection, name: str, csn: int) -> None:
    """Refuse anchors below a CSN for a table, in the caller's transaction; never lowers the limit."""
    statement = (
        f'update {TRACKED_OBJECTS} set "__sysMinValidCsn" = greatest("__sysMinValidCsn", :csn) where "__sysTN" = :name'
    )
    connection.execute(text(statement), {"name": name, "csn": csn})


def settle_truncations(connection: Connection, csn: int) -> None:
    """Refuse anchors below a CSN for tables truncated before it was assigned, in its transaction."""
    connection.execute(
        text(
            f"with cut as (delete from {TRUNCATIONS} returning *) "
            f'update {TRACKED_OBJECTS} set "__sysMinValidCsn" = greatest("__sysMinValidCsn", :csn) '
            'where "__sysTN" in (select "__sysTN" from cut)'
        ),
        {"csn": csn},
    )


def note_loss(connection: Connection, name: str, lost_time: str) -> None:
    """Record when, in UTC, a table's tracking was found lost, in the caller's transaction."""
    connection.execute(
        text(
            f"update {TRACKED_OBJECTS} set \"__sysLostTime\" = cast(:lost_time as timestamp) at time zone 'UTC' "
            'where "__sysTN" = :name'
        ),
        {"name": name, "lost_time": lost_time},
    )


def remove_tracked(connection: Connection, name: str) -> None:
    """Remove a table with its tombstones and truncations, in the caller's transaction."""
    for table in (TRACKED_OBJECTS, TOMBSTONES, TRUNCATIONS):
        connection.execute(text(f'delete from {table} where "__sysTN" = :name'), {"name": name})


_STATE = f"""
select current_database()::text,
       exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
               where n.nspname = '{clock.SCHEMA}' and c.relname in ('__sysOCSTrackedObjects', '__sysOCSDeletedRows')),
       {recorded_definition(clock.SCHEMA)}
"""
_SELECT = f"""
select "__sysTN", "__sysKeyType", "__sysOptions", "__sysStorage", "__sysIndex", "__sysMinValidCsn",
       to_char("__sysLostTime" at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')
from {TRACKED_OBJECTS}
"""
STAMPED = f"""
select n.nspname::text, c.relname::text
from {TRACKED_OBJECTS} t join pg_class c on c.oid = t."__sysTableId" join pg_namespace n on n.oid = c.relnamespace
where t."__sysStorage" = '{Storage.ROW}' and t."__sysLostTime" is null and c.relkind in ('r', 'p')
  and n.nspname || '.' || c.relname = t."__sysTN"
order by t."__sysTN"
"""
"""Schema and name of the tables with their own rows' stamps, those that are called as they were."""


def _tracked(row: Row[Any]) -> TrackedTable:
    name, key_type, options, storage, index, min_valid_csn, lost_time = list(row)
    return TrackedTable(
        name,
        TrackingKeyType(key_type),
        TrackingOptions(options),
        Storage(storage),
        StampIndex(index),
        min_valid_csn,
        lost_time,
    )
