"""Reading what became of the tables that are captured or published, and of their names."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, text

from rowtide.databases.postgres.catalogue import read_tables
from rowtide.findings.postgres.facts import MemberFacts


def read_members(connection: Connection) -> tuple[MemberFacts, ...]:
    """Return the members of the log, and the instances of the last month whose tables were dropped.

    An article outlives its table.
    """
    return (*_read_present(connection), *_read_dropped(connection))


def _read_present(connection: Connection) -> Iterator[MemberFacts]:
    rows = connection.execute(text(_PRESENT)).all()
    tables = {table.source_id: table for table in read_tables(connection, [row.source_table_id for row in rows])}
    for row in rows:
        table = tables.get(row.source_table_id)
        yield MemberFacts(row.feature, row.name, row.source_schema, row.source_name, table, row.has_namesake)


def _read_dropped(connection: Connection) -> Iterator[MemberFacts]:
    """Earlier versions kept none, and not every role may read them."""
    if not connection.execute(text(_MAY_READ_DROPPED)).scalar_one():
        return
    for row in connection.execute(text(_DROPPED)):
        yield MemberFacts(
            row.feature, row.name, row.source_schema, row.source_name, None, row.has_namesake, row.dropped_at
        )


_HAS_NAMESAKE = """
exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = m.source_schema and c.relname = m.source_name and c.relkind in ('r', 'p', 'f', 'v', 'm')
          and not exists (select from rowtide.members other
                          where other.source_table_id = c.oid::bigint and other.feature = m.feature)) as has_namesake
"""
_PRESENT = f"""
select m.feature, m.name, m.source_table_id, m.source_schema, m.source_name, {_HAS_NAMESAKE}
from rowtide.members m order by m.feature, m.name
"""
_MAY_READ_DROPPED = "select coalesce(has_table_privilege(to_regclass('rowtide.dropped_members'), 'select'), false)"
_DROPPED = f"""
select m.feature, m.name, m.source_schema, m.source_name, m.dropped_at, {_HAS_NAMESAKE}
from rowtide.dropped_members m where m.feature = 'cdc' order by m.name, m.dropped_at
"""
