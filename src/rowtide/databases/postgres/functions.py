"""Functions that rowtide leaves in users' databases: whose names they look up, and who may execute them.

A function with its creator's rights (`security definer`) must not find what a session made: `pg_temp` is last in its
path, unnamed it would be first for tables and types.
"""

from __future__ import annotations

from rowtide.databases.postgres.quoting import quote_body, quote_literal

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
