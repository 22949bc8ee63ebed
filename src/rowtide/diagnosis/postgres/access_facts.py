"""Read what the connection's role may do as a reader of changes, at a subscriber, and in a merge."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from rowtide.cdc import definitions
from rowtide.cdc.access import read_role_access
from rowtide.cdc.errors.enabling import ReadingDenied
from rowtide.core.formats import StoreFormat
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import ServerIdentity, find_table, has_schema, has_table, read_server_identity
from rowtide.databases.postgres.connect import open_url
from rowtide.databases.postgres.errors import RightMissing, translated
from rowtide.databases.postgres.owner_functions import Owner, find_deferred, read_owners
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.diagnosis.postgres.server_facts import RoleFacts
from rowtide.diagnosis.postgres.table_facts import OUR_SCHEMAS, PostgresTableFacts, choose_tables, read_table_facts
from rowtide.log.catalogue import find_source
from rowtide.storage.places import local_path

Names = tuple[bytes, bytes, bytes]
"""The names of a schema, a table and a column, as bytes."""
WRITES = ("select", "insert", "update", "delete", "truncate")
"""The privileges that delivery needs in a table of a subscriber."""


@frozen
class MergedFacts:
    """The merged tables of owners that the role does not trust, by their quoted names, and who the role is.

    `as_agent` are those whose code has the agent's rights by --run-as; `deferred` is what would run at a commit with
    the rights of the session.
    """

    role: str
    owners: Mapping[str, Owner]
    as_agent: frozenset[str]
    deferred: Sequence[str] = ()


@frozen
class TableAccess:
    """A table, by its name for people and as SQL takes it, with what the role may not do in it."""

    name: str
    quoted: str
    lacking: tuple[str, ...]


@frozen
class ReaderFacts:
    """The read access of a role.

    `named` are the tables that the user named. `refusals` are those of capture instances of these tables, else of all.
    `uncaptured` were named and are not captured. `lake` is the folder of change tables, None where it is not on a disk
    or nothing is captured; `may_enter_lake`: this user may list it.
    """

    role: RoleFacts
    named: tuple[int, ...]
    is_captured: bool
    refusals: tuple[ReadingDenied, ...]
    uncaptured: tuple[str, ...]
    lake: str | None
    may_enter_lake: bool


@frozen
class NodeFacts:
    """The access of a role at a subscriber, or at a node of a merge.

    `is_made`: rowtide's schema is there. `is_named`: the user named the tables. `unusable_schemas` are those of tables
    whose names the role may not use, `closed_schemas` those in which it may not create tables, `origin_functions` what
    it may not execute to mark its transactions; `may_disable_triggers`: it may set session_replication_role.
    """

    server: ServerIdentity
    role: RoleFacts
    is_made: bool
    is_named: bool
    tables: tuple[PostgresTableFacts, ...]
    accesses: tuple[TableAccess, ...] = ()
    unusable_schemas: tuple[str, ...] = ()
    closed_schemas: tuple[str, ...] = ()
    origin_functions: tuple[str, ...] = ()
    may_disable_triggers: bool = True


def read_reader(connection: Connection, role: RoleFacts, names: Sequence[str]) -> ReaderFacts:
    """Return what a reader may read. Raises `TableNotFound`."""
    named = _choose(connection, names) if names else ()
    if not has_table(connection, definitions.SCHEMA, "change_tables"):
        theirs = _name(connection, named)
        return ReaderFacts(
            role, named, is_captured=False, refusals=(), uncaptured=theirs, lake=None, may_enter_lake=True
        )
    captured = connection.execute(text(_CAPTURED)).all()
    chosen = set(named) if names else {row.source_object_id for row in captured}
    instances = {row.capture_instance for row in captured if row.source_object_id in chosen}
    access = read_role_access(connection)
    source = find_source(connection, StoreFormat.require_readable)
    lake = local_path(source.lake) if source is not None else None
    uncaptured = chosen - {row.source_object_id for row in captured}
    return ReaderFacts(
        role=role,
        named=named,
        is_captured=True,
        refusals=tuple(refusal for name, refusal in sorted(access.refusals.items()) if name in instances),
        uncaptured=_name(connection, sorted(uncaptured)),
        lake=lake,
        may_enter_lake=lake is None or not Path(lake).exists() or os.access(lake, os.R_OK | os.X_OK),
    )


def find_unreadable_tables(connection: Connection, ids: Sequence[int]) -> tuple[TableAccess, ...]:
    """Return those of some tables that the role may not read."""
    return _find_lacking(connection, ids, ("select",))


def read_subscriber(connection: Connection, role: RoleFacts, names: Sequence[str], schema: str) -> NodeFacts:
    """Return what is known of a subscriber, whose own objects are in a schema. Raises `TableNotFound`."""
    server = read_server_identity(connection)
    chosen = _choose(connection, names)
    parameter_rights = server.version >= _PARAMETER_RIGHTS_SINCE
    return NodeFacts(
        server=server,
        role=role,
        is_made=has_schema(connection, schema),
        is_named=bool(names),
        tables=read_table_facts(connection, chosen, named=bool(names), captured=()),
        accesses=_find_lacking(connection, chosen, WRITES),
        unusable_schemas=tuple(connection.execute(text(_UNUSABLE), {"ids": list(chosen)}).scalars()),
        closed_schemas=tuple(connection.execute(text(_CLOSED), {"ours": list(OUR_SCHEMAS)}).scalars()),
        origin_functions=tuple(connection.execute(text(_ORIGIN_FUNCTIONS)).scalars()),
        may_disable_triggers=(
            bool(connection.execute(text(_MAY_REPLAY)).scalar()) if parameter_rights else role.is_superuser
        ),
    )


def read_node(connection: Connection, role: RoleFacts, names: Sequence[str], schema: str) -> NodeFacts:
    """Return what is known of a node of a merge, whose own objects are in a schema. Raises `TableNotFound`."""
    chosen = _choose(connection, names)
    return NodeFacts(
        server=read_server_identity(connection),
        role=role,
        is_made=has_schema(connection, schema),
        is_named=bool(names),
        tables=read_table_facts(connection, chosen, named=bool(names), captured=()),
    )


def read_names(url: str) -> tuple[Names, ...]:
    """Return the names of the user's tables and their columns."""
    with open_url(url, application_name="rowtide check", for_queries=True) as connection, translated():
        return tuple(connection.execute(_NAMES_OF_TABLES).fetchall())


def read_merged(connection: Connection) -> MergedFacts:
    """Read the merged tables of other roles; none without merge's metadata."""
    run = partial(_run, connection)
    role = str(run("select current_user::text as role")[0].role)
    if not run(_IS_MERGED)[0].is_there:
        return MergedFacts(role, {}, frozenset())
    listed = run(_MERGED_TABLES)
    owners = {
        name: owner
        for name, owner in read_owners(run, [row.name for row in listed]).items()
        if owner.others or not owner.is_trusted
    }
    deferred = find_deferred(run) if owners else ()
    return MergedFacts(role, owners, frozenset(row.name for row in listed if row.is_as_agent), deferred)


def _run(connection: Connection, sql: str, **parameters: object) -> Sequence[Any]:
    return connection.execute(text(sql), parameters).all()


def _choose(connection: Connection, names: Sequence[str]) -> tuple[int, ...]:
    """Return the tables to look at; also such as the role may not reach by their names. Raises `TableNotFound`."""
    return tuple(_find(connection, name) for name in names) or choose_tables(connection, (), ())


def _find_lacking(connection: Connection, ids: Sequence[int], rights: Sequence[str]) -> tuple[TableAccess, ...]:
    return tuple(
        TableAccess(f"{row.schema}.{row.name}", quote_qualified(row.schema, row.name), tuple(row.lacking))
        for row in connection.execute(text(_LACKING), {"ids": list(ids), "rights": list(rights)})
    )


def _name(connection: Connection, ids: Sequence[int]) -> tuple[str, ...]:
    return tuple(connection.execute(text(_NAMES), {"ids": list(ids)}).scalars())


def _find(connection: Connection, name: str) -> int:
    try:
        with translated():
            return find_table(connection, name).source_id
    except RightMissing:
        found = connection.execute(text(_BY_SCHEMA), {"name": name}).scalar()
        if found is None:
            raise
        return int(found)


_PARAMETER_RIGHTS_SINCE = 15

_BY_SCHEMA = """
select c.oid::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and array[n.nspname::text, c.relname::text] = parse_ident(:name)
"""

_UNUSABLE = """
select distinct n.nspname::text
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = any(cast(:ids as oid[])) and not has_schema_privilege(n.oid, 'usage')
order by 1
"""

_CAPTURED = "select capture_instance, source_object_id::bigint from cdc.change_tables"

_NAMES = """
select n.nspname::text || '.' || c.relname::text
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = any(cast(:ids as oid[]))
order by 1
"""

_LACKING = """
select n.nspname::text as schema, c.relname::text as name, l.lacking
from pg_class c join pg_namespace n on n.oid = c.relnamespace
cross join lateral (
    select array_agg(asked.privilege order by asked.place) as lacking
    from unnest(cast(:rights as text[])) with ordinality asked (privilege, place)
    where not has_table_privilege(c.oid, asked.privilege)) l
where c.oid = any(cast(:ids as oid[])) and l.lacking is not null
order by 1, 2
"""

_CLOSED = """
select n.nspname::text
from pg_namespace n
where n.nspname <> 'information_schema' and n.nspname !~ '^pg_' and n.nspname <> all(:ours)
  and not has_schema_privilege(n.oid, 'create')
  and not exists (select from pg_depend d
                  where d.classid = 'pg_namespace'::regclass and d.objid = n.oid and d.deptype = 'e')
order by 1
"""

_ORIGIN_FUNCTIONS = """
select p.oid::regprocedure::text
from pg_proc p
where p.pronamespace = 'pg_catalog'::regnamespace and not has_function_privilege(p.oid, 'execute')
  and p.proname in ('pg_replication_origin_create', 'pg_replication_origin_session_setup',
                    'pg_replication_origin_xact_setup', 'pg_replication_origin_xact_reset')
order by p.proname
"""

_MAY_REPLAY = "select has_parameter_privilege('session_replication_role', 'set')"

_NAMES_OF_TABLES = """
select convert_to(n.nspname::text, 'SQL_ASCII'), convert_to(c.relname::text, 'SQL_ASCII'),
       convert_to(a.attname::text, 'SQL_ASCII')
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relkind in ('r', 'p', 'f', 'v', 'm') and n.nspname not in ('pg_catalog', 'information_schema')
order by n.nspname, c.relname, a.attnum
"""

_IS_MERGED = """
select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
               where n.nspname = 'rowtide_merge' and c.relname = 'sysmerge_stored_articles'
                 and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')) as is_there
"""
_MERGED_TABLES = """
select concat(quote_ident(n.nspname), '.', quote_ident(c.relname)) as name, bool_or(a.is_as_agent) as is_as_agent
from (select s.definition::json ->> 'schema' as schema, s.definition::json ->> 'table' as name,
             coalesce(to_jsonb(p) ->> 'run_as', 'owner') = 'agent' as is_as_agent
      from rowtide_merge."sysmerge_stored_articles" s
      join rowtide_merge."sysmerge_stored_publications" p using (pubid)) a
join pg_class c on c.relname = a.name and c.relkind in ('r', 'p')
join pg_namespace n on n.oid = c.relnamespace
where has_schema_privilege(n.oid, 'usage') and (n.nspname = a.schema or (a.schema = '' and exists (
    select from pg_trigger t where t.tgrelid = c.oid and left(t.tgname, 8) = 'MSmerge_')))
group by 1 order by 1
"""
