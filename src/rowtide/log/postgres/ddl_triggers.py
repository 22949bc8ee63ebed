"""The event triggers that write DDL on members' tables into the log.

They run in the transaction that alters a table and only warn: whatever fails in them, the application's DDL is never
refused. Creating them takes a right that few roles have (superuser, or what a managed service grants instead); without
them the log's own table descriptions are compared.

Event triggers run in every session, including superusers'. Their functions belong to the role that may create them and
run with its rights (SECURITY DEFINER), because no other role may write `rowtide.control`. The owner of that table could
attach triggers that run with these rights, so the owner has to be a superuser or the function's owner. The function
that removes the members of a dropped table is created only if its owner owns the whole schema.
"""

from __future__ import annotations

from enum import Enum

from sqlalchemy import Connection, Executable, text

from rowtide.databases.postgres.catalogue import COLUMN_BASE_TYPE_TEXT, COLUMN_COLLATION, COLUMN_TYPE_TEXT, IS_NOT_NULL
from rowtide.databases.postgres.errors import RightMissing, UnexpectedSqlError, translated
from rowtide.databases.postgres.functions import close_function
from rowtide.databases.postgres.query_memo import made_once
from rowtide.databases.postgres.quoting import quote, quote_literal, statement
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS
from rowtide.log.catalogue import LOG, dropped_table
from rowtide.log.features import CHANGE_TABLES
from rowtide.log.membership import LONGEST_STATEMENT, Announcement
from rowtide.log.postgres import partition_truncates

_NOT_SUPPORTED = "0A000"


class Triggers(Enum):
    """The outcome of creating the event triggers."""

    FOUND = "found"
    MADE = "made"
    REFUSED = "refused"
    """The role may not create them."""


def ensure_triggers(connection: Connection) -> Triggers:
    """Create the event triggers that are missing, if the role may; a missing right is not an error."""
    if has_triggers(connection):
        return Triggers.FOUND
    owner, is_trusted = connection.execute(text(_OWNER)).one()
    taking = [] if is_trusted else take_steps(owner)
    try:
        with translated(), connection.begin_nested():
            dropped_table.create(connection, checkfirst=True)
            for step in [*taking, *trigger_steps(removes_dropped=is_trusted)]:
                connection.execute(step)
    except RightMissing:
        return Triggers.REFUSED
    except UnexpectedSqlError as error:
        if error.sqlstate != _NOT_SUPPORTED:
            raise
        return Triggers.REFUSED
    return Triggers.MADE


@made_once
def has_triggers(connection: Connection) -> bool:
    """Return whether the event triggers exist as this build creates them, are enabled, and may write the table."""
    present = {row.name: row.body for row in connection.execute(text(_PRESENT), {"names": list(_TELLING)})}
    return present == {name: _function_body(body) for name, (_, body, _) in _TELLING.items()}


def trigger_steps(*, removes_dropped: bool = True) -> list[Executable]:
    """Return the statements that create the event triggers, including the one that removes members of dropped
    tables.
    """
    steps = [step for name, (event, body, rights) in _TELLING.items() for step in _make(name, event, body, rights)]
    if removes_dropped:
        steps += _make(_DROP_NAME, "sql_drop", _ANNOUNCE_DROP, "definer")
    # Left by a dump that was restored without its rows, and whose schema was renamed since.
    left = [statement(f"drop event trigger if exists {name}") for name in (*_TELLING, _DROP_NAME)]
    return [*drop_steps(), *left, *steps]


def drop_steps() -> list[Executable]:
    """Return the statements that drop the event triggers, also another role's: the schema's owner may."""
    return [statement(f"drop function if exists rowtide.{name}() cascade") for name in (*_TELLING, _DROP_NAME)]


def take_steps(schema_owner: str) -> list[Executable]:
    """Return the statements by which a superuser takes over the table that the triggers write; its owner may still
    write.
    """
    return [
        statement("alter table rowtide.control owner to current_user"),
        statement(f"grant select, insert, update, delete on rowtide.control to {quote(schema_owner)}"),
    ]


# An error in an event trigger would undo the user's own statement. So it becomes a warning; the decoder then infers the
# alteration, or omits the table's changes with a reason.
def _function_body(body: str) -> str:
    return f"""
{body.strip()}
exception when others then
    raise warning 'rowtide: what was done to a captured or published table is not recorded: %', sqlerrm;
end """


def _make(name: str, event: str, body: str, rights_of: str) -> list[Executable]:
    function = f"""
create function rowtide.{name}() returns event_trigger
language plpgsql security {rights_of} set search_path = pg_catalog, pg_temp {_PINNED} as $${_function_body(body)}$$
"""
    return [
        statement(function),
        statement(close_function(f"rowtide.{name}()")),
        statement(f"create event trigger {name} on {event} execute function rowtide.{name}()"),
        # Also in sessions that replay another server's changes (session_replication_role = replica).
        statement(f"alter event trigger {name} enable always"),
    ]


_SETTINGS = (
    "DateStyle",
    "IntervalStyle",
    "extra_float_digits",
    "bytea_output",
    "TimeZone",
    "lc_monetary",
    "xmlbinary",
    "quote_all_identifiers",
)
_PINNED = " ".join(f"set {name} = {quote_literal(PINNED_SETTINGS[name])}" for name in _SETTINGS)
"""Values and types are written in the form that the log has, whatever the settings of the altering session are."""

_NOTE_REWRITE = """
begin
    if pg_event_trigger_table_rewrite_reason() & 4 <> 0 then
        perform set_config('rowtide.rewritten', concat_ws(' ', current_setting('rowtide.rewritten', true), (
            select string_agg(above.oid::bigint::text, ' ')
            from (select pg_event_trigger_table_rewrite_oid() as oid
                  union select relid from pg_partition_ancestors(pg_event_trigger_table_rewrite_oid())) above)), true);
    end if;
    if pg_event_trigger_table_rewrite_reason() & 1 <> 0 then
        perform set_config('rowtide.relogged', concat_ws(' ', current_setting('rowtide.relogged', true), (
            select string_agg(relid::oid::bigint::text, ' ')
            from pg_partition_ancestors(pg_event_trigger_table_rewrite_oid()))), true);
    end if;
"""
"""Reason 4: a column's type changes, or how its values are generated. The altered table is the topmost one.

Reason 8, another access method, keeps all values. Reason 1: a table becomes unlogged, or logged. The server keeps
published tables from it, but not their partitions.
"""

_REQUIRE_OWNER = """lock table rowtide.control in row exclusive mode;
        if not exists (select from pg_class c join pg_roles owner on owner.oid = c.relowner
                       where c.oid = 'rowtide.control'::regclass and (owner.rolname = current_user or owner.rolsuper))
        then
            raise exception 'rowtide.control belongs to another role';
        end if;"""
"""The lock keeps the table from being dropped or replaced before the row is in it."""

ALTERED_COLUMNS = f"""(
                select coalesce(json_agg(json_build_object(
                    'number', a.attnum,
                    'name', a.attname,
                    'type_text', {COLUMN_TYPE_TEXT},
                    'type_code', a.atttypid::bigint,
                    'type_modifier', a.atttypmod,
                    'base_type_text', {COLUMN_BASE_TYPE_TEXT},
                    'is_nullable', not {IS_NOT_NULL.strip()},
                    'is_generated', a.attgenerated <> '',
                    'is_virtual', a.attgenerated = 'v',
                    'default', (select pg_get_expr(f.adbin, f.adrelid) from pg_attrdef f
                                where f.adrelid = a.attrelid and f.adnum = a.attnum),
                    'collation', {COLUMN_COLLATION},
                    'missing_value', (coalesce(a.attmissingval, (
                        select part.attmissingval from pg_partition_tree(a.attrelid) p
                        join pg_attribute part on part.attrelid = p.relid and part.attname = a.attname
                        where p.isleaf and part.atthasmissing limit 1))::text::text[])[1]
                ) order by a.attnum), '[]')
                from pg_attribute a
                where a.attrelid = altered.oid and a.attnum > 0 and not a.attisdropped)"""
"""SQL expression of the columns, as JSON, of a row `altered` with a table's oid."""

_ALTERED_KEYS = f"""(
                select coalesce(json_agg((
                    select json_agg(k.number order by k.place)
                    from unnest(i.indkey::int2[]) with ordinality k(number, place)
                    where k.place <= i.indnkeyatts)), '[]')
                from pg_index i
                where i.indrelid = altered.oid and i.indisunique and i.indimmediate and i.indisvalid
                    and i.indpred is null and i.indexprs is null and not exists (
                        select from unnest(i.indkey::int2[]) with ordinality k(number, place)
                        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
                        where k.place <= i.indnkeyatts and not {IS_NOT_NULL.strip()}))"""
"""SQL expression of the keys, as JSON: columns' numbers of indexes by which rows differ at every moment."""

_OWN_XMIN = """{row}.xmin::text::bigint > 2
                and ({row}.xmin::text::bigint - pg_current_xact_id()::text::bigint & 4294967295) < 1073741824
                and pg_xact_status((pg_current_xact_id()::text::bigint
                    + ({row}.xmin::text::bigint - pg_current_xact_id()::text::bigint & 4294967295))::text::xid8)
                    = 'in progress'"""
"""SQL condition of a catalogue row that this transaction wrote, in a savepoint too: of the visible rows only those have
a writer in progress. Numbers 0 to 2 are no transaction's (invalid, bootstrap, frozen). A savepoint's number is at or
above the transaction's own; one that is more than 2^30 above it is old, from before the numbers wrapped around.
"""

_PRINTS_OTHERWISE = f"""(
                coalesce(current_query(), '') ~* 'rename[[:space:]]+value|(add|drop|alter)[[:space:]]+attribute'
                or coalesce(current_query(), '') !~* 'add[[:space:]]+value|[[:<:]]rename[[:>:]]')
            and (exists (select from pg_enum label where label.enumtypid = altering.objid
                         and altering.classid = 'pg_type'::regclass and {_OWN_XMIN.format(row="label")})
                or exists (select from pg_attribute part where part.attrelid = altering.objid
                           and altering.classid = 'pg_class'::regclass and {_OWN_XMIN.format(row="part")}))"""
"""SQL condition on a reported command `altering`: it changed the texts of values of an enum, composite or row type.

The catalogue does not tell a renamed label from an added one, which changes no value; the statement's text does. If a
function alters the type, the text is `select …`, and the label counts as renamed.
"""

_RELABELLED = f"""
            select case when altering.classid = 'pg_type'::regclass then altering.objid else made.reltype end as oid
            from pg_event_trigger_ddl_commands() altering
            left join pg_class made on altering.classid = 'pg_class'::regclass and made.oid = altering.objid
            where {_PRINTS_OTHERWISE}
            union
            select case when d.classid = 'pg_type'::regclass then d.objid else holder.reltype end
            from relabelled part join pg_depend d on d.refclassid = 'pg_type'::regclass and d.refobjid = part.oid
            left join pg_class holder on d.classid = 'pg_class'::regclass and holder.oid = d.objid
            where d.classid = 'pg_type'::regclass or holder.reltype <> 0"""
"""SQL query of a recursive `relabelled`: types whose values have other texts, and arrays, domains, ranges and rows of
them.
"""

_HOLDS_ROWS = """exists (
                    select from pg_partition_tree({oid}) part where part.isleaf and pg_relation_size(part.relid) > 0
                    union all select where pg_relation_size({oid}) > 0)"""
"""SQL condition: a partition is not empty, that is, it has pages. Statistics may be out of date."""

_IS_PUBLISHED = """join pg_publication_rel r on r.prrelid = c.oid
        join pg_publication p on p.oid = r.prpubid
        join pg_database here on here.datname = current_database()
        where p.pubname = 'rowtide_' || here.oid"""
"""Tables that this database's publication has. By its name, which has the database's oid: in a copy, `rowtide.source`
still names the original's publication, and nothing reads the copy's log.
"""

_NAMED_TABLES = """
            select above.relid from pg_event_trigger_ddl_commands() d, pg_partition_ancestors(d.objid) above
            where d.classid = 'pg_class'::regclass"""

_ADDS_ROWS = f"""exists (
            select from pg_partition_tree(altered.oid) above join pg_inherits i on i.inhparent = above.relid
            where {_OWN_XMIN.format(row="i")} and {_HOLDS_ROWS.format(oid="i.inhrelid")}
                and i.inhrelid::bigint::text <> all(
                    string_to_array(coalesce(current_setting('rowtide.made', true), ''), ' ')))"""
"""SQL condition: partitions that are not empty were attached to a table in this transaction.

Not those that were created as partitions: the log has all of their rows.

From the catalogue and not from the statement's text: the function of a partition manager runs as `select …`.
"""

_TAKES_ROWS = f"""exists (
            select from pg_trigger known
            join pg_class c on c.oid = coalesce(pg_partition_root(known.tgrelid), known.tgrelid)
            where {partition_truncates.IS_STRAY.format(trigger="known")}
                and {partition_truncates.HOLDING_TABLE.format(trigger="known")} = altered.oid
                and {_OWN_XMIN.format(row="c")} and {_HOLDS_ROWS.format(oid="known.tgrelid")})"""
"""SQL condition: partitions that are not empty were detached from a table in this transaction.

A dropped partition has no pages any more when `sql_drop` runs, so it counts as having had rows.
"""


def announced_content(
    *,
    command: str = "tg_tag",
    sql: str = "coalesce(current_query(), '')",
    is_inherited: str = "false",
    rewrites_values: str = "false",
    moves_rows: str = "true",
    brings_rows: str,
    is_inferred: str = "false",
) -> str:
    """Return the SQL expression of an announcement's content, for a row or record `altered` with a table's `oid`,
    `nspname` and `relname`; each part is an SQL expression.
    """
    return f"""json_build_object(
            'source_id', altered.oid::bigint,
            'schema', altered.nspname,
            'table', altered.relname,
            'is_inherited', {is_inherited},
            'command', {command},
            'statement', left({sql}, {LONGEST_STATEMENT}),
            'rewrites_values', {rewrites_values},
            'moves_rows', {moves_rows},
            'brings_rows', {brings_rows},
            'is_inferred', {is_inferred},
            'columns', {ALTERED_COLUMNS},
            'keys', {_ALTERED_KEYS}
        )::text"""


_ANNOUNCED = announced_content(
    is_inherited="altered.is_inherited",
    rewrites_values="altered.is_printed_otherwise or coalesce(altered.oid::bigint::text = any(rewritten), false)",
    moves_rows="brings_rows or takes_rows",
    brings_rows="brings_rows",
)

_KEPT_UNLOGGABLE = """
            select n.nspname, c.relname, case i.identity when 'd' then 'default'
                else format('using index %I', i.identity_index) end as clause
            from rowtide.identities i
            join pg_class c on c.oid::bigint = i.source_table_id join pg_namespace n on n.oid = c.relnamespace
            where i.captured_table_id = altered.oid::bigint and c.relreplident = 'f'
                and exists (select from pg_attribute a
                            where a.attrelid = c.oid and a.attgenerated = 'v' and not a.attisdropped)
                and (i.identity = 'i' or i.identity = 'd' and exists (
                    select from pg_index x where x.indrelid = c.oid and x.indisprimary and x.indimmediate))"""
"""SQL query for the tables, of a table and its partitions, that were given a full replica identity and now have a
virtual column: the server refuses their updates and deletes until the earlier identity is restored.
"""

# A command is reported only for the table that it names. Tables that inherit from it, and tables of an altered type,
# change with it (`passed_on`); rows of an attached partition are published as rows of the tables above it.
# The settings are repeated as a comment in the body, because `has_triggers` compares bodies, of which a function's
# settings are no part: so a change of the settings is noticed.
_ANNOUNCE_DDL = f"""
-- {_PINNED}
declare
    altered record;
    brings_rows boolean;
    takes_rows boolean;
    unloggable record;
    rewritten text[] := string_to_array(current_setting('rowtide.rewritten', true), ' ');
    relogged text[] := string_to_array(current_setting('rowtide.relogged', true), ' ');
begin
    for altered in
        with recursive named as (
            select c.oid, d.classid from pg_event_trigger_ddl_commands() d
            join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
                            or d.classid = 'pg_namespace'::regclass and c.relnamespace = d.objid
        ), passed_on as (
            select t.oid from named a join pg_class c on c.oid = a.oid and a.classid = 'pg_class'::regclass
            join pg_class t on t.reloftype = c.reltype and c.reltype <> 0
            union
            select i.inhrelid from named a join pg_inherits i on i.inhparent = a.oid
            where a.classid = 'pg_class'::regclass
            union
            select i.inhrelid from passed_on a join pg_inherits i on i.inhparent = a.oid
        ), relabelled as ({_RELABELLED}
        ), printed_otherwise as (
            select d.objid as oid from relabelled held join pg_depend d on d.refobjid = held.oid
            where d.refclassid = 'pg_type'::regclass and d.classid = 'pg_class'::regclass and d.objsubid > 0
        ), told as (
            select oid from named union select oid from passed_on union select oid from printed_otherwise
        ), above as (
            select ancestor.relid as oid from named a join pg_class c on c.oid = a.oid and c.relkind = 'p',
                pg_partition_ancestors(a.oid) ancestor
            union
            select c.oid from pg_class c where c.oid::bigint::text = any(relogged)
        )
        select c.oid, n.nspname, c.relname, c.relkind, c.oid not in (select oid from named) as is_inherited,
            c.oid in (select oid from printed_otherwise) as is_printed_otherwise,
            c.oid not in (select oid from told) as is_above
        from (select oid from told union select oid from above) found
        join pg_class c on c.oid = found.oid
        join pg_namespace n on n.oid = c.relnamespace
        {_IS_PUBLISHED}
        order by c.oid
    loop
        brings_rows := altered.relkind = 'p' and tg_tag = 'ALTER TABLE' and {_ADDS_ROWS};
        takes_rows := altered.relkind = 'p' and tg_tag = 'ALTER TABLE' and {_TAKES_ROWS};
        if altered.oid::bigint::text = any(relogged) then
            -- Of its rows while it was unlogged the log has no changes.
            brings_rows := true;
            takes_rows := true;
        end if;
        continue when altered.is_above and not (brings_rows or takes_rows);
        {_REQUIRE_OWNER}
        insert into rowtide.control (kind, content) values ('{Announcement.DDL}', {_ANNOUNCED});
        for unloggable in {_KEPT_UNLOGGABLE}
        loop
            execute format('alter table %I.%I replica identity %s', unloggable.nspname, unloggable.relname,
                           unloggable.clause);
        end loop;
    end loop;
    perform set_config('rowtide.rewritten', '', true);
    perform set_config('rowtide.relogged', '', true);
"""

_GONE = announced_content(moves_rows="altered.takes_rows", brings_rows="false")

_INSTANCES = CHANGE_TABLES.path
_ANNOUNCE_GONE = f"""
-- {_PINNED}
declare
    altered record;
    without_index oid[] := '{{}}';
begin
    if to_regclass('{_INSTANCES}') is not null
        and exists (select from pg_event_trigger_dropped_objects() where object_type = 'index')
    then
        execute 'select array_agg(t.source_object_id::oid) from {_INSTANCES} t where t.index_name is not null and '
            'not exists (select from pg_index i join pg_class x on x.oid = i.indexrelid '
            'where i.indrelid = t.source_object_id::oid and x.relname = t.index_name)' into without_index;
    end if;
    for altered in
        select distinct c.oid, n.nspname, c.relname, true as takes_rows
        from pg_event_trigger_dropped_objects() gone
        join pg_trigger whole on whole.tgname = replace(gone.address_names[3], '_partition_', '_before_whole_')
            and whole.tgfoid = to_regprocedure('rowtide.announce_truncate()')
        join pg_class c on c.oid = whole.tgrelid
        join pg_namespace n on n.oid = c.relnamespace
        {_IS_PUBLISHED} and gone.classid = 'pg_trigger'::regclass and exists (
            select from pg_event_trigger_dropped_objects() part
            where part.classid = 'pg_class'::regclass and part.address_names = gone.address_names[1:2])
        union all
        select c.oid, n.nspname, c.relname, false
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        {_IS_PUBLISHED} and tg_tag not in ('ALTER TABLE', 'ALTER SCHEMA', 'ALTER TYPE') and (
            c.oid = any(without_index) or exists (
                select from pg_event_trigger_dropped_objects() part
                where part.classid = 'pg_class'::regclass and part.objid = c.oid and part.objsubid > 0))
        order by 1
    loop
        {_REQUIRE_OWNER}
        insert into rowtide.control (kind, content) values ('{Announcement.DDL}', {_GONE});
    end loop;
"""
"""The trigger of a dropped partition is dropped with it; whether the partition was empty is no longer known. Columns
that are dropped with their types, and an instance's key index that is dropped by itself, are not reported as commands
on their table. The query of capture's instances is dynamic, since PL/pgSQL would fail where the table does not exist.
"""

_ATTACH = f"""
declare
    found record;
begin
    perform set_config('rowtide.made', coalesce((
        select string_agg(c.oid::bigint::text, ' ')
        from (select unnest(string_to_array(current_setting('rowtide.made', true), ' '))::oid as oid
              union
              select d.objid from pg_event_trigger_ddl_commands() d
              where tg_tag = 'CREATE TABLE' and d.classid = 'pg_class'::regclass) made
        join pg_class c on c.oid = made.oid
        where c.relispartition), ''), true);
    if exists (select from pg_event_trigger_ddl_commands() d join pg_class c on c.oid = d.objid
               where d.classid = 'pg_class'::regclass and (c.relkind = 'p' or c.relispartition))
    then
        {partition_truncates.ATTACH.format(tables=_NAMED_TABLES)}
    end if;
"""
"""Its trigger fires after that of the announcement, which needs the earlier marks of partitions."""

_ANNOUNCE_DROP = f"""
declare
    gone record;
begin
    for gone in
        delete from rowtide.members m using pg_event_trigger_dropped_objects() d
        where d.classid = 'pg_class'::regclass and d.objsubid = 0 and m.source_table_id = d.objid::bigint
          and m.feature <> '{LOG}'
        returning m.member_id, m.feature, m.name, m.source_table_id, m.source_schema, m.source_name
    loop
        delete from rowtide.identities where source_table_id = gone.source_table_id;
        delete from rowtide.dropped_members where dropped_at < now() - interval '1 month';
        insert into rowtide.dropped_members (member_id, feature, name, source_schema, source_name)
        values (gone.member_id, gone.feature, gone.name, gone.source_schema, gone.source_name);
        {_REQUIRE_OWNER}
        insert into rowtide.control (kind, content)
        values ('{Announcement.DISABLE}', json_build_object('member_id', gone.member_id)::text);
    end loop;
"""

_TELLING = {
    "rowtide_note_rewrite": ("table_rewrite", _NOTE_REWRITE, "invoker"),
    "rowtide_announce_ddl": (
        "ddl_command_end when tag in ('ALTER TABLE', 'ALTER SCHEMA', 'ALTER TYPE')",
        _ANNOUNCE_DDL,
        "definer",
    ),
    "rowtide_announce_gone": ("sql_drop", _ANNOUNCE_GONE, "definer"),
    "rowtide_attach_partitions": ("ddl_command_end when tag in ('CREATE TABLE', 'ALTER TABLE')", _ATTACH, "definer"),
}
"""By the name of its function in schema rowtide, which is also the trigger's: event, body, and whose rights it has."""
_DROP_NAME = "rowtide_announce_drop"

_PRESENT = """
select t.evtname::text as name, p.prosrc as body
from pg_event_trigger t join pg_proc p on p.oid = t.evtfoid
join pg_class c on c.oid = to_regclass('rowtide.control') join pg_roles owner on owner.oid = c.relowner
where t.evtname::text = any(:names) and t.evtenabled <> 'D' and p.pronamespace = to_regnamespace('rowtide')
  and (c.relowner = p.proowner or owner.rolsuper) and not has_function_privilege('public', p.oid, 'execute')
"""

_OWNER = """
select owner.rolname::text, owner.rolname = current_user or owner.rolsuper
from pg_namespace n join pg_roles owner on owner.oid = n.nspowner
where n.nspname = 'rowtide'
"""
