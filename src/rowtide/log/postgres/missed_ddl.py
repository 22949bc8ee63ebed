"""Changes of members' tables that no event trigger reported, found by comparison with the catalogue."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy import Connection, text

from rowtide.core.json_records import JsonOf
from rowtide.core.tables import ColumnShape, ImageKind, TableShape
from rowtide.databases.postgres.catalogue import running_through
from rowtide.databases.postgres.errors import RightMissing, UnexpectedSqlError, WritesRefused, translated
from rowtide.databases.postgres.owner_functions import called_by_plans, read_by, read_owners
from rowtide.databases.postgres.planned_code import find_planned
from rowtide.databases.postgres.quoting import quote_literal, statement
from rowtide.databases.postgres.session_settings import REFUSE_VIEWS
from rowtide.databases.source_table import SourceTable
from rowtide.events.catalogue import PartitionsNotAttached
from rowtide.events.event import emit
from rowtide.log.catalogue import LOG, dropped_table
from rowtide.log.membership import AlteredColumn, Announcement
from rowtide.log.postgres.ddl_triggers import ALTERED_COLUMNS, announced_content
from rowtide.log.postgres.membership import DEFAULT_IDENTITY, FULL_IDENTITY, INDEX_IDENTITY
from rowtide.log.postgres.partition_truncates import ATTACH, HOLDING_TABLE, IS_STRAY, NEW_PARTITIONS


def shape_of(table: SourceTable) -> TableShape:
    """Return the shape in which the log would show a table now."""
    names = {DEFAULT_IDENTITY: table.key_name, INDEX_IDENTITY: table.identity_index}
    index = table.find_index(names.get(table.identity))
    key = index.columns if index is not None else ()
    columns = tuple(
        ColumnShape(column.name, column.type_code, column.type_modifier, column.name in key, column.number)
        for column in table.columns
    )
    identity = ImageKind.FULL if table.identity == FULL_IDENTITY else ImageKind.KEY
    return TableShape(table.source_id, table.schema, table.name, identity, columns)


_COLUMNS = JsonOf[tuple[AlteredColumn, ...]](tuple[AlteredColumn, ...])


def find_altered_columns(connection: Connection, source_id: int) -> tuple[AlteredColumn, ...] | None:
    """Return a table's columns by its oid; None if it was dropped."""
    found = connection.execute(text(_FIND), {"source_id": source_id}).scalar()
    return None if found is None else _COLUMNS.decode(found)


def has_earlier_values(connection: Connection, source_id: int, number: int) -> bool:
    """Return whether rows got a value when a column was added: no change row has such values.

    Such a row's `xmin` is that of the transaction which added the column, or older; that transaction, or a later one,
    has written the column's row in the catalogue. Reads the table up to the first such row, or entirely if there is
    none, under a lock until the transaction ends, as the owner where copies have made its function. Else, if reading
    would call the owner's functions with the rights of the session, the answer is yes.
    """
    names = connection.execute(text(_NAMES), {"source_id": source_id, "number": number}).one_or_none()
    if names is None:
        return False
    table, column, xid = names
    connection.execute(text(REFUSE_VIEWS))
    # The lock first: while the session waits for it, the owner could create an index, or replace the table by a view.
    connection.execute(statement(f"lock table {table} in access share mode"))
    present = connection.execute(text("select to_regclass(:name)::oid::bigint"), {"name": table}).scalar()
    if present != source_id:
        return True
    run = running_through(connection)
    owner = read_owners(run, [table])[table]
    if not owner.is_ready and find_planned(run, [table]):
        return True
    of_before = f"t.{column} is not null and age(t.xmin) >= age('{xid}'::xid)"
    query = f"select exists(select from {table} t where {of_before}) as found"
    found = read_by(owner.reading if owner.is_ready else None, query, [("found", "boolean")])
    is_found = bool(connection.execute(statement(found)).scalar_one())
    if owner.is_ready:
        # The owner's code may have set what the session's next statements would mean.
        connection.invalidate()
    return is_found


_FIND = f"select {ALTERED_COLUMNS}::text from pg_class altered where altered.oid = :source_id"

_NAMES = """
select c.oid::regclass::text, quote_ident(a.attname), a.xmin::text
from pg_class c join pg_attribute a on a.attrelid = c.oid
where c.oid = :source_id and a.attnum = :number and not a.attisdropped
"""


def end_dropped(connection: Connection) -> bool:
    """Announce the end of members whose tables no longer exist, as an event trigger would have done.

    For a connection outside of a transaction, to the database whose log is read: in a copy of it tables have other
    oids. Without the rights for it nothing is done, and False returned.
    """
    if not connection.execute(text(f"select exists({_GONE})"), {"log": LOG}).scalar_one():
        return True
    # Reading continues: a member without a table has no changes, and a process with the right announces its end later.
    with suppress(RightMissing, WritesRefused), translated():
        dropped_table.create(connection, checkfirst=True)
        connection.execute(text(_END), {"log": LOG, "kind": Announcement.DISABLE.value})
        return True
    return False


_GONE = """
select from rowtide.members m
where m.feature <> :log and not exists (select from pg_class c where c.oid::bigint = m.source_table_id)
"""

_END = """
with gone as (
    delete from rowtide.members m
    where m.feature <> :log and not exists (select from pg_class c where c.oid::bigint = m.source_table_id)
    returning m.member_id, m.feature, m.name, m.source_table_id, m.source_schema, m.source_name
), forgotten as (
    delete from rowtide.identities i using gone where i.source_table_id = gone.source_table_id
), noted as (
    insert into rowtide.dropped_members (member_id, feature, name, source_schema, source_name)
    select member_id, feature, name, source_schema, source_name from gone
)
insert into rowtide.control (kind, content)
select :kind, json_build_object('member_id', member_id)::text from gone
"""


def attach_partitions(connection: Connection) -> None:
    """Attach new partitions of members' tables, and announce which tables gained or lost rows with partitions.

    For a connection outside of a transaction, to the database whose log is read. A partition that is in use, or whose
    triggers this role may not create, waits for the next time. What was dropped left no trace.
    """
    for table_id in connection.execute(statement(_CHANGED)).scalars().all():
        try:
            with translated():
                connection.execute(statement(_attach(table_id)))
        except (RightMissing, UnexpectedSqlError, WritesRefused) as error:
            emit(PartitionsNotAttached(error))


def _attach(table_id: int) -> str:
    # The log has no changes for the rows of an attached or detached partition: consumers learn only that the table has
    # changed as a whole.
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
    -- While a lock is waited for, an owner could put a view in a partition's place.
    {REFUSE_VIEWS.strip().replace("select", "perform", 1)};
    {_find_brought_rows(table_id)}
    {_find_taken_rows(table_id)}
    if brings_rows or takes_rows then
        insert into rowtide.control (kind, content)
        select {quote_literal(Announcement.DDL.value)}, {content}
        from (select c.oid, n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
              where c.oid = {table_id}) altered;
    end if;
    {ATTACH.format(tables=table_id)}
end $$
"""


def _find_brought_rows(table_id: int) -> str:
    """Return the loop that locks new partitions, and finds whether one of them came with rows."""
    of_table = f"whole.tgrelid = {table_id}"
    return f"""
    for found in {NEW_PARTITIONS} and {of_table} order by part.relid
    loop
        execute format('lock table %I.%I in share row exclusive mode', found.schema, found.name);
        if not brings_rows and exists ({called_by_plans("found.partition_id")}) then
            -- To read it would call functions of its owner with the rights of this session.
            brings_rows := pg_relation_size(found.partition_id) > 0;
        elsif not brings_rows then
            -- A row that is there since before its partition was attached came with it.
            execute format('select exists (select from only %I.%I t where age(t.xmin) >= %s)', found.schema, found.name,
                (select min(age(i.xmin)) from pg_partition_ancestors(found.partition_id) above
                 join pg_inherits i on i.inhrelid = above.relid
                 where above.relid not in (select relid from pg_partition_ancestors({table_id}))))
            into brings_rows;
        end if;
    end loop;
"""


def _find_taken_rows(table_id: int) -> str:
    """Return the loop that locks detached partitions, and finds whether one of them took rows along."""
    return f"""
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
"""


_CHANGED = f"""
select distinct found.table_id::bigint
from (select new.table_id from ({NEW_PARTITIONS}) new
      union select {HOLDING_TABLE.format(trigger="known")} from pg_trigger known
      where {IS_STRAY.format(trigger="known")}) found
join pg_class c on c.oid = found.table_id
order by 1
"""
