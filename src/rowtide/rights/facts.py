"""Read the objects of a database in which a role can be granted rights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, text

from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import find_schema_of_new, find_table_ids
from rowtide.databases.postgres.errors import TableNotFound
from rowtide.databases.postgres.functions import DISTRIBUTORS, OWN_SCHEMAS, PREFIX
from rowtide.databases.postgres.quoting import quote
from rowtide.rights.errors import RoleUnknown


@frozen
class Grantee:
    """A role that is to be granted rights; one that does not inherit those of its groups needs explicit grants."""

    name: str
    inherits: bool
    is_superuser: bool


@frozen
class OwnedTable:
    """A table of the users', with its owner; `gate` is the gating role of its capture instances, if one has any.

    `is_captured`, `is_tracked`: its changes are read; `is_merged`: it is an article's. `columns` are those that are
    captured, unless these are all.
    """

    schema: str
    name: str
    owner: str
    owner_is_superuser: bool
    gates: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    is_captured: bool = False
    is_tracked: bool = False
    is_merged: bool = False


@frozen
class RightsFacts:
    """What rights can be granted for.

    `schemas` are rowtide's, with their owners; `relations` are the tables in them, with their columns, and `views` the
    names of the views for monitors. `comments` are those on the schemas of such views. `origin_functions` are
    signatures. `lacking` are the names of tables that are not there, and of their schemas the owners are in
    `schema_owners`; without one, the schema is not there either.
    """

    database: str
    database_owner: str
    version: int
    grantor: str
    grantee: Grantee
    schemas: Mapping[str, str]
    relations: Mapping[str, Mapping[str, tuple[str, ...]]]
    views: Mapping[str, tuple[str, ...]]
    comments: Mapping[str, str]
    tables: tuple[OwnedTable, ...]
    schema_owners: Mapping[str, str]
    origin_functions: tuple[str, ...]
    lacking: Mapping[str, str]
    """Their schemas, by the names that were given."""


def read_facts(
    connection: Connection, role: str, names: Sequence[str] = (), *, has_tables: bool = True, may_lack: bool = False
) -> RightsFacts:
    """Read what rights a role can be granted for, in tables that are named, else in those that rowtide uses.

    Without `has_tables` in no table of the users', which a monitor could not find. With `may_lack` a named table need
    not be there. Raises `RoleUnknown`, `TableNotFound`.
    """
    grantee = connection.execute(text(_GRANTEE), {"role": role}).one_or_none()
    if grantee is None:
        raise RoleUnknown(role, quote(role))
    here = connection.execute(text(_DATABASE)).one()
    schemas = {row.name: row.owner for row in connection.execute(text(_SCHEMAS), _OF_ROWTIDE)}
    listed = connection.execute(text(_RELATIONS), {"schemas": [*schemas, *(PREFIX + name for name in schemas)]}).all()
    found = dict(zip(names, find_table_ids(connection, names), strict=True))
    lacking = {name: find_schema_of_new(connection, name) for name, source_id in found.items() if source_id is None}
    for name, schema in lacking.items():
        if schema is None or not may_lack:
            raise TableNotFound(name)
    named = [source_id for source_id in found.values() if source_id is not None]
    # If none of the named tables exists yet, the tables in use are not meant instead.
    tables = _read_tables(connection, schemas, named) if has_tables and (named or not names) else ()
    return RightsFacts(
        database=here.name,
        database_owner=here.owner,
        version=here.version,
        grantor=here.role,
        grantee=Grantee(*grantee),
        schemas=schemas,
        relations={name: {row.name: tuple(row.columns) for row in listed if row.schema == name} for name in schemas},
        views={name: tuple(row.name for row in listed if row.schema == PREFIX + name) for name in schemas},
        comments={row.name: row.comment for row in connection.execute(text(_COMMENTS), {"prefix": PREFIX})},
        tables=tables,
        schema_owners={
            row.name: row.owner
            for row in connection.execute(
                text(_OWNERS), {"schemas": list({*(one.schema for one in tables), *lacking.values()})}
            )
        },
        origin_functions=tuple(connection.execute(text(_ORIGIN_FUNCTIONS)).scalars()),
        lacking={name: schema for name, schema in lacking.items() if schema is not None},
    )


def _read_tables(connection: Connection, schemas: Mapping[str, str], named: Sequence[int]) -> tuple[OwnedTable, ...]:
    queries = [query for schema, query in _USED.items() if schema in schemas]
    if not (queries or named):
        return ()
    used = " union all ".join([*queries, _NAMED])
    rows = connection.execute(text(_TABLES.format(used=used)), {"named": list(named)})
    return tuple(
        OwnedTable(
            row.schema,
            row.name,
            row.owner,
            row.owner_is_superuser,
            tuple(row.gates or ()),
            tuple(row.columns or ()),
            row.is_captured,
            row.is_tracked,
            row.is_merged,
        )
        for row in rows
    )


_GRANTEE = "select rolname::text, rolinherit, rolsuper from pg_roles where rolname = :role"

_DATABASE = """
select d.datname::text as name, o.rolname::text as owner, current_user::text as role,
       current_setting('server_version_num')::int / 10000 as version
from pg_database d join pg_roles o on o.oid = d.datdba where d.datname = current_database()
"""

_OF_ROWTIDE = {"own": list(OWN_SCHEMAS), "distributors": f"^({DISTRIBUTORS})$"}
_SCHEMAS = """
select n.nspname::text as name, o.rolname::text as owner
from pg_namespace n join pg_roles o on o.oid = n.nspowner
where n.nspname = any(:own) or n.nspname ~ :distributors
"""

_RELATIONS = """
select n.nspname::text as schema, c.relname::text as name,
       (select array_agg(a.attname::text order by a.attnum) from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = any(:schemas) and c.relkind in ('r', 'p', 'v') and c.relname <> 'rowtide_format'
order by 1, 2
"""

_COMMENTS = """
select substr(n.nspname, length(:prefix) + 1) as name, obj_description(n.oid, 'pg_namespace') as comment
from pg_namespace n where starts_with(n.nspname, :prefix) and obj_description(n.oid, 'pg_namespace') is not null
"""

_USED = {
    "rowtide": "select source_table_id as id, null::text as gate, null::text as captured, false as is_captured, "
    "false as is_tracked, false as is_merged from rowtide.members where feature <> 'log'",
    "cdc": "select t.source_object_id, t.role_name, c.column_name, true, false, false from cdc.change_tables t "
    "join cdc.captured_columns c using (object_id)",
    "rowtide_tracking": 'select "__sysTableId"::bigint, null, null, false, true, false '
    'from rowtide_tracking."__sysOCSTrackedObjects"',
    "rowtide_merge": "select t.tgrelid::bigint, null, null, false, false, true from pg_trigger t "
    "where t.tgname ~ '^MSmerge_ins_'",
}
"""The tables that rowtide uses, with the columns that it captures."""
_NAMED = "select unnest(cast(:named as bigint[])), null, null, false, false, false"

_TABLES = """
select n.nspname::text as schema, c.relname::text as name, o.rolname::text as owner, o.rolsuper as owner_is_superuser,
       array_agg(distinct u.gate) filter (where u.gate is not null) as gates,
       nullif(array_agg(distinct a.attname::text) filter (where a.attname is not null), (
           select array_agg(w.attname::text order by w.attname::text) from pg_attribute w
           where w.attrelid = c.oid and w.attnum > 0 and not w.attisdropped)) as columns,
       bool_or(u.is_captured) as is_captured, bool_or(u.is_tracked) as is_tracked, bool_or(u.is_merged) as is_merged
from ({used}) u (id, gate, captured, is_captured, is_tracked, is_merged)
join pg_class c on c.oid = u.id::oid and c.relkind in ('r', 'p')
join pg_namespace n on n.oid = c.relnamespace
join pg_roles o on o.oid = c.relowner
left join pg_attribute a on a.attrelid = c.oid and a.attname = u.captured and not a.attisdropped
where cardinality(cast(:named as bigint[])) = 0 or c.oid = any(cast(:named as oid[]))
group by 1, 2, 3, 4, c.oid order by 1, 2
"""

_OWNERS = """
select n.nspname::text as name, o.rolname::text as owner
from pg_namespace n join pg_roles o on o.oid = n.nspowner where n.nspname = any(:schemas)
"""

_ORIGIN_FUNCTIONS = """
select p.oid::regprocedure::text
from pg_proc p
where p.pronamespace = 'pg_catalog'::regnamespace
  and p.proname in ('pg_replication_origin_create', 'pg_replication_origin_session_setup',
                    'pg_replication_origin_xact_setup', 'pg_replication_origin_xact_reset')
order by p.proname
"""
