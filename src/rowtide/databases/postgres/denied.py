"""Which grant a role lacked when the server refused a statement.

The server names the object, neither its schema nor the privilege. Both are looked up by a connection of the same role,
since the transaction that was refused has failed.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.values import frozen
from rowtide.databases.postgres.functions import DISTRIBUTORS, OWN_SCHEMAS, PREFIX
from rowtide.databases.postgres.owner_functions import SCHEMA
from rowtide.databases.postgres.quoting import quote, quote_qualified, share_ownership

_OBJECT = re.compile(
    r"permission denied for (?:materialized |foreign )?"
    r"(?P<kind>table|view|sequence|schema|database|function|procedure) (?P<name>.+)"
)
_OWNED = re.compile(r"must be owner of (?:table|relation|sequence|view) (?P<name>.+)")
_PARAMETER = re.compile(r'permission denied to set parameter "(?P<name>[^"]+)"')
_OF_OWNERS = re.compile(
    rf'(?:SQL statement ".*"\n)?PL/pgSQL function {SCHEMA}\.(?:execute|query|read)_(?P<id>\d+)\(.*\) line \d+ at '
)
_ROLE = re.compile(r'permission denied to set role "(?P<name>.+)"')


_WITHOUT_VIEWS = re.compile(r"distribution(_\d+_\d+)?|rowtide_audit|rowtide_merge|rowtide_tracking")
"""Schemas of rowtide's to which only their owners get access: monitors read views."""
_OF_ROWTIDE = re.compile("|".join((*OWN_SCHEMAS, DISTRIBUTORS)))


@frozen
class MissingGrant:
    """A statement that grants what was lacking, and the role that may run it."""

    statement: str
    owner: str
    membership: str | None = None
    """The statement that makes the role a member of the owner of rowtide's schemas, if what it lacks is in these."""


def find_grant(message: str, context: str, looking: psycopg.Connection[Any]) -> MissingGrant | None:
    """Return what the role of a session lacks, by what the server said to another one of it; None if that is unclear.

    In a schema, also what the owner of a table lacks as which a statement of rowtide's ran. In a language other than
    English nothing is found.
    """
    role = looking.info.user
    if named := _PARAMETER.match(message):
        return MissingGrant(f"grant set on parameter {named['name']} to {quote(role)}", "a superuser")
    if named := _ROLE.match(message):
        return MissingGrant(f"grant {quote(named['name'])} to {quote(role)}", "a superuser")
    named = _OBJECT.match(message)
    if named is None:
        return _find_owner(message, looking, role)
    match named["kind"]:
        case "table" | "view":
            return _of_relation(looking, named["name"], role)
        case "sequence":
            return _of_object(looking, _SEQUENCE, named["name"], role)
        case "schema":
            return _of_schema(looking, named["name"], _find_executing(context, looking) or role)
        case "database":
            return _of_object(looking, _DATABASE, named["name"], role)
        case _:
            return _of_object(looking, _FUNCTION, named["name"], role)


def _find_executing(context: str, looking: psycopg.Connection[Any]) -> str | None:
    """Return the owner as which a statement of rowtide's ran; None if the statement was not in such a function."""
    # Only the innermost function: an owner's own code could request any right in its owner's name.
    named = _OF_OWNERS.match(context)
    found = looking.execute("select rolname::text from pg_roles where oid = %s", [named["id"]]) if named else None
    row = found.fetchone() if found is not None else None
    return row[0] if row is not None else None


def _of_relation(looking: psycopg.Connection[Any], name: str, role: str) -> MissingGrant | None:
    found = looking.execute(_RELATIONS, [name, PREFIX]).fetchall()
    # Monitors are refused in the views, whose names are those of rowtide's tables.
    views = [row for row in found if row[0].startswith(PREFIX)]
    candidates = views or found
    if len(candidates) != 1:
        return None
    schema, table, owner, has_usage, lacking = candidates[0]
    if not has_usage:
        # If the session had the right to the schema when it planned its query, the table is refused first.
        return MissingGrant(
            f"grant usage on schema {quote(schema)} to {quote(role)}", owner, _join(schema, owner, role)
        )
    privileges = "select" if "select" in lacking else ", ".join(lacking)
    granting = f"grant {privileges} on {quote_qualified(schema, table)} to {quote(role)}"
    return MissingGrant(granting, owner, _join(schema, owner, role))


def _join(schema: str, owner: str, role: str) -> str | None:
    return f"grant {quote(owner)} to {quote(role)}" if _OF_ROWTIDE.fullmatch(schema) else None


def _of_schema(looking: psycopg.Connection[Any], name: str, role: str) -> MissingGrant | None:
    missing = _of_object(looking, _SCHEMA, name, role)
    has_views = looking.execute("select to_regnamespace(quote_ident(%s)) is not null", [PREFIX + name]).fetchone()
    if missing is None:
        return None
    joining = _join(name, missing.owner, role)
    if has_views == (True,) or not _WITHOUT_VIEWS.fullmatch(name):
        return MissingGrant(missing.statement, missing.owner, joining)
    return MissingGrant(f"rowtide grant {shlex.quote(role)} --as monitor", missing.owner, joining)


def _of_object(looking: psycopg.Connection[Any], query: sql.SQL, name: str, role: str) -> MissingGrant | None:
    found = looking.execute(query, {"name": name, "prefix": PREFIX, "role": role}).fetchall()
    if len(found) != 1:
        return None
    rights, path, owner = found[0]
    named = ".".join(map(quote, path)) if isinstance(path, list) else path
    return MissingGrant(f"grant {rights} {named} to {quote(role)}", owner)


def _find_owner(message: str, looking: psycopg.Connection[Any], role: str) -> MissingGrant | None:
    named = _OWNED.match(message)
    found = looking.execute(_OWNERS, [named["name"]]).fetchall() if named is not None else []
    owners = {owner: is_superusers for _, _, owner, is_superusers in found}
    if len(owners) != 1 or (any(owners.values()) and len(found) != 1):
        return None
    schema, name, owner, is_superusers = found[0]
    sharing = share_ownership(quote_qualified(schema, name), owner, role, is_superusers=is_superusers)
    return MissingGrant(sharing, "a superuser")


# If monitors read a table through a view, the view is preferred. A view of another owner is not rowtide's.
_RELATIONS = sql.SQL("""
select n.nspname::text, c.relname::text, o.rolname::text, has_schema_privilege(n.oid, 'usage'), lacking
from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_roles o on o.oid = c.relowner
cross join lateral (
    select coalesce(array_agg(p order by place), '{}') as lacking
    from unnest(array['select', 'insert', 'update', 'delete', 'truncate']) with ordinality asked (p, place)
    where not has_table_privilege(c.oid, p)) l
where c.relname = %s and c.relkind in ('r', 'p', 'v', 'm', 'f')
  and (not has_schema_privilege(n.oid, 'usage') or lacking <> '{}')
  and (not starts_with(n.nspname, %s) or not has_schema_privilege(n.oid, 'usage') or 'select' = any(lacking))
""")

_SEQUENCE = sql.SQL("""
select 'usage, select on sequence', array[n.nspname::text, c.relname::text], o.rolname::text
from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_roles o on o.oid = c.relowner
where c.relname = %(name)s and c.relkind = 'S' and not has_sequence_privilege(c.oid, 'usage')
""")

_SCHEMA = sql.SQL("""
select case when has_schema_privilege(%(role)s, chosen.oid, 'usage') then 'create' else 'usage' end || ' on schema',
       array[chosen.nspname::text], o.rolname::text
from (select n.* from pg_namespace n where n.nspname = %(name)s
      union all
      select m.* from pg_namespace n join pg_namespace m on m.nspname = %(prefix)s || n.nspname
      where n.nspname = %(name)s and m.nspowner = n.nspowner and not has_schema_privilege(%(role)s, m.oid, 'usage')
     ) chosen
join pg_roles o on o.oid = chosen.nspowner
where not (has_schema_privilege(%(role)s, chosen.oid, 'usage') and has_schema_privilege(%(role)s, chosen.oid, 'create'))
order by starts_with(chosen.nspname, %(prefix)s) desc limit 1
""")

_DATABASE = sql.SQL("""
select 'create on database', array[d.datname::text], o.rolname::text
from pg_database d join pg_roles o on o.oid = d.datdba where d.datname = %(name)s
""")

_FUNCTION = sql.SQL("""
select 'execute on function', p.oid::regprocedure::text, o.rolname::text
from pg_proc p join pg_roles o on o.oid = p.proowner
where p.proname = %(name)s and not has_function_privilege(p.oid, 'execute')
""")

_OWNERS = sql.SQL("""
select n.nspname::text, c.relname::text, o.rolname::text, o.rolsuper
from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_roles o on o.oid = c.relowner
where c.relname = %s and not pg_has_role(o.oid, 'usage')
""")
