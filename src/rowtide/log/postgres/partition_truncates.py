"""Truncates of one partition, which the server does not publish for a partitioned table: they are refused.

Members whose readers carry out truncates hold the refusal; it goes with the last one of a table. In a truncate of the
whole table its trigger comes before those of its partitions, and another one after all is done: in between the
session knows which tables are truncated as a whole.
"""

from __future__ import annotations

from sqlalchemy import Connection, Executable, text

from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified, statement
from rowtide.databases.source_table import Partition, SourceTable


def refuse_steps(table: SourceTable, member_id: str, way_out: str) -> list[Executable]:
    """Refuse truncates of the table's partitions for a member; its owner runs them, the table is locked.

    `way_out` completes the hint: what to do to truncate all the same.
    """
    if not table.partitions:
        return []
    announcing = [
        _trigger_step(table, _trigger_name(member_id, when), when, "announce_truncate", ()) for when in _WHOLE
    ]
    refusing = [
        _trigger_step(
            holder,
            _trigger_name(member_id, "partition"),
            "before",
            "refuse_partition_truncate",
            (way_out, str(table.source_id)),
        )
        for holder in table.row_holders
    ]
    return [*_FUNCTIONS, *announcing, *refusing]


def allow_steps(connection: Connection, member_id: str) -> list[Executable]:
    """Undo `refuse_steps`, on whichever tables the triggers are now."""
    names = [_trigger_name(member_id, kind) for kind in (*_WHOLE, "partition")]
    return drop_trigger_steps(connection, names)


def drop_trigger_steps(connection: Connection, names: list[str]) -> list[Executable]:
    """Return the statements that drop triggers of these names on all tables."""
    found = connection.execute(text(_TRIGGERS), {"names": names})
    return [statement(f"drop trigger {quote(row.trigger)} on {quote_qualified(row.schema, row.name)}") for row in found]


def _trigger_name(member_id: str, kind: str) -> str:
    return f"rowtide_{kind}_whole_{member_id[:8]}" if kind in _WHOLE else f"rowtide_{kind}_{member_id[:8]}"


def _trigger_step(
    holder: SourceTable | Partition, name: str, when: str, function: str, arguments: tuple[str, ...]
) -> Executable:
    return statement(
        f"create trigger {quote(name)} {when} truncate on {quote_qualified(holder.schema, holder.name)} "
        f"for each statement execute function rowtide.{function}({', '.join(map(quote_literal, arguments))})"
    )


_WHOLE = ("before", "after")

_FUNCTIONS = (
    statement("""
create or replace function rowtide.announce_truncate() returns trigger language plpgsql as $$
declare
    others text := current_setting('rowtide.truncating', true);
begin
    perform set_config('rowtide.truncating',
        case tg_when when 'BEFORE' then concat_ws(' ', others, tg_relid::bigint) else '' end, true);
    return null;
end $$
"""),
    statement("""
create or replace function rowtide.refuse_partition_truncate() returns trigger language plpgsql as $$
begin
    if exists (select from pg_partition_ancestors(tg_relid) where relid = tg_argv[1]::oid)
       and not tg_argv[1] = any(string_to_array(coalesce(current_setting('rowtide.truncating', true), ''), ' '))
    then
        raise exception using
            errcode = 'feature_not_supported',
            message = format('RT-4711: partition %I.%I of a captured or published table cannot be truncated by itself',
                tg_table_schema, tg_table_name),
            hint = format('Delete its rows, detach it, truncate the whole table, or %s.', tg_argv[0]);
    end if;
    return null;
end $$
"""),
)

_TRIGGERS = """
select t.tgname::text as trigger, n.nspname::text as schema, c.relname::text as name
from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
where t.tgname = any(:names)
order by c.oid, t.tgname
"""
