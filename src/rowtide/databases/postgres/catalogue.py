"""PostgreSQL's catalogue: the server's identity, and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, text

from rowtide.core.values import frozen
from rowtide.databases.postgres import quoting
from rowtide.databases.postgres.errors import GrantMissing, TableNotFound
from rowtide.databases.postgres.functions import USERS_SCHEMAS
from rowtide.databases.postgres.query_memo import made_once
from rowtide.databases.postgres.quoting import Run, quote_qualified, share_ownership
from rowtide.databases.source_table import SourceColumn, SourceIndex, SourceTable, TableKind, TablePartition

Execution = Callable[[Connection, Sequence[tuple[str, Mapping[str, Any]]]], Sequence[Sequence[Any]]]
"""What returns the rows of queries with their parameters."""


def execute_each(connection: Connection, requests: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Sequence[Any]]:
    """Return the rows of queries, one after the other."""
    return [connection.execute(text(query), parameters).all() for query, parameters in requests]


@frozen
class ServerIdentity:
    """The server, timeline and database of a connection."""

    system_identifier: str
    timeline: int
    database_id: int
    database: str
    in_recovery: bool
    wal_level: str
    version: int


@made_once
def read_server_identity(connection: Connection) -> ServerIdentity:
    """Return the identity of the server and database behind a connection."""
    row = connection.execute(text(_SERVER_IDENTITY)).one()
    return ServerIdentity(*row)


def read_server_time(connection: Connection) -> datetime:
    """Return the server's time, by the clock that stamps commits."""
    now: datetime = connection.execute(text("select clock_timestamp()")).scalar_one()
    return now.astimezone(UTC)


def running_through(connection: Connection) -> Run:
    """Return a function that runs statements on a connection of SQLAlchemy."""
    return lambda sql, **parameters: connection.execute(text(sql), parameters).all()


@made_once
def has_schema(connection: Connection, name: str) -> bool:
    """Return whether a schema of exactly this name exists."""
    named = text("select exists (select from pg_namespace where nspname = :name)")
    return bool(connection.execute(named, {"name": name}).scalar_one())


@made_once
def has_table(connection: Connection, schema: str, name: str) -> bool:
    """Return whether a table or view of exactly this name exists."""
    return quoting.has_table(running_through(connection), schema, name)


@made_once
def is_begun(connection: Connection, schema: str, name: str, *, made_with: str) -> bool:
    """Return whether a table of rowtide's exists, or one that was created with it; see `quoting`."""
    return quoting.is_begun(running_through(connection), schema, name, made_with=made_with)


def list_columns(connection: Connection, schema: str, name: str) -> frozenset[str]:
    """Return the names of a table's columns; none if there is no such table."""
    return frozenset(connection.execute(text(_COLUMN_NAMES), {"schema": schema, "name": name}).scalars())


def list_existing(connection: Connection, table_ids: Sequence[int]) -> frozenset[int]:
    """Return which of these oids are those of tables."""
    return frozenset(connection.execute(text(_EXISTING), {"ids": list(table_ids)}).scalars())


def find_table(connection: Connection, name: str) -> SourceTable:
    """Return a table by the name that a user gives: parsed as SQL, else taken literally. Raises `TableNotFound`."""
    source_id = find_table_id(connection, name)
    if source_id is None:
        raise TableNotFound(name)
    return read_table(connection, source_id)


def require_table_owner(connection: Connection, table: SourceTable) -> None:
    """Raise `GrantMissing` unless the role has the rights of a table's owner, with the statement that grants them."""
    owner, is_superusers, is_held, role = connection.execute(text(_OWNER), {"source_id": table.source_id}).one()
    if not is_held:
        name = quote_qualified(table.schema, table.name)
        sharing = share_ownership(name, owner, role, is_superusers=is_superusers)
        raise GrantMissing(f"must be owner of table {table.qualified_name}", sharing, "a superuser")


def find_schema_of_new(connection: Connection, name: str) -> str | None:
    """Return the schema in which a table would be created by the name that a user gives; None if it is not SQL's."""
    if not _SQL_NAME.fullmatch(name):
        return None
    schema: str | None = connection.execute(text(_SCHEMA_OF_NEW), {"name": name}).scalar_one()
    return schema


def find_table_id(connection: Connection, name: str) -> int | None:
    """Return a table's oid by the name that a user gives, as SQL or literally; None if it does not exist."""
    return find_table_ids(connection, [name])[0]


def find_table_ids(connection: Connection, names: Sequence[str], execute: Execution = execute_each) -> list[int | None]:
    """Return what `find_table_id` does for several names."""
    requests = [(_FIND_TABLE, {"name": name, "as_sql": name if _SQL_NAME.fullmatch(name) else None}) for name in names]
    return [int(rows[0][0]) if rows else None for rows in execute(connection, requests)]


def spell_names(connection: Connection, name: str) -> list[str]:
    """Return the qualified names that a name of a user's may mean, whether or not there are such tables."""
    as_sql = name if _SQL_NAME.fullmatch(name) else None
    return [name, *connection.execute(text(_SPELL_NAMES), {"as_sql": as_sql}).scalars()]


def read_table(connection: Connection, source_id: int) -> SourceTable:
    """Return a table by its oid. Raises `TableNotFound`."""
    found = find_by_id(connection, source_id)
    if found is None:
        raise TableNotFound(f"with oid {source_id}")
    return found


def find_by_id(connection: Connection, source_id: int) -> SourceTable | None:
    """Return a table by its oid; None if it was dropped."""
    return next(iter(read_tables(connection, [source_id])), None)


def read_tables(
    connection: Connection, source_ids: Sequence[int], execute: Execution = execute_each
) -> tuple[SourceTable, ...]:
    """Return the existing tables with these oids, by schema and name."""
    chosen = {"source_ids": list(source_ids)}
    queries = (_TABLES, _COLUMNS, _PARTITIONS, _INDEXES)
    rows, *others = execute(connection, [(query, chosen) for query in queries])
    columns, partitions, indexes = map(_by_table, others)
    return tuple(
        SourceTable(
            source_id=row.source_id,
            schema=row.schema,
            name=row.name,
            kind=TableKind(row.kind),
            identity=row.identity,
            identity_index=row.identity_index,
            key_name=row.key_name,
            columns=tuple(SourceColumn(*column) for column in columns.get(row.source_id, ())),
            partitions=tuple(
                TablePartition(part_id, schema, name, TableKind(kind), identity, index)
                for part_id, schema, name, kind, identity, index in partitions.get(row.source_id, ())
            ),
            ancestors=tuple(row.ancestors),
            has_relatives=row.has_relatives,
            child_tables=tuple(row.child_tables),
            indexes=tuple(
                SourceIndex(name, tuple(key), *facts) for name, key, *facts in indexes.get(row.source_id, ())
            ),
        )
        for row in rows
    )


@frozen
class NamedTable:
    """A table's name; `is_visible`: the search path finds it; `ancestors` are the partitioned tables above it."""

    source_id: int
    schema: str
    name: str
    is_visible: bool
    ancestors: tuple[int, ...]


def list_tables(connection: Connection) -> tuple[NamedTable, ...]:
    """Return the tables of the application, by schema and name; no views, foreign or temporary tables."""
    rows = connection.execute(text(_APPLICATION_TABLES))
    return tuple(NamedTable(row[0], row[1], row[2], row[3], tuple(row[4])) for row in rows)


def _by_table(rows: Iterable[Sequence[Any]]) -> dict[int, list[Sequence[Any]]]:
    """Group rows by their first value, a table's oid."""
    found: dict[int, list[Sequence[Any]]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row[1:])
    return found


@frozen
class ImageCost:
    """What makes full before images large: columns whose values may be TOASTed, and the TOASTed size."""

    columns: tuple[str, ...]
    out_of_line_bytes: int


def read_image_cost(connection: Connection, table: SourceTable) -> ImageCost | None:
    """Return a table's TOASTed size; None if nothing is TOASTed and no column is stored externally."""
    row = connection.execute(text(_IMAGE_COST), {"source_id": table.source_id}).one()
    if not row.columns or not (row.out_of_line_bytes or row.is_told):
        return None
    return ImageCost(tuple(row.columns), row.out_of_line_bytes)


_PART = r'(?:"(?:[^"]|"")+"|[^\W\d][\w$]*)'
_SQL_NAME = re.compile(rf"{_PART}(?:\.{_PART})?")
"""Input that `to_regclass` can parse; it raises a syntax error for anything else."""

_EXISTING = "select oid::bigint from pg_class where oid = any(cast(:ids as oid[]))"

_COLUMN_NAMES = """
    select attname::text
    from pg_attribute
    join pg_class on pg_class.oid = attrelid
    where relnamespace = to_regnamespace(quote_ident(:schema)) and relname = :name
    and attnum > 0 and not attisdropped
"""

_SERVER_IDENTITY = """
select system_identifier::text,
       case when pg_is_in_recovery() then timeline_id::int
            -- The control file knows of a promotion at the next checkpoint only.
            else ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int end,
       d.oid::bigint, d.datname::text,
       pg_is_in_recovery(), current_setting('wal_level'), current_setting('server_version_num')::int / 10000
from pg_control_system(), pg_control_checkpoint(), pg_database d
where d.datname = current_database()
"""

_SPELL_NAMES = f"""
select case cardinality(parts) when 1 then schema || '.' || parts[1] else array_to_string(parts, '.') end
from parse_ident(:as_sql) parts, unnest({USERS_SCHEMAS}) with ordinality path (schema, place)
where cardinality(parts) = 1 or place = 1
order by place
"""

_SCHEMA_OF_NEW = f"""
select case cardinality(parts) when 1 then ({USERS_SCHEMAS})[1] else parts[1] end from parse_ident(:name) parts
"""

# Not `to_regclass`, which would use the pinned search_path: a name means what it means in the role's own sessions.
_RESOLVE = f"""
(select r.oid from unnest({USERS_SCHEMAS}) with ordinality path (schema, place)
 join pg_namespace m on m.nspname = path.schema join pg_class r on r.relnamespace = m.oid
 where r.relname = {{name}} order by path.place limit 1)
"""
"""SQL expression of the relation that a name without a schema means to the role: the first in its search_path."""

# The name as SQL takes precedence over a table with literally that name.
_FIND_TABLE = f"""
with given (parts) as (select case when cast(:as_sql as text) is not null then parse_ident(:as_sql) end),
meant (id) as (
    select case cardinality(parts) when 1 then {_RESOLVE.format(name="parts[1]")}
           else (select r.oid from pg_class r join pg_namespace m on m.oid = r.relnamespace
                 where m.nspname = parts[1] and r.relname = parts[2]) end
    from given)
select c.oid::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p')
  and (c.oid = (select id from meant)
       or n.nspname || '.' || c.relname = :name
       or (c.relname = :name and c.oid = {_RESOLVE.format(name="c.relname")}))
order by (c.oid = (select id from meant)) desc nulls last
limit 1
"""

_KIND = """
case when c.relpersistence = 't' then 'temporary' when c.relkind = 'p' then 'partitioned'
     when c.relkind = 'f' then 'foreign' when c.relpersistence = 'u' then 'unlogged' else 'ordinary' end
"""

_IDENTITY_INDEX = """
(select x.relname::text from pg_index i join pg_class x on x.oid = i.indexrelid
 where i.indrelid = c.oid and i.indisreplident)
"""

# Facts of partitions and parents are read only for these. `relhassubclass` is true for every parent, and may be true
# for a former one.
_TABLES = f"""
select c.oid::bigint as source_id, n.nspname::text as schema, c.relname::text as name, {_KIND} as kind,
       c.relreplident::text as identity, case when c.relreplident = 'i' then {_IDENTITY_INDEX} end as identity_index,
       (select k.conname::text from pg_constraint k where k.conrelid = c.oid and k.contype = 'p') as key_name,
       case when c.relispartition then array(
           select relid::oid::bigint from pg_partition_ancestors(c.oid) where relid <> c.oid)
           else '{{}}' end as ancestors,
       c.relkind = 'r' and not c.relispartition and (
           exists (select from pg_inherits i where i.inhrelid = c.oid)
           or (c.relhassubclass and exists (select from pg_inherits i where i.inhparent = c.oid))) as has_relatives,
       case when c.relkind = 'r' and c.relhassubclass then array(
           with recursive child_tables as (
                 select i.inhrelid from pg_inherits i where i.inhparent = c.oid
                 union
                 select i.inhrelid from child_tables above join pg_inherits i on i.inhparent = above.inhrelid)
             select hn.nspname || '.' || h.relname
             from child_tables join pg_class h on h.oid = inhrelid join pg_namespace hn on hn.oid = h.relnamespace
             order by 1) else '{{}}' end as child_tables
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = any(cast(:source_ids as oid[]))
order by n.nspname, c.relname
"""

_PARTITIONS = f"""
select root.oid::bigint, c.oid::bigint, n.nspname::text, c.relname::text, {_KIND}, c.relreplident::text,
       {_IDENTITY_INDEX}
from unnest(cast(:source_ids as oid[])) as root (oid)
cross join lateral pg_partition_tree(root.oid) as part
join pg_class c on c.oid = part.relid
join pg_namespace n on n.oid = c.relnamespace
where c.oid <> root.oid
order by root.oid, c.oid
"""

# A null among the names stands for an expression, which is not the value of a single column.
_INDEXES = """
select i.indrelid::bigint, x.relname::text,
       array(select a.attname::text
             from generate_series(0, i.indnkeyatts - 1) as place
             left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[place] and a.attnum > 0
             order by place),
       i.indisunique, i.indimmediate, i.indpred is not null, i.indisvalid and i.indisready
from pg_index i join pg_class x on x.oid = i.indexrelid
where i.indrelid = any(cast(:source_ids as oid[]))
order by i.indrelid, i.indexrelid
"""

_IMAGE_COST = """
select array_agg(a.attname::text order by a.attnum) as columns, bool_or(a.attstorage = 'e') as is_told,
       (select coalesce(sum(pg_relation_size(nullif(h.reltoastrelid, 0))), 0)::bigint from pg_class h
        where h.oid = :source_id or h.oid in (select relid from pg_partition_tree(:source_id))) as out_of_line_bytes
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attstorage in ('x', 'e')
where c.oid = :source_id
"""

# For types of fixed length, such as point, `typelem` is not the element of an array: only a length of -1 marks an
# array.
_TYPE_TEXT = """
(select case when named.typnamespace <> 'pg_catalog'::regnamespace and pg_type_is_visible(named.oid)
             then quote_ident(n.nspname) || '.' else '' end || format_type(t.oid, {modifier})
 from pg_type t
 join pg_type named on named.oid = case when t.typelem <> 0 and t.typlen = -1 then t.typelem else t.oid end
 join pg_namespace n on n.oid = named.typnamespace
 where t.oid = {type_code})
"""
"""A type's text, schema-qualified for user-defined types, so that it is unique and the same for every role."""

COLUMN_BASE_TYPE_TEXT = f"""
(with recursive below (type_code, modifier) as (
    select t.typbasetype, t.typtypmod from pg_type t where t.oid = a.atttypid and t.typtype = 'd'
    union all
    select t.typbasetype, t.typtypmod from below join pg_type t on t.oid = below.type_code where t.typtype = 'd')
 select {_TYPE_TEXT.format(type_code="below.type_code", modifier="below.modifier")}
 from below join pg_type base on base.oid = below.type_code where base.typtype <> 'd')
"""
"""SQL expression of the base type of a row `a` of pg_attribute, if its type is a domain."""

IS_NOT_NULL = """
(a.attnotnull and not exists (
    select from pg_constraint required
    where required.conrelid = a.attrelid and required.contype = 'n' and required.conkey[1] = a.attnum
        and not required.convalidated))
"""
"""SQL condition: a column, a row `a` of pg_attribute, has no null. PostgreSQL 18 has constraints that rows violate."""

COLUMN_TYPE_TEXT = _TYPE_TEXT.format(type_code="a.atttypid", modifier="a.atttypmod")
"""SQL expression of the type of a row `a` of pg_attribute."""

COLUMN_COLLATION = """
(select quote_ident(n.nspname) || '.' || quote_ident(l.collname)
 from pg_collation l join pg_namespace n on n.oid = l.collnamespace join pg_type t on t.oid = a.atttypid
 where l.oid = a.attcollation and a.attcollation <> t.typcollation)
"""
"""SQL expression of the collation of a row `a` of pg_attribute; null if it is its type's."""

# Formatting a type's name takes longer than reading everything else of a column, and thousands of columns have a dozen
# types.
_COLUMNS = f"""
with chosen as materialized (
    select a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation, a.attnotnull, a.attgenerated
    from pg_attribute a
    where a.attrelid = any(cast(:source_ids as oid[])) and a.attnum > 0 and not a.attisdropped),
types as materialized (
    select a.atttypid, a.atttypmod, a.attcollation, {COLUMN_TYPE_TEXT} as type_text,
           {COLUMN_BASE_TYPE_TEXT} as base_type_text,
           coalesce((select collisdeterministic from pg_collation l where l.oid = a.attcollation), true)
               as has_deterministic_collation
    from (select distinct atttypid, atttypmod, attcollation from chosen) a)
select a.attrelid::bigint, a.attnum::int, a.attname::text, a.atttypid::bigint, a.atttypmod,
       t.type_text, not {IS_NOT_NULL}, a.attgenerated <> '',
       array_position(k.conkey, a.attnum), a.attgenerated = 'v', t.base_type_text, t.has_deterministic_collation,
       case when a.attgenerated <> '' then (
           select pg_get_expr(d.adbin, d.adrelid) from pg_attrdef d
           where d.adrelid = a.attrelid and d.adnum = a.attnum) end
from chosen a
join types t
  on t.atttypid = a.atttypid and t.atttypmod = a.atttypmod and t.attcollation = a.attcollation
left join pg_constraint k on k.conrelid = a.attrelid and k.contype = 'p'
order by a.attrelid, a.attnum
"""

# A schema `distribution` is excluded only if it is rowtide's, since users may have one of that name.
_APPLICATION_TABLES = f"""
select c.oid::bigint, n.nspname::text, c.relname::text, c.oid is not distinct from {_RESOLVE.format(name="c.relname")},
       array(select relid::oid::bigint from pg_partition_ancestors(c.oid) where relid <> c.oid)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence <> 't'
  and n.nspname not like 'pg\\_%' and n.nspname <> 'information_schema'
  and n.nspname not in ('cdc', 'rowtide') and n.nspname not like 'rowtide\\_%'
  and (n.nspname <> 'distribution' or to_regclass('distribution."MSpublications"') is null)
order by n.nspname, c.relname
"""

_OWNER = """
select o.rolname::text, o.rolsuper, pg_has_role(o.oid, 'usage'), current_user::text
from pg_class c join pg_roles o on o.oid = c.relowner where c.oid = cast(:source_id as oid)
"""


COLUMN_SEQUENCE = """
select coalesce(pg_get_serial_sequence({table}, {column}), (
    select quote_ident(n.nspname) || '.' || quote_ident(s.relname)
    from pg_attribute a
    join pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum
    join pg_depend d on d.classid = 'pg_attrdef'::regclass and d.objid = f.oid
    join pg_class s on d.refclassid = 'pg_class'::regclass and s.oid = d.refobjid and s.relkind = 'S'
    join pg_namespace n on n.oid = s.relnamespace
    where a.attrelid = to_regclass({table}) and a.attname = {column} and a.attgenerated = ''
    order by s.oid limit 1))
where to_regclass({table}) is not null
"""
"""SQL of the sequence that numbers a column: its own, or the one in its default. Parameters are to be filled in."""
