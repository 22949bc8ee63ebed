"""Partitions that came or went without an event trigger's report."""

from __future__ import annotations

import logging

from sqlalchemy import Connection

from rowtide.databases.postgres.errors import RightMissing, UnexpectedSqlError, WritesRefused, translated
from rowtide.databases.postgres.quoting import quote_literal, statement
from rowtide.log.announcements import Announcement
from rowtide.log.postgres.ddl_triggers import announced_content
from rowtide.log.postgres.partition_truncates import HOLDING_TABLE, IS_STRAY, NEW_PARTITIONS, TAKE_IN

log = logging.getLogger("rowtide.log")


def take_in_partitions(connection: Connection) -> None:
    """Let members know the partitions of their tables, and announce which tables got or lost rows with them.

    For a connection outside of a transaction, to the database whose log is read. A partition that is in use, or whose
    triggers this role may not create, waits for the next time. What was dropped left no trace.
    """
    for table_id in connection.execute(statement(_CHANGED)).scalars().all():
        try:
            with translated():
                connection.execute(statement(_take_in(table_id)))
        except (RightMissing, UnexpectedSqlError, WritesRefused) as error:
            log.info("partitions_not_taken_in: %s", error)


def _take_in(table_id: int) -> str:
    of_table = f"whole.tgrelid = {table_id}"
    content = announced_content(
        command="'ALTER TABLE'",
        sql=quote_literal("partitions with rows were attached or detached"),
        brings_rows="brings_rows",
        is_inferred="true",
    )
    return f"""
do $$
declare
    found record;
    brings_rows boolean := false;
    takes_rows boolean := false;
begin
    perform set_config('lock_timeout', '100ms', true);
    for found in {NEW_PARTITIONS} and {of_table} order by part.relid
    loop
        execute format('lock table %I.%I in share row exclusive mode', found.schema, found.name);
        if not brings_rows then
            -- A row that is there since before its partition was attached came with it.
            execute format('select exists (select from only %I.%I t where age(t.xmin) >= %s)', found.schema, found.name,
                (select min(age(i.xmin)) from pg_partition_ancestors(found.partition_id) above
                 join pg_inherits i on i.inhrelid = above.relid
                 where above.relid not in (select relid from pg_partition_ancestors({table_id}))))
            into brings_rows;
        end if;
    end loop;
    for found in
        select n.nspname as schema, c.relname as name, pg_relation_size(c.oid) > 0 as has_rows
        from pg_trigger known join pg_class c on c.oid = known.tgrelid join pg_namespace n on n.oid = c.relnamespace
        where {IS_STRAY.format(trigger="known")} and {HOLDING_TABLE.format(trigger="known")} = {table_id}
        order by c.oid
    loop
        -- What is announced has to be forgotten at once: it would be announced again.
        execute format('lock table %I.%I in access exclusive mode', found.schema, found.name);
        takes_rows := takes_rows or found.has_rows;
    end loop;
    if brings_rows or takes_rows then
        insert into rowtide.control (kind, content)
        select {quote_literal(Announcement.DDL.value)}, {content}
        from (select c.oid, n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
              where c.oid = {table_id}) altered;
    end if;
    {TAKE_IN.format(tables=table_id)}
end $$
"""


_CHANGED = f"""
select distinct found.table_id::bigint
from (select new.table_id from ({NEW_PARTITIONS}) new
      union select {HOLDING_TABLE.format(trigger="known")} from pg_trigger known
      where {IS_STRAY.format(trigger="known")}) found
join pg_class c on c.oid = found.table_id
order by 1
"""
