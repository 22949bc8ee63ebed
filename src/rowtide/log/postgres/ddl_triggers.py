"""The event triggers that write into the log what DDL does to tables that members read.

They run in the transaction that alters a table, and may only warn: whatever goes wrong in them, the application's DDL
is never refused. To make them takes a right that few roles have (a superuser's, or what a managed service gives
instead); without them the log's own descriptions of tables are compared.

Event triggers run in everybody's sessions, superusers' too: their functions belong to who may make them, and read the
server's own catalogue alone. One has to write: it removes the members of a table that is dropped, with its maker's
rights, and is made only where that lends these to nobody else, who might hang triggers of his own on these tables.
"""

from __future__ import annotations

from enum import Enum

from sqlalchemy import Connection, Executable, text

from rowtide.databases.postgres.catalogue import COLUMN_BASE_TYPE_TEXT, COLUMN_TYPE_TEXT
from rowtide.databases.postgres.errors import RightMissing, UnexpectedSqlError, translated
from rowtide.databases.postgres.quoting import statement
from rowtide.log.alterations import DDL_PREFIX
from rowtide.log.membership import DISABLE_PREFIX

_NOT_SUPPORTED = "0A000"
_LONGEST_STATEMENT = 10_000
_SPACER_PREFIX = "rowtide.spacer"
"""The server sorts the changes of subtransactions, such as that of a block with exceptions, by their places in the log:
a message by where it ends, a row by where it begins. With nothing between the two, the row may come first.
"""


class Triggers(Enum):
    """What became of the triggers."""

    FOUND = "found"
    MADE = "made"
    REFUSED = "refused"
    """The role may not make them."""


def ensure_triggers(connection: Connection) -> Triggers:
    """Make the triggers where they are missing and the role may; what it may not is not an error."""
    if has_triggers(connection):
        return Triggers.FOUND
    is_trusted = connection.execute(text(_OWNER_IS_TRUSTED)).scalar_one()
    try:
        with translated(), connection.begin_nested():
            for step in trigger_steps(removes_dropped=is_trusted):
                connection.execute(step)
    except RightMissing:
        return Triggers.REFUSED
    except UnexpectedSqlError as error:
        if error.sqlstate != _NOT_SUPPORTED:
            raise
        return Triggers.REFUSED
    return Triggers.MADE


def has_triggers(connection: Connection) -> bool:
    """Tell whether the triggers are there that tell the log of DDL, and fire."""
    present = connection.execute(text(_PRESENT), {"names": list(_TELLING)}).scalar_one()
    return bool(present == len(_TELLING))


def trigger_steps(*, removes_dropped: bool = True) -> list[Executable]:
    """Return the statements that make the triggers, among them that which removes the members of dropped tables."""
    steps = [step for name, (event, body) in _TELLING.items() for step in _make(name, event, body, "invoker")]
    if removes_dropped:
        steps += _make("rowtide_announce_drop", "sql_drop", _ANNOUNCE_DROP, "definer")
    return steps


def _make(name: str, event: str, body: str, rights_of: str) -> list[Executable]:
    function = f"""
create or replace function rowtide.{name}() returns event_trigger
language plpgsql security {rights_of} set search_path = pg_catalog, pg_temp as $$
{body.strip()}
exception when others then
    raise warning 'rowtide: what was done to a captured table is not in the log: %', sqlerrm;
end $$
"""
    return [
        statement(f"drop event trigger if exists {name}"),
        statement(function),
        statement(f"create event trigger {name} on {event} execute function rowtide.{name}()"),
        # Also in sessions that repeat what another server did.
        statement(f"alter event trigger {name} enable always"),
    ]


_NOTE_REWRITE = """
begin
    if pg_event_trigger_table_rewrite_reason() & 4 <> 0 then
        perform set_config('rowtide.rewritten', concat_ws(' ', current_setting('rowtide.rewritten', true), (
            select string_agg(above.oid::bigint::text, ' ')
            from (select pg_event_trigger_table_rewrite_oid() as oid
                  union select relid from pg_partition_ancestors(pg_event_trigger_table_rewrite_oid())) above)), true);
    end if;
"""
"""Reason 4: the type of a column changes, or how its values are made. What is altered is the topmost table."""

_ANNOUNCE_DDL = f"""
declare
    altered record;
    rewritten text[] := string_to_array(current_setting('rowtide.rewritten', true), ' ');
begin
    for altered in
        select distinct c.oid, n.nspname, c.relname
        from pg_event_trigger_ddl_commands() d
        join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
                        or d.classid = 'pg_namespace'::regclass and c.relnamespace = d.objid
        join pg_namespace n on n.oid = c.relnamespace
        join pg_publication_rel r on r.prrelid = c.oid
        join pg_publication p on p.oid = r.prpubid
        join pg_database here on here.datname = current_database()
        where p.pubname = 'rowtide_' || here.oid
        order by c.oid
    loop
        perform pg_logical_emit_message(true, '{DDL_PREFIX}', convert_to(json_build_object(
            'source_id', altered.oid::bigint,
            'schema', altered.nspname,
            'table', altered.relname,
            'command', tg_tag,
            'statement', left(coalesce(current_query(), ''), {_LONGEST_STATEMENT}),
            'rewrites_values', coalesce(altered.oid::bigint::text = any(rewritten), false),
            'columns', (
                select coalesce(json_agg(json_build_object(
                    'number', a.attnum,
                    'name', a.attname,
                    'type_text', {COLUMN_TYPE_TEXT},
                    'type_code', a.atttypid::bigint,
                    'type_modifier', a.atttypmod,
                    'base_type_text', {COLUMN_BASE_TYPE_TEXT},
                    'is_nullable', not a.attnotnull,
                    'is_generated', a.attgenerated <> '',
                    'default', (select pg_get_expr(f.adbin, f.adrelid) from pg_attrdef f
                                where f.adrelid = a.attrelid and f.adnum = a.attnum)
                ) order by a.attnum), '[]')
                from pg_attribute a
                where a.attrelid = altered.oid and a.attnum > 0 and not a.attisdropped)
        )::text, 'UTF8'));
        perform pg_logical_emit_message(false, '{_SPACER_PREFIX}', '');
    end loop;
    perform set_config('rowtide.rewritten', '', true);
"""

_ANNOUNCE_DROP = f"""
declare
    gone record;
begin
    for gone in
        delete from rowtide.members m using pg_event_trigger_dropped_objects() d
        where d.classid = 'pg_class'::regclass and d.objsubid = 0 and m.source_table_id = d.objid::bigint
        returning m.member_id, m.source_table_id
    loop
        delete from rowtide.identities where source_table_id = gone.source_table_id;
        perform pg_logical_emit_message(true, '{DISABLE_PREFIX}', convert_to(
            json_build_object('member_id', gone.member_id)::text, 'UTF8'));
    end loop;
"""

_TELLING = {
    "rowtide_note_rewrite": ("table_rewrite", _NOTE_REWRITE),
    "rowtide_announce_ddl": ("ddl_command_end when tag in ('ALTER TABLE', 'ALTER SCHEMA')", _ANNOUNCE_DDL),
}
"""Each has the name of its function, in schema rowtide: event, and body."""

_PRESENT = """
select count(*) from pg_event_trigger t join pg_proc p on p.oid = t.evtfoid
where t.evtname::text = any(:names) and t.evtenabled <> 'D' and p.pronamespace = to_regnamespace('rowtide')
"""

_OWNER_IS_TRUSTED = """
select owner.rolname = current_user or owner.rolsuper
from pg_namespace n join pg_roles owner on owner.oid = n.nspowner
where n.nspname = 'rowtide'
"""
