"""The event trigger that enables a new table of a rule in the transaction that creates, renames or moves it.

The event trigger notes the table; a deferred trigger on these notes enables it as the transaction commits, in its final
form: with the primary key that a later statement adds, under the name that it keeps. So nothing that another
transaction writes to the table is missing from the log. What the creating transaction wrote itself was there before.

Enabling at the end of the statement would miss the key that the next statement adds, and see a temporary name; polling
alone loses the first seconds' changes. With `set constraints all immediate` the deferred trigger runs at the statement:
later rows of the transaction are not the instance's changes, and later columns are not captured.

Both only warn: whatever fails in them, the application's transaction is not refused, and waits for no other longer than
`_LONGEST_WAIT`, which is below `deadlock_timeout`. They enable only what needs no decision, by a transcription of
`plan_enable_table`: a change of an instance's definition is made in both, and a test compares what they write.
Everything else is left to the process that captures, which reports what it cannot enable: see `joining`.

Their functions run with the rights of the role that created them. So they are created only where that role or a
superuser owns the tables that they write: another owner could attach triggers to those.
"""

from __future__ import annotations

from enum import Enum

from sqlalchemy import Connection, Executable, text

from rowtide.cdc.definitions import FEATURE
from rowtide.cdc.enabling.instances import MAX_NAME_LENGTH, RESERVED_NAMES
from rowtide.core.tables import BeforeImages
from rowtide.databases.postgres.advisory_locks import MEMBERS
from rowtide.databases.postgres.catalogue import COLUMN_BASE_TYPE_TEXT, COLUMN_TYPE_TEXT
from rowtide.databases.postgres.errors import RightMissing, UnexpectedSqlError, translated
from rowtide.databases.postgres.functions import DEFINER, close_function
from rowtide.databases.postgres.quoting import statement
from rowtide.log.membership import Announcement
from rowtide.log.postgres.slot import GENERATED_PUBLISHED_FROM, publication_options

_NOT_SUPPORTED = "0A000"
# Below `deadlock_timeout` (1 s by default), so that in a deadlock the trigger gives up before the server ends a
# transaction.
_LONGEST_WAIT = "100ms"
_TAGS = "'CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'CREATE SCHEMA', 'ALTER TABLE'"


class Joining(Enum):
    """How new tables of rules are enabled."""

    AT_ONCE = "at once"
    """By the event trigger, in the transaction that creates them."""
    LATER = "later"
    """By the process that captures, within seconds: the role may not create event triggers."""


def ensure_triggers(connection: Connection) -> Joining:
    """Create the triggers if they are missing and the role may; a missing right is not an error."""
    if has_triggers(connection):
        return Joining.AT_ONCE
    if not connection.execute(text(_IS_TRUSTED)).scalar_one():
        return Joining.LATER
    try:
        with translated(), connection.begin_nested():
            for step in trigger_steps():
                connection.execute(step)
    except RightMissing:
        return Joining.LATER
    except UnexpectedSqlError as error:
        if error.sqlstate != _NOT_SUPPORTED:
            raise
        return Joining.LATER
    return Joining.AT_ONCE


def has_triggers(connection: Connection) -> bool:
    """Return whether the triggers exist as this build creates them, are enabled, and may write what they have to."""
    present = {row.name: row.body for row in connection.execute(text(_PRESENT))}
    return present == _BODIES


def trigger_steps() -> list[Executable]:
    """Return the statements that create the triggers, in place of earlier ones."""
    return [
        *drop_steps(),
        # Left by a dump that was restored without its rows, and whose schema was renamed since.
        statement(f"drop event trigger if exists {_NOTING}"),
        *(statement(_function(name, _RETURNS[name], body)) for name, body in _BODIES.items()),
        # Otherwise any role with usage of the schema could call the function for rows, and types, of its own.
        *(statement(close_function(f"cdc.{name}()")) for name in _BODIES),
        statement(
            f"create event trigger {_NOTING} on ddl_command_end when tag in ({_TAGS}) execute function cdc.{_NOTING}()"
        ),
        # Also in sessions that replay another server's changes (session_replication_role = replica).
        statement(f"alter event trigger {_NOTING} enable always"),
        statement(
            # Deferred to the commit: later statements of the transaction may give the table its key, other columns or
            # another name.
            f"create constraint trigger {_JOINING} after insert on cdc.new_tables "
            f"deferrable initially deferred for each row execute function cdc.{_JOINING}()"
        ),
        statement(f"alter table cdc.new_tables enable always trigger {_JOINING}"),
    ]


def drop_steps() -> list[Executable]:
    """Return the statements that drop the triggers, also another role's: the schema's owner may."""
    return [statement(f"drop function if exists cdc.{name}() cascade") for name in _BODIES]


def _function(name: str, returns: str, body: str) -> str:
    return f"""
create function cdc.{name}() returns {returns}
language plpgsql {DEFINER} set lock_timeout = '{_LONGEST_WAIT}'
as $${body}$$
"""


_NOTING = "rowtide_note_new_tables"
_JOINING = "rowtide_join_new_table"
_RETURNS = {_NOTING: "event_trigger", _JOINING: "trigger"}

_NOTE = """
begin
    -- Not what the other trigger does itself: it runs within this one where constraints are set immediate.
    if exists (select from cdc.table_rules) and not (tg_tag = 'ALTER TABLE' and pg_trigger_depth() > 0) then
        insert into cdc.new_tables (source_object_id)
        select distinct c.oid::bigint
        from pg_event_trigger_ddl_commands() d
        join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
        where c.relkind in ('r', 'p') and c.relpersistence = 'p' and not c.relispartition
          and not exists (select from cdc.change_tables t where t.source_object_id = c.oid::bigint);
    end if;
exception when others then
    raise warning 'rowtide: a new table is enabled by the next poll only: %', sqlerrm;
end """

MATCHING_RULE = r"""
select r.rule_name, r.before_images, r.role_name, r.supports_net_changes, r.refuses_truncate, r.copies_rows,
       r.rows_per_second
from cdc.table_rules r
where n.nspname || E'\n' || c.relname ~ r.included_expression
  and not coalesce(n.nspname || E'\n' || c.relname ~ r.excluded_expression, false)
  and not exists (select from cdc.ruled_tables t
                  where t.rule_name = r.rule_name and t.source_object_id = c.oid::bigint and t.outcome <> 'failed')
order by r.created_at, r.rule_name limit 1
"""
"""SQL query of the rule by which a row `c` of pg_class, in schema `n`, joins: the oldest that has not considered it."""

_HOLDERS = (
    "(select relid from pg_partition_tree(new.source_object_id::oid) union select new.source_object_id::oid) holding"
)
"""The table and its partitions."""

_COLUMNS = "pg_attribute a where a.attrelid = captured.oid and a.attnum > 0 and not a.attisdropped"
_HAS_NET_CHANGES = "coalesce(rule.supports_net_changes, captured.conname is not null)"
_WRITTEN = ", ".join(
    f"'{table}'::regclass"
    for table in (
        "rowtide.control",
        "rowtide.members",
        "rowtide.identities",
        "rowtide.table_publications",
        "cdc.change_tables",
        "cdc.captured_columns",
        "cdc.index_columns",
        "cdc.snapshots",
        "cdc.ruled_tables",
        "cdc.new_tables",
    )
)
_UNTRUSTED = f"""
select from pg_class c join pg_roles o on o.oid = c.relowner
where c.oid in ({_WRITTEN}) and o.rolname <> current_user and not o.rolsuper
"""

_FIND = f"""
    select c.oid, c.relkind, c.relname, n.nspname, k.conname, k.conkey into captured
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    left join pg_constraint k on k.conrelid = c.oid and k.contype = 'p' and not k.condeferrable
    where c.oid = new.source_object_id::oid and c.relkind in ('r', 'p') and c.relpersistence = 'p'
      and not c.relispartition and n.nspname not in ('cdc', 'rowtide');
    if not found then
        return null;
    end if;
    select matching.* into rule
    from pg_class c join pg_namespace n on n.oid = c.relnamespace, lateral ({MATCHING_RULE}) matching
    where c.oid = captured.oid;
    if not found then
        return null;
    end if;
    instance_name := captured.nspname || '_' || captured.relname;
    identity := case rule.before_images when '{BeforeImages.FULL}' then 'f' else 'd' end;
    select s.publication, s.publication_id, case when o.rolname <> current_user then o.rolname end as owner into source
    from rowtide.source s join pg_publication p on p.oid::bigint = s.publication_id
    join pg_database here on here.datname = current_database() and s.publication = 'rowtide_' || here.oid
    join pg_roles o on o.oid = p.pubowner;
    if not found then
        return null;
    end if;
"""  # noqa: S608 - of constants
"""In a copied database nothing is enabled: its publication has the original's name."""

_REFUSE = f"""
    if rule.refuses_truncate or instance_name !~ '^[A-Za-z0-9_-]{{1,{MAX_NAME_LENGTH}}}$'
       or identity = 'd' and captured.conname is null
       or rule.supports_net_changes and captured.conname is null
       or rule.role_name is not null and not exists (select from pg_roles where rolname = rule.role_name)
       or exists (select from {_COLUMNS}
                  and (a.attname !~ '^[!-~]+$' or a.attname ~ '[,;{{}}()=%]'
                       or lower(a.attname) = any('{{{",".join(sorted(RESERVED_NAMES))}}}')
                       or identity = 'f' and a.attgenerated = 'v'
                       or a.attgenerated <> '' and a.attnum = any(captured.conkey)))
       or (select count(*) <> count(distinct lower(a.attname)) from {_COLUMNS})
       or exists (select from {_HOLDERS} join pg_class c on c.oid = holding.relid
                  where c.relkind not in ('r', 'p') or c.relpersistence <> 'p' or c.relreplident = 'i')
    then
        return null;
    end if;
    -- Another transaction could have written already, unless this one alone sees the table or has locked it.
    if exists (select from {_HOLDERS} where not exists (
                   select from pg_locks l where l.locktype = 'relation' and l.relation = holding.relid
                   and l.pid = pg_backend_pid() and l.mode = 'AccessExclusiveLock' and l.granted)) then
        return null;
    end if;
    lock table rowtide.control in row exclusive mode;
    if exists ({_UNTRUSTED}) then
        return null;
    end if;
    perform pg_advisory_xact_lock({MEMBERS["class"]}, {MEMBERS["key"]});
    if exists (select from cdc.change_tables t where lower(t.capture_instance) = lower(instance_name)
               or t.source_object_id in (select holding.relid::bigint from {_HOLDERS}))
       or not exists (select from cdc.change_tables) and not exists (select from cdc.cdc_jobs)
    then
        return null;
    end if;
"""  # noqa: S608 - of constants
"""Errors, and cases that need a decision, are left to the process that captures."""

_PUBLISH = f"""
    for holder in
        select c.oid, n.nspname, c.relname, c.relreplident from {_HOLDERS}
        join pg_class c on c.oid = holding.relid join pg_namespace n on n.oid = c.relnamespace
        where (c.relkind = 'r' or c.oid = captured.oid) and c.relreplident not in ('f', identity)
    loop
        insert into rowtide.identities (source_table_id, identity, captured_table_id)
        values (holder.oid::bigint, holder.relreplident, captured.oid::bigint) on conflict do nothing;
        execute format('alter table %I.%I replica identity %s', holder.nspname, holder.relname,
                       case identity when 'f' then 'full' else 'default' end);
    end loop;
    if not exists (select from pg_publication_rel where prpubid::bigint = source.publication_id
                   and prrelid = captured.oid) then
        execute format('alter publication %I add table only %I.%I', source.publication, captured.nspname,
                       captured.relname);
    end if;
    alone := source.publication || '_' || captured.oid;
    if exists (select from pg_publication where pubname = alone) then
        execute format('drop publication %I', alone);
    end if;
    execute format('create publication %I for table only %I.%I %s', alone, captured.nspname, captured.relname,
                   case when current_setting('server_version_num')::int >= {GENERATED_PUBLISHED_FROM}0000
                        then '{publication_options(GENERATED_PUBLISHED_FROM)}' else '{publication_options(0)}' end);
    if source.owner is not null then
        execute format('alter publication %I owner to %I', alone, source.owner);
    end if;
    insert into rowtide.table_publications (publication, publication_entry_id)
    select alone, r.oid::bigint
    from pg_publication_rel r join pg_publication p on p.oid = r.prpubid where p.pubname = alone
    on conflict (publication) do update set publication_entry_id = excluded.publication_entry_id;
    insert into rowtide.members
        (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id)
    select new_member, '{FEATURE}', instance_name, captured.oid::bigint, captured.nspname, captured.relname,
           r.oid::bigint
    from pg_publication_rel r where r.prpubid::bigint = source.publication_id and r.prrelid = captured.oid;
"""  # noqa: S608 - of constants

_RECORD = f"""
    insert into cdc.change_tables (source_object_id, capture_instance, supports_net_changes, role_name, index_name,
                                   member_id, refuses_truncate, before_images)
    values (captured.oid::bigint, instance_name, {_HAS_NET_CHANGES}, rule.role_name, captured.conname, new_member,
            false, rule.before_images)
    returning object_id into instance_id;
    insert into cdc.captured_columns (object_id, column_name, column_id, column_type, column_ordinal, is_computed)
    select instance_id, a.attname, a.attnum, {COLUMN_TYPE_TEXT}, row_number() over (order by a.attnum),
           a.attgenerated <> ''
    from {_COLUMNS};
    insert into cdc.index_columns (object_id, column_name, index_ordinal, column_id)
    select instance_id, a.attname, array_position(captured.conkey, a.attnum), a.attnum
    from {_COLUMNS} and a.attnum = any(captured.conkey);
    if rule.copies_rows then
        insert into cdc.snapshots (capture_instance, member_id, rows_per_second)
        values (instance_name, new_member, rule.rows_per_second);
    end if;
    insert into cdc.ruled_tables (rule_name, source_object_id, source_schema, source_table, outcome)
    values (rule.rule_name, captured.oid::bigint, captured.nspname, captured.relname, 'enabled')
    on conflict (rule_name, source_object_id) do update
    set source_schema = excluded.source_schema, source_table = excluded.source_table, outcome = excluded.outcome,
        reason = null, considered_at = now();
"""  # noqa: S608 - of constants

_ANNOUNCE = f"""
    select json_build_object(
        'capture_instance', instance_name, 'member_id', new_member, 'database_kind', 'postgres',
        'source_id', captured.oid::bigint, 'source_schema', captured.nspname, 'source_table', captured.relname,
        'supports_net_changes', {_HAS_NET_CHANGES}, 'index_name', captured.conname,
        'columns', coalesce(json_agg(json_build_object(
            'name', a.attname, 'column_id', a.attnum, 'type_text', {COLUMN_TYPE_TEXT}, 'type_code', a.atttypid::bigint,
            'type_modifier', a.atttypmod, 'lake_name', a.attname, 'is_computed', a.attgenerated <> '',
            'index_ordinal', array_position(captured.conkey, a.attnum), 'base_type_text', {COLUMN_BASE_TYPE_TEXT},
            'reader_name', a.attname) order by a.attnum), '[]'),
        'refuses_truncate', false, 'before_images', rule.before_images,
        'is_partitioned', captured.relkind = 'p', 'role_name', rule.role_name,
        'seen_columns', coalesce(json_agg(json_build_object(
            'name', a.attname, 'type_code', a.atttypid::bigint, 'type_modifier', a.atttypmod,
            'is_generated', a.attgenerated <> '') order by a.attnum), '[]'))::text
    into definition from {_COLUMNS};
    insert into rowtide.control (kind, content)
    select '{Announcement.ENABLE}', json_build_object(
        'member_id', new_member, 'feature', '{FEATURE}', 'name', instance_name, 'source_id', captured.oid::bigint,
        'schema', captured.nspname, 'table', captured.relname,
        'columns', coalesce(json_agg(a.attname order by a.attnum) filter (where a.attgenerated = ''), '[]'),
        'definition', definition,
        'column_numbers', coalesce(json_agg(a.attnum order by a.attnum) filter (where a.attgenerated = ''), '[]'),
        'computed_numbers', coalesce(json_agg(a.attnum order by a.attnum) filter (where a.attgenerated <> ''), '[]')
        )::text
    from {_COLUMNS};
"""  # noqa: S608 - of constants

_JOIN = f"""
declare
    captured record;
    rule record;
    source record;
    holder record;
    identity text;
    instance_name text;
    instance_id bigint;
    new_member text := gen_random_uuid()::text;
    alone text;
    definition text;
begin
    delete from cdc.new_tables where note_id = new.note_id;
    {_FIND}
    {_REFUSE}
    {_PUBLISH}
    {_RECORD}
    {_ANNOUNCE}
    return null;
exception when others then
    raise warning 'rowtide: a new table is enabled by the next poll only: %', sqlerrm;
    return null;
end """  # noqa: S608 - of constants
"""Does what `plan_enable_table` does, for tables that need no decision."""

_BODIES = {_NOTING: _NOTE, _JOINING: _JOIN}

_PRESENT = f"""
select p.proname::text as name, p.prosrc as body
from pg_proc p
where p.pronamespace = to_regnamespace('cdc') and p.proname in ('{_NOTING}', '{_JOINING}')
  and not has_function_privilege('public', p.oid, 'execute')
  and (exists (select from pg_event_trigger t where t.evtfoid = p.oid and t.evtenabled <> 'D')
       or exists (select from pg_trigger t where t.tgfoid = p.oid and t.tgenabled <> 'D'))
  and not exists (select from pg_class c join pg_roles o on o.oid = c.relowner
                  where c.oid in (to_regclass('rowtide.control'), to_regclass('cdc.new_tables'))
                    and c.relowner <> p.proowner and not o.rolsuper)
"""  # noqa: S608 - of constants

_IS_TRUSTED = f"select not exists ({_UNTRUSTED})"
