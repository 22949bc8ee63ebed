"""What rowtide leaves in users' databases: schemas, functions, formats, and views through which monitors read.

The owner of a schema or table may give it code, which would run with the rights of the role that uses it.
A function with its creator's rights (`security definer`) must not find what a session made: `pg_temp` is last in its
path, unnamed it would be first for tables and types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rowtide.core.formats import StoredFormat, StoreFormat, format_row
from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal, quote_qualified

if TYPE_CHECKING:
    from sqlalchemy import Connection


AUDIT_SCHEMA = "rowtide_audit"
FEATURE_SCHEMAS = ("rowtide", "cdc", "distribution", "rowtide_subscriber", "rowtide_merge", "rowtide_tracking")
OWN_SCHEMAS = (*FEATURE_SCHEMAS, AUDIT_SCHEMA)
"""rowtide's schemas, except those of distributors of other databases and of the audit."""
DISTRIBUTORS = r"distribution_\d+_\d+"
"""The names of schemas of distributors of other databases, as a regular expression of Python and PostgreSQL."""

OF_OTHERS = "RT127"
"""The SQLSTATE of the guard of schemas. Its message names the object that belongs to another role, its detail the
role.
"""

DEFINER = "security definer set search_path = pg_catalog, pg_temp"
"""The attributes of a function that runs with its creator's rights."""

ALL_ROWS = "set row_security = off"
"""The attribute of a function that reads a user's table: a policy is the owner's code, and could hide rows."""


def close_function(signature: str, *, is_cloned: bool = False) -> str:
    """Return the statement after which a function can be called only by its triggers.

    To fire needs no right to execute, to create a trigger does: `is_cloned` functions are those of row triggers of
    partitioned tables, which the server clones with the rights of the role that adds a partition.
    """
    if is_cloned:
        return f"grant execute on function {signature} to public"
    return f"revoke all on function {signature} from public"


def close_all(schema: str) -> str:
    """Return the statement that takes from the public the right to execute a schema's functions and procedures, but for
    trigger functions: those that belong to other roles stay as they are.
    """
    routines = f"""select p.oid::regprocedure as signature from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = {quote_literal(schema)} and p.prorettype <> 'trigger'::regtype
        and pg_has_role(p.proowner, 'usage') and has_function_privilege('public', p.oid, 'execute')"""
    revoking = "execute format('revoke all on routine %s from public', f.signature)"
    return f"do {quote_body(f'declare f record; begin for f in {routines} loop {revoking}; end loop; end')}"


def own_schema(schema: str) -> Sequence[str]:
    """Return the statements that create a schema of rowtide's if it does not exist, and verify its owner."""
    return [f"create schema if not exists {quote(schema)}", guard_schema(schema)]


def guard_schema(schema: str) -> str:
    """Return the statement that raises `OF_OTHERS` if a schema, or a table in it, belongs to a role that could give it
    code: one that is neither the session's nor a superuser. `translated` raises `SchemaOfOthers` for it.
    """
    name = quote_literal(schema)
    held = f"""select 'schema ' || quote_ident(nspname) as what, nspowner as owner
        from pg_namespace where nspname = {name} union all
        select 'relation ' || c.oid::regclass, c.relowner from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = {name} and c.relkind <> 'i'"""
    first = f"""select h.what, r.rolname from ({held}) h join pg_roles r on r.oid = h.owner
        where r.rolname <> current_user and not r.rolsuper limit 1"""
    raising = f"raise exception using errcode = '{OF_OTHERS}', message = f.what, detail = f.rolname"
    return f"do {quote_body(f'declare f record; begin for f in {first} loop {raising}; end loop; end')}"


PATH = "pg_catalog, pg_temp"
"""The search_path of all sessions: no other schema's functions, operators, types or tables hide the server's."""

PIN_PATH = f"set search_path = {PATH}"
"""The statement that sets the search_path of rowtide's sessions, valid under any current path."""

OWN_PATH = f"set local search_path = {PATH}"
"""The statement that returns to the path of rowtide's sessions within a transaction."""

USERS_PATH = "set local search_path to default"
"""The statement that sets the role's own search_path for the rest of a transaction.

It is the last one before a commit which may run deferred triggers: they find by it what they name without a schema.
Code that runs in the session cannot change the default, as it could a setting of rowtide's.
Other code of users runs in functions that have this path attached (`owner_functions`), never in a statement of
rowtide's.
"""

USERS_SCHEMAS = "pg_catalog.current_setting('rowtide.schemas')::pg_catalog.name[]"
"""SQL expression of the schemas in the role's own search_path, in order; users' unqualified names are found in them."""


VIEW = "rowtide_format"


def format_creation(schema: str, own: StoreFormat) -> str:
    """Return the statement that records the format of a schema that has none: of one that is made, or is required."""
    view = quote_qualified(schema, VIEW)
    creation = f"create view {view} as {format_row(own.recorded)}"
    return f"do {quote_body(f'begin if not exists {_found(schema)} then {creation}; end if; end')}"


def recorded_definition(schema: str) -> str:
    """Return the expression for the definition of a schema's format; null without one."""
    return f"(select pg_get_viewdef(oid) from {_found(schema)} f)"


def raise_format(connection: Connection, schema: str, recorded: StoredFormat) -> None:
    """Record a later format in the transaction of the migration's step."""
    view = quote_qualified(schema, VIEW)
    connection.exec_driver_sql(f"create or replace view {view} as {format_row(recorded)}")


def _found(schema: str) -> str:
    return (
        "(select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'v' "
        f"and n.nspname = {quote_literal(schema)} and c.relname = '{VIEW}')"
    )


# Schemas with views of rowtide's tables, through which monitors read. Each schema of rowtide's can have one, of the
# same owner: its views have the tables' names, so a monitor's sessions run the same queries as the owner's, on other
# schemas. Views of another owner are never read: a view calls its functions with the rights of who reads it.

PREFIX = "rowtide_monitor_"
MONITORED = "rowtide_monitored"
"""Key in the `info` of an engine's connections: the schemas that the session's role reads through views."""

FIND_MONITORED = f"""(
select pg_catalog.string_agg(n.nspname::pg_catalog.text, ',')
from pg_catalog.pg_namespace n join pg_catalog.pg_namespace m
  on m.nspname operator(pg_catalog.=) pg_catalog.concat('{PREFIX}', n.nspname)::pg_catalog.name
  and m.nspowner operator(pg_catalog.=) n.nspowner
where pg_catalog.has_schema_privilege(m.oid, 'usage') and not pg_catalog.pg_has_role(n.nspowner, 'usage'))"""
"""An expression, to be evaluated under any search path: the schemas, without their owners and members of these."""


def view_schema(schema: str) -> str:
    """Return the name of the schema that has the views of a schema's tables."""
    return f"{PREFIX}{schema}"


def reads_views(connection: Connection, schema: str) -> bool:
    """Return whether the connection's role reads a schema's tables through views."""
    monitored: frozenset[str] = connection.info.get(MONITORED, frozenset())
    return schema in monitored


def as_seen(connection: Connection, sql: str, schema: str) -> str:
    """Return a query on a schema's tables as a connection reads them."""
    return sql.replace(f"{schema}.", f"{view_schema(schema)}.") if reads_views(connection, schema) else sql


def map_schemas(connection: Connection, schemas: Mapping[str | None, str]) -> dict[str | None, str]:
    """Return where a connection reads the tables of schemas, by the names that queries have for these."""
    return {
        name: view_schema(schema) if reads_views(connection, schema) else schema for name, schema in schemas.items()
    }
