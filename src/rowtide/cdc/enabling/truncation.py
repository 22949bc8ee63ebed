"""Truncates that are refused, on PostgreSQL: those that an instance does not want (SQL Server: 4711), and those of a
partition by itself, which the server does not publish for a partitioned table.
"""

from __future__ import annotations

from sqlalchemy import Connection, Executable, text

from rowtide.cdc.definitions import EnabledTable
from rowtide.cdc.instances import Instance
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.databases.source_table import Partition, SourceTable

FUNCTIONS = (
    statement("""
create or replace function cdc.refuse_truncate() returns trigger language plpgsql as $$
begin
    raise exception using
        errcode = 'feature_not_supported',
        message = format('RT-4711: table %I.%I is enabled for change data capture and cannot be truncated',
            tg_table_schema, tg_table_name),
        hint = format('Delete its rows, or disable capture instance %s first.', tg_argv[0]);
end $$
"""),
    statement("""
create or replace function cdc.announce_truncate() returns trigger language plpgsql as $$
declare
    others text := current_setting('rowtide.truncating', true);
begin
    perform set_config('rowtide.truncating',
        case tg_when when 'BEFORE' then concat_ws(' ', others, tg_relid::bigint) else '' end, true);
    return null;
end $$
"""),
    statement("""
create or replace function cdc.refuse_partition_truncate() returns trigger language plpgsql as $$
begin
    if exists (select from pg_partition_ancestors(tg_relid) where relid = tg_argv[1]::oid)
       and not tg_argv[1] = any(string_to_array(coalesce(current_setting('rowtide.truncating', true), ''), ' '))
    then
        raise exception using
            errcode = 'feature_not_supported',
            message = format('RT-4711: partition %I.%I of a captured table cannot be truncated by itself',
                tg_table_schema, tg_table_name),
            hint = format('Delete its rows, detach it, truncate the whole table, or disable capture instance %s.',
                tg_argv[0]);
    end if;
    return null;
end $$
"""),
)
"""What the triggers call. In a truncate a partitioned table's trigger comes before those of its partitions, and
triggers after it once all is done: in between the session knows which tables are truncated as a whole.
"""


def refusal_steps(table: SourceTable, instance: Instance) -> list[Executable]:
    """Refuse truncates for one instance."""
    steps = []
    if instance.refuses_truncate:
        steps.append(_trigger_step(table, "refuse_truncate", instance))
    elif table.partitions:
        steps.append(_trigger_step(table, "announce_truncate", instance))
        steps.append(_trigger_step(table, "announce_truncate", instance, when="after"))
    return steps + [_trigger_step(holder, "refuse_partition_truncate", instance) for holder in table.row_holders]


def allowance_steps(connection: Connection, enabled: EnabledTable) -> list[Executable]:
    """Undo `refusal_steps`, on whichever tables the triggers are now."""
    names = [_trigger_name(enabled.member_id, when) for when in ("before", "after")]
    found = connection.execute(text(_TRIGGERS), {"names": names})
    return [statement(f"drop trigger {quote(row.trigger)} on {quote_qualified(row.schema, row.name)}") for row in found]


def _trigger_step(
    holder: SourceTable | Partition, function: str, instance: Instance, *, when: str = "before"
) -> Executable:
    argument = instance.capture_instance.replace("'", "''")
    return statement(
        f"create trigger {quote(_trigger_name(instance.member_id, when))} {when} truncate on "
        f"{quote_qualified(holder.schema, holder.name)} for each statement "
        f"execute function cdc.{function}('{argument}', '{instance.source_id}')"
    )


def _trigger_name(member_id: str, when: str) -> str:
    return f"rowtide_{when}_truncate_{member_id[:8]}"


_TRIGGERS = """
select t.tgname::text as trigger, n.nspname::text as schema, c.relname::text as name
from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
where t.tgname = any(:names)
order by c.oid, t.tgname
"""
