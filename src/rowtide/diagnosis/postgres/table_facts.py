"""Read facts about tables, captured, published or not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, Row, text

from rowtide.cdc import definitions
from rowtide.core.values import frozen
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.catalogue import IS_NOT_NULL, find_table, read_tables
from rowtide.databases.postgres.query_memo import make_once
from rowtide.databases.source_table import SourceTable
from rowtide.log import catalogue
from rowtide.merge.definitions import SCHEMA as MERGE_SCHEMA
from rowtide.replication.distributor.location import SCHEMA as DISTRIBUTION_SCHEMA
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA as SUBSCRIBER_SCHEMA

OUR_SCHEMAS = (catalogue.SCHEMA, definitions.SCHEMA, DISTRIBUTION_SCHEMA, SUBSCRIBER_SCHEMA, MERGE_SCHEMA, clock.SCHEMA)
"""Schemas that rowtide makes: their tables are not proposed for capture."""


@frozen
class PartitionFacts:
    """A partition that holds rows, with what the log carries of its old rows."""

    schema: str
    name: str
    identity: str


@frozen
class PostgresTableFacts:
    """A table that is captured or may come to be.

    `is_wanted`: the user named it, or it is captured. `is_owned`: the role has its owner's rights. `row_width` is the
    average in bytes by the server's statistics, without what is stored out of line; None before the first `analyze`.
    `unique_key` are not-null columns that could be the primary key, if any. `expressions` are those of virtual
    columns, by name.
    """

    table: SourceTable
    owner: str
    owner_is_superuser: bool
    is_owned: bool
    is_wanted: bool
    is_captured: bool
    row_width: int | None
    row_count: int | None
    out_of_line_bytes: int
    unique_key: tuple[str, ...]
    expressions: Mapping[str, str]
    partitions: tuple[PartitionFacts, ...]


@frozen
class MemberFacts:
    """What a feature reads of the log: a capture instance, or an article (`publication/article`).

    `recorded` is the name of its table when it began; `table` is the table now, None where it was dropped.
    `has_namesake` says that another table, which the feature does not read, has the recorded name now. `dropped_at` is
    when the member ended because its table was dropped, None where it continues.
    """

    feature: str
    name: str
    recorded_schema: str
    recorded_name: str
    table: SourceTable | None
    has_namesake: bool
    dropped_at: datetime | None = None

    @property
    def recorded(self) -> str:
        return f"{self.recorded_schema}.{self.recorded_name}"


def choose_tables(connection: Connection, names: Sequence[str], captured: Collection[int]) -> tuple[int, ...]:
    """Return the tables to look at: those named, else the captured ones, else every table of the user's schemas.

    Raises `TableNotFound`.
    """
    if names:
        return tuple(find_table(connection, name).source_id for name in names)
    return tuple(captured) or tuple(connection.execute(text(_USER_TABLES), {"ours": list(OUR_SCHEMAS)}).scalars())


def read_table_facts(
    connection: Connection,
    chosen: Sequence[int],
    *,
    named: bool,
    captured: Collection[int],
) -> tuple[PostgresTableFacts, ...]:
    """Return the facts of those tables that exist; `named` says that the user named them."""
    details = {row.source_id: row for row in connection.execute(text(_DETAILS), {"source_ids": list(chosen)})}
    return tuple(
        _table_facts(table, details[table.source_id], named=named, is_captured=table.source_id in captured)
        for table in read_tables(connection, chosen)
        if table.source_id in details
    )


def read_foreign_tables(connection: Connection) -> tuple[str, ...]:
    """Return the names of the tables whose rows are on another server."""
    return tuple(connection.execute(text(_FOREIGN_TABLES)).scalars())


def _table_facts(
    table: SourceTable, row: Row[tuple[object, ...]], *, named: bool, is_captured: bool
) -> PostgresTableFacts:
    return PostgresTableFacts(
        table=table,
        owner=row.owner,
        owner_is_superuser=row.owner_is_superuser,
        is_owned=row.is_owned,
        is_wanted=named or is_captured,
        is_captured=is_captured,
        row_width=row.row_width,
        row_count=row.row_count,
        out_of_line_bytes=row.out_of_line_bytes,
        unique_key=tuple(row.unique_key or ()),
        expressions=row.expressions or {},
        partitions=tuple(PartitionFacts(*partition) for partition in row.partitions or ()),
    )


_USER_TABLES = """
select c.oid::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence <> 't'
  and n.nspname <> 'information_schema' and n.nspname !~ '^pg_' and n.nspname <> all(:ours)
  and not exists (select from pg_depend d
                  where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
"""

_FOREIGN_TABLES = """
select n.nspname || '.' || c.relname
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'f'
order by 1
"""

_DETAILS = f"""
select c.oid::bigint as source_id, r.rolname::text as owner, r.rolsuper as owner_is_superuser,
       pg_has_role(c.relowner, 'usage') as is_owned,
       (select sum(s.avg_width)::int from pg_stats s
        where s.schemaname = n.nspname and s.tablename = c.relname and not s.inherited) as row_width,
       nullif(greatest(c.reltuples, 0), 0)::bigint as row_count,
       coalesce(pg_relation_size(nullif(c.reltoastrelid, 0)), 0)::bigint as out_of_line_bytes,
       (select array_agg(a.attname::text order by k.place)
        from unnest(u.indkey::int2[]) with ordinality k (attnum, place)
        join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
        where k.place <= u.indnkeyatts) as unique_key,
       (select jsonb_object_agg(a.attname, pg_get_expr(d.adbin, d.adrelid))
        from pg_attribute a join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where a.attrelid = c.oid and a.attgenerated = 'v') as expressions,
       (select jsonb_agg(jsonb_build_array(pn.nspname, p.relname, p.relreplident) order by pn.nspname, p.relname)
        from pg_partition_tree(c.oid) t join pg_class p on p.oid = t.relid
        join pg_namespace pn on pn.oid = p.relnamespace
        where t.isleaf and t.level > 0) as partitions
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_roles r on r.oid = c.relowner
left join lateral (
    select i.indkey, i.indnkeyatts from pg_index i
    where i.indrelid = c.oid and i.indisunique and i.indimmediate and i.indisvalid and not i.indisprimary
      and i.indpred is null and i.indexprs is null
      and not exists (select from pg_attribute a
                      where a.attrelid = c.oid and a.attnum = any(i.indkey[0:i.indnkeyatts - 1]) and not {IS_NOT_NULL})
    order by i.indnkeyatts, i.indexrelid
    limit 1
) u on true
where c.oid = any(cast(:source_ids as oid[]))
"""


def read_members(connection: Connection) -> tuple[MemberFacts, ...]:
    """Return the members of the log, and the instances of the last month whose tables were dropped.

    An article outlives its table.
    """
    return make_once("members", lambda: (*_read_present(connection), *_read_dropped(connection)))


def _read_present(connection: Connection) -> Iterator[MemberFacts]:
    rows = connection.execute(text(_PRESENT)).all()
    tables = {table.source_id: table for table in read_tables(connection, [row.source_table_id for row in rows])}
    for row in rows:
        table = tables.get(row.source_table_id)
        yield MemberFacts(row.feature, row.name, row.source_schema, row.source_name, table, row.has_namesake)


def _read_dropped(connection: Connection) -> Iterator[MemberFacts]:
    """Not every role may read them."""
    if not connection.execute(text(_MAY_READ_DROPPED)).scalar_one():
        return
    for row in connection.execute(text(_DROPPED)):
        yield MemberFacts(
            row.feature, row.name, row.source_schema, row.source_name, None, row.has_namesake, row.dropped_at
        )


_HAS_NAMESAKE = """
exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = m.source_schema and c.relname = m.source_name and c.relkind in ('r', 'p', 'f', 'v', 'm')
          and (m.feature, c.oid::bigint) not in (
              select other.feature, other.source_table_id from rowtide.members other
              where other.source_table_id is not null and other.feature is not null)) as has_namesake
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
