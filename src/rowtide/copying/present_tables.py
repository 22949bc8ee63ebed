"""A table as a transaction sees it: its name, its columns by number, and the state on which their values depend.

If reading a table would run its owner's code, it is read by a function with the owner's rights.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql

from rowtide.copying.chunks import CopiedTable, TableOwner
from rowtide.copying.errors import CopiedTableNotOwned
from rowtide.core.values import frozen
from rowtide.databases.postgres import owner_functions
from rowtide.databases.postgres.catalogue import COLUMN_BASE_TYPE_TEXT, COLUMN_TYPE_TEXT
from rowtide.databases.postgres.functions import PIN_PATH
from rowtide.databases.postgres.owner_functions import called_by_plans
from rowtide.databases.postgres.quoting import quote, running


@frozen
class PresentColumn:
    """A column with its type as SQL writes it; `value_type_text` is the base type of a domain."""

    name: str
    type_text: str
    value_type_text: str


@frozen
class PresentTable:
    """A table with some of its columns, by number.

    `generation` changes when one of these columns is altered, whose values may then be others without a change in the
    log. `altered_by` are the transactions that have altered them last. `rows` (None: never counted) and `size` in bytes
    are estimates.
    """

    schema: str
    table: str
    is_partitioned: bool
    columns: Mapping[int, PresentColumn]
    generation: str
    altered_by: tuple[int, ...]
    rows: int | None
    size: int


def find_present(connection: psycopg.Connection[Any], source_id: int, numbers: Collection[int]) -> PresentTable | None:
    """Return a table by its oid; None if it was dropped."""
    wanted = {"table": source_id, "numbers": sorted(numbers)}
    row = connection.execute(sql.SQL(_TABLE), wanted).fetchone()
    if row is None:
        return None
    columns = connection.execute(sql.SQL(_COLUMNS), wanted).fetchall()
    return PresentTable(
        schema=row[0],
        table=row[1],
        is_partitioned=row[2],
        columns={
            number: PresentColumn(name, type_text, base or type_text) for number, name, type_text, base in columns
        },
        generation=row[3] or "",
        altered_by=tuple(_widen(xid, row[5]) for xid in row[4] or ()),
        rows=row[6],
        size=row[7],
    )


def _widen(xid: int, following: int) -> int:
    """Return the 64-bit id of a transaction before another, of which the catalogue has the lower 32 bits."""
    widened = following & ~_XID_MASK | xid
    return widened if widened < following else widened - _XID_MASK - 1


_XID_MASK = 0xFFFFFFFF

# Rows are estimated as the planner does: the table's present pages, times the rows per page when it was last analysed.
# A column's catalogue row is rewritten only by statements that alter the column: a truncate or `vacuum full` replaces
# the table's file, but not these rows.
_TABLE = """
with held as (
    select h.oid, h.reltuples, h.relpages, pg_relation_size(h.oid) / current_setting('block_size')::int as pages
    from pg_class h
    where h.relkind <> 'p'
      and (h.oid = %(table)s::oid or h.oid in (select relid from pg_partition_tree(%(table)s::oid)))
)
select n.nspname::text, c.relname::text, c.relkind = 'p',
       (select md5(string_agg(concat_ws(' ', a.attnum, a.atttypid, a.atttypmod, a.xmin), ',' order by a.attnum))
        from pg_attribute a
        where a.attrelid = c.oid and a.attnum = any(%(numbers)s::int[]) and not a.attisdropped),
       (select array_agg(distinct a.xmin::text::bigint) from pg_attribute a
        where a.attrelid = c.oid and a.attnum = any(%(numbers)s::int[]) and not a.attisdropped),
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
       (select case when bool_and(relpages > 0 or pages = 0)
                    then coalesce(sum(pages * reltuples / nullif(relpages, 0)), 0)::bigint end
        from held),
       (select coalesce(sum(pg_table_size(oid)), 0)::bigint from held)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = %(table)s::oid
"""

_COLUMNS = f"""
select a.attnum::int, a.attname::text, {COLUMN_TYPE_TEXT}, {COLUMN_BASE_TYPE_TEXT}
from pg_attribute a
where a.attrelid = %(table)s::oid and a.attnum = any(%(numbers)s::int[]) and not a.attisdropped
"""


def find_reader(connection: psycopg.Connection[Any], source_id: int) -> str | None:
    """Return the function by which a table is to be read as its owner; None: it is read directly.

    So is a table of the session's role or of a superuser, and as long as its plans call no code of others, one whose
    owner the role may not act as, or which hides its rows from its owner. The function is created where it is not
    there, which a read-only transaction cannot. Raises `CopiedTableNotOwned`.
    """
    found = connection.execute(sql.SQL(_READ_BY), {"table": source_id}).fetchone()
    if found is None:
        return None
    name, author, called, is_possible = found
    if called is None and not is_possible:
        return None
    owner = owner_functions.read_owners(running(connection), [name])[name]
    if not owner.is_held:
        if called is None:
            return None
        raise CopiedTableNotOwned(name, quote(owner.name), called, author, quote(connection.info.user))
    # Its code could give a prepared statement's name to another one.
    connection.prepare_threshold = None
    if owner.is_ready:
        return owner.reading
    with connection.transaction():
        for statement in owner_functions.creations(owner):
            connection.execute(statement.encode())
    return owner.reading


def is_still_read_by(connection: psycopg.Connection[Any], source_id: int, reader: str | None) -> bool:
    """Return whether a table, which is locked now, is to be read as `find_reader` returned before; waits for no lock.

    While the session waited for the lock, the owner could have created an index, whose functions a plan calls.
    """
    if reader is not None:
        return True
    found = connection.execute(sql.SQL(_READ_BY), {"table": source_id}).fetchone()
    return found is None or found[2] is None


def with_reader(connection: psycopg.Connection[Any], table: CopiedTable, reader: str | None) -> CopiedTable:
    """Return a table that is read by a function of `find_reader`."""
    if reader is None:
        return table
    # Set again, because an owner's code that ran in the session may have changed it.
    connection.execute(PIN_PATH)
    types = {row.name: row.type_text for row in running(connection)(_TYPES, table=table.source_id)}
    return replace(table, owner=TableOwner(reader, tuple(types.get(column, "text") for column in table.columns)))


# Reading as the owner is possible if no policies hide rows from it, it may use the table's schema and read its table
# (its own right to can be revoked), and the schema of such functions is the role's, or can be made. What a plan calls
# can change between two statements of a transaction: a lock of readers keeps neither an index nor statistics away,
# none keeps another body of a function away.
_READ_BY = f"""
select format('%%I.%%I', n.nspname, c.relname), called.author, called.what,
       not (c.relrowsecurity and c.relforcerowsecurity) and has_schema_privilege(c.relowner, n.oid, 'usage')
       and has_table_privilege(c.relowner, c.oid, 'select') and (current_setting('is_superuser')::boolean
           or case when made.nspowner is null then has_database_privilege(current_database(), 'create')
                   else pg_get_userbyid(made.nspowner) = current_user end)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
join pg_roles owner on owner.oid = c.relowner and owner.rolname <> current_user and not owner.rolsuper
left join lateral ({called_by_plans("c.oid").replace("%", "%%")} limit 1) called on true
left join pg_namespace made on made.nspname = '{owner_functions.SCHEMA}'
where c.oid = %(table)s::oid
"""
_TYPES = f"""
select a.attname::text as name, {COLUMN_TYPE_TEXT} as type_text
from pg_attribute a where a.attrelid = :table and a.attnum > 0 and not a.attisdropped
"""
