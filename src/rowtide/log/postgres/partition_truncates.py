"""Refusal of truncates of single partitions, which the server does not publish for a partitioned table.

Members whose readers apply truncates need the refusal; it is removed with the last such member of a table. When a whole
table is truncated, its trigger fires before those of its partitions, and a second one after all is done: in between a
setting of the session says which tables are truncated as a whole.

The trigger of a partition also marks it as known: a partition without the trigger is new, and a table that has the
trigger but is no partition was detached. Dropping a partition drops its trigger.
"""

from __future__ import annotations

from sqlalchemy import Connection, Executable, text

from rowtide.core.values import frozen
from rowtide.databases.postgres.functions import close_function
from rowtide.databases.postgres.query_memo import made_once
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified, statement
from rowtide.databases.source_table import SourceTable, TableKind, TablePartition

TRUNCATE_REFUSED = "RT-4711"
"""The number in messages of triggers that refuse a truncate (SQL Server: 4711). No class has it: it reaches the client
that truncates, not rowtide.
"""


@frozen
class NewPartition:
    """A partition whose truncate would not be logged, and the table whose rows are read; qualified names."""

    name: str
    table: str


def refuse_steps(table: SourceTable, member_id: str, way_out: str) -> list[Executable]:
    """Refuse truncates of the table's partitions for a member; its owner runs them, the table is locked.

    `way_out` completes the hint: what to do to truncate nevertheless.
    """
    # The log has truncates of ordinary tables, but none of a partition whose root is published.
    if table.kind is not TableKind.PARTITIONED:
        return []
    # A truncate of the whole table fires the triggers of the partitions too: these two triggers let them allow it.
    announcing = [
        _trigger_step(table, _trigger_name(member_id, when), when, "announce_truncate", (way_out,)) for when in _WHOLE
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


@made_once
def list_new(connection: Connection) -> tuple[NewPartition, ...]:
    """Return the partitions that members do not know yet."""
    return tuple(NewPartition(*row) for row in connection.execute(statement(_NEW)))


def drop_trigger_steps(connection: Connection, names: list[str]) -> list[Executable]:
    """Return the statements that drop triggers of these names on all tables."""
    found = connection.execute(text(_TRIGGERS), {"names": names})
    return [statement(f"drop trigger {quote(row.trigger)} on {quote_qualified(row.schema, row.name)}") for row in found]


def _trigger_name(member_id: str, kind: str) -> str:
    return f"rowtide_{kind}_whole_{member_id[:8]}" if kind in _WHOLE else f"rowtide_{kind}_{member_id[:8]}"


def _trigger_step(
    holder: SourceTable | TablePartition, name: str, when: str, function: str, arguments: tuple[str, ...]
) -> Executable:
    return statement(
        f"create trigger {quote(name)} {when} truncate on {quote_qualified(holder.schema, holder.name)} "
        f"for each statement execute function rowtide.{function}({', '.join(map(quote_literal, arguments))})"
    )


_WHOLE = ("before", "after")
_OF_MEMBER = r"rowtide\_before\_whole\_%"
"""Pattern of the names of the triggers that members have on a partitioned table, one each."""

_ARGUMENTS = r"regexp_match(encode({trigger}.tgargs, 'escape'), '^(.*?)(?:\\000(\d+))?\\000$')"
"""SQL expression of the two arguments of a trigger, as the server escapes them."""

HOLDING_TABLE = f"(({_ARGUMENTS})[2])::oid"
"""SQL expression of the partitioned table whose partition has a `{{trigger}}`, a row of `pg_trigger`."""

IS_KNOWN = """{trigger}.tgfoid = to_regprocedure('rowtide.refuse_partition_truncate()')"""
"""SQL condition: a `{trigger}` says that its table is known as a partition."""

IS_STRAY = f"""{IS_KNOWN}
                and not exists (select from pg_partition_ancestors({{trigger}}.tgrelid) above
                                where above.relid = {HOLDING_TABLE})"""
"""SQL condition: the table of a `{trigger}` was detached."""

NEW_PARTITIONS = f"""
        select whole.tgrelid as table_id, part.relid as partition_id, n.nspname as schema, leaf.relname as name,
            replace(whole.tgname, 'before_whole', 'partition') as trigger,
            convert_from(decode(({_ARGUMENTS.format(trigger="whole")})[1], 'escape'),
                         current_setting('server_encoding')) as way_out
        from pg_trigger whole
        cross join pg_partition_tree(whole.tgrelid) part
        join pg_class leaf on leaf.oid = part.relid and leaf.relkind = 'r'
        join pg_namespace n on n.oid = leaf.relnamespace
        where whole.tgfoid = to_regprocedure('rowtide.announce_truncate()') and whole.tgname like '{_OF_MEMBER}'
          and not exists (select from pg_trigger own where own.tgrelid = leaf.oid
                          and own.tgname = replace(whole.tgname, 'before_whole', 'partition'))"""
"""SQL query of the partitions that members do not know, and the triggers that they lack."""

_NEW = f"""
select distinct concat_ws('.', found.schema, found.name), concat_ws('.', n.nspname, c.relname)
from ({NEW_PARTITIONS}) found
join pg_class c on c.oid = found.table_id join pg_namespace n on n.oid = c.relnamespace
order by 1
"""

ATTACH = f"""
    for found in {NEW_PARTITIONS} and whole.tgrelid in ({{tables}})
    loop
        begin
            execute format('lock table %I.%I in share row exclusive mode nowait', found.schema, found.name);
            execute format('create trigger %I before truncate on %I.%I for each statement '
                'execute function rowtide.refuse_partition_truncate(%L, %L)',
                found.trigger, found.schema, found.name,
                coalesce(nullif(found.way_out, ''), 'drop what reads the table'), found.table_id::bigint);
        exception when lock_not_available then
            null; -- it is in use, so it came with an earlier statement
        end;
    end loop;
    for found in
        select n.nspname as schema, c.relname as name, own.tgname as trigger
        from pg_trigger own join pg_class c on c.oid = own.tgrelid join pg_namespace n on n.oid = c.relnamespace
        where {IS_STRAY.format(trigger="own")} and {HOLDING_TABLE.format(trigger="own")} in ({{tables}})
    loop
        begin
            execute format('lock table %I.%I in access exclusive mode nowait', found.schema, found.name);
            execute format('drop trigger %I on %I.%I', found.trigger, found.schema, found.name);
        exception when lock_not_available then
            null;
        end;
    end loop;
"""
"""PL/pgSQL statements, using a record `found`, that create the triggers on new partitions of some tables (`tables`: a
query of oids or a list), and drop those of detached ones. Tables in use are left for the next time.
"""

_FUNCTIONS = (
    statement("""
create or replace function rowtide.announce_truncate() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    others text := current_setting('rowtide.truncating', true);
begin
    perform set_config('rowtide.truncating',
        case tg_when when 'BEFORE' then concat_ws(' ', others, tg_relid::bigint) else '' end, true);
    return null;
end $$
"""),
    statement(f"""
create or replace function rowtide.refuse_partition_truncate() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select from pg_partition_ancestors(tg_relid) where relid = tg_argv[1]::oid)
       and not tg_argv[1] = any(string_to_array(coalesce(current_setting('rowtide.truncating', true), ''), ' '))
    then
        raise exception using
            errcode = 'feature_not_supported',
            message = format('{TRUNCATE_REFUSED}: partition %I.%I of a captured or published table '
                'cannot be truncated by itself',
                tg_table_schema, tg_table_name),
            hint = format('Delete its rows, detach it, truncate the whole table, or %s.', tg_argv[0]);
    end if;
    return null;
end $$
"""),
    statement(close_function("rowtide.announce_truncate()")),
    statement(close_function("rowtide.refuse_partition_truncate()")),
)

_TRIGGERS = """
select t.tgname::text as trigger, n.nspname::text as schema, c.relname::text as name
from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
where t.tgname = any(:names)
order by c.oid, t.tgname
"""
