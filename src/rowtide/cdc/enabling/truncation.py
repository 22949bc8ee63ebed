"""Truncates that are refused, on PostgreSQL: those that an instance does not want (SQL Server: 4711), and those of a
partition by itself, which the server does not publish for a partitioned table.
"""

from __future__ import annotations

from sqlalchemy import Connection, Executable

from rowtide.cdc.definitions import EnabledTable
from rowtide.cdc.instances import Instance
from rowtide.databases.postgres.functions import close_function
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified, statement
from rowtide.databases.source_table import SourceTable
from rowtide.log.postgres import partition_truncates

REFUSE = statement("""
create or replace function cdc.refuse_truncate() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    raise exception using
        errcode = 'feature_not_supported',
        message = format('RT-4711: table %I.%I is enabled for change data capture and cannot be truncated',
            tg_table_schema, tg_table_name),
        hint = format('Delete its rows, or disable capture instance %s first.', tg_argv[0]);
end $$
""")
"""The function that the trigger of a table calls."""
CLOSE = statement(close_function("cdc.refuse_truncate()"))


def refusal_steps(table: SourceTable, instance: Instance) -> list[Executable]:
    """Refuse truncates for one instance."""
    refusing = []
    if instance.refuses_truncate:
        refusing.append(
            statement(
                f"create trigger {quote(_trigger_name(instance.member_id, 'before'))} before truncate on "
                f"{quote_qualified(table.schema, table.name)} for each statement "
                f"execute function cdc.refuse_truncate({quote_literal(instance.capture_instance)})"
            )
        )
    way_out = f"disable capture instance {instance.capture_instance}"
    return [*refusing, *partition_truncates.refuse_steps(table, instance.member_id, way_out)]


def allowance_steps(connection: Connection, enabled: EnabledTable) -> list[Executable]:
    """Undo `refusal_steps`, also those of a build that had all its triggers in schema cdc."""
    names = [_trigger_name(enabled.member_id, when) for when in ("before", "after")]
    return [
        *partition_truncates.drop_trigger_steps(connection, names),
        *partition_truncates.allow_steps(connection, enabled.member_id),
    ]


def _trigger_name(member_id: str, when: str) -> str:
    return f"rowtide_{when}_truncate_{member_id[:8]}"
