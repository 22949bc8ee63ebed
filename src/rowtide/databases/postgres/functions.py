"""What rowtide leaves in users' databases: whose schemas these are, whose names functions look up, who executes them.

Whoever owns a schema or table may give it code, which would run with the rights of the role that uses it.
A function with its creator's rights (`security definer`) must not find what a session made: `pg_temp` is last in its
path, unnamed it would be first for tables and types.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal

OF_OTHERS = "RT127"
"""The SQLSTATE of the guard of schemas: its message is what belongs to another role, its detail that role."""

DEFINER = "security definer set search_path = pg_catalog, pg_temp"
"""The attributes of a function that runs with its creator's rights."""

ALL_ROWS = "set row_security = off"
"""The attribute of one that reads a user's table: a policy is the owner's code, and would hide rows."""


def close_function(signature: str, *, is_cloned: bool = False) -> str:
    """Return the statement after which a function fires by its triggers alone.

    To fire needs no right to execute, to create a trigger does: `is_cloned` functions are those of row triggers of
    partitioned tables, which the server clones with the rights of whoever adds a partition.
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
        and pg_has_role(p.proowner, 'usage') and has_function_privilege('public', p.oid, 'execute')"""  # noqa: S608
    revoking = "execute format('revoke all on routine %s from public', f.signature)"
    return f"do {quote_body(f'declare f record; begin for f in {routines} loop {revoking}; end loop; end')}"


def own_schema(schema: str) -> Sequence[str]:
    """Return the statements that create a schema of rowtide's if it is not there, and see whose it is."""
    return [f"create schema if not exists {quote(schema)}", guard_schema(schema)]


def guard_schema(schema: str) -> str:
    """Return the statement that raises `OF_OTHERS` if a schema, or a table in it, belongs to a role that could give it
    code: one that is neither the session's nor a superuser. `translated` raises `SchemaOfOthers` for it.
    """
    name = quote_literal(schema)
    held = f"""select 'schema ' || quote_ident(nspname) as what, nspowner as owner
        from pg_namespace where nspname = {name} union all
        select 'relation ' || c.oid::regclass, c.relowner from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = {name} and c.relkind <> 'i'"""  # noqa: S608 - quoted
    first = f"""select h.what, r.rolname from ({held}) h join pg_roles r on r.oid = h.owner
        where r.rolname <> current_user and not r.rolsuper limit 1"""  # noqa: S608 - of the above
    raising = f"raise exception using errcode = '{OF_OTHERS}', message = f.what, detail = f.rolname"
    return f"do {quote_body(f'declare f record; begin for f in {first} loop {raising}; end loop; end')}"
