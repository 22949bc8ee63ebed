"""The members' tables in a database that was restored from a dump: they have the same names, but other oids.

A copy of the server's files keeps all oids, including the publication's, which tells the two cases apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy import Connection, Executable, delete, select, text, update
from sqlalchemy.dialects.postgresql import insert

from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import read_tables
from rowtide.databases.source_table import SourceTable
from rowtide.log.catalogue import LOG, identities_table, members_table
from rowtide.log.membership import Member
from rowtide.log.postgres.membership import DEFAULT_IDENTITY
from rowtide.log.source_definition import SourceDefinition

NOWHERE = 0
"""An oid that no table has: recorded for a member whose table is missing."""


@frozen
class Rebound:
    """A member's table in this database, None if it is missing; `earlier_id` is the oid that was recorded.

    `column_names` are the columns' present names by the numbers under which they were recorded, as far as known.
    """

    member_id: str
    feature: str
    name: str
    earlier_id: int
    schema: str
    table_name: str
    table: SourceTable | None
    column_names: Mapping[int, str]

    @property
    def source_id(self) -> int:
        """The table's oid in this database."""
        return self.table.source_id if self.table is not None else NOWHERE


def find_rebound(
    connection: Connection, source: SourceDefinition, logged: Iterable[Member] = ()
) -> tuple[Rebound, ...] | None:
    """Return the members' tables, found by name; None if the oids are as recorded.

    `logged` are the members as the log knows them, with renamed tables and columns followed.
    """
    parameters = {"name": source.publication, "id": source.publication_id}
    if connection.execute(text(_KEEPS_OIDS), parameters).scalar_one():
        return None
    known = {member.member_id: member for member in logged}
    found = {(row.schema, row.name): row.oid for row in connection.execute(text(_CANDIDATES), parameters)}
    columns = members_table.c
    # The log's own table is created again instead.
    of_features = select(members_table).where(columns.feature != LOG)
    rows = connection.execute(of_features.order_by(columns.source_table_id, columns.member_id)).all()
    names = {row.member_id: _name(row.source_schema, row.source_name, known.get(row.member_id)) for row in rows}
    tables = {
        table.source_id: table
        for table in read_tables(connection, [found[name] for name in names.values() if name in found])
    }
    return tuple(
        Rebound(
            row.member_id,
            row.feature,
            row.name,
            row.source_table_id,
            *names[row.member_id],
            tables.get(found.get(names[row.member_id], NOWHERE)),
            _name_columns(known.get(row.member_id)),
        )
        for row in rows
    )


def rebind_steps(connection: Connection, rebound: Sequence[Rebound]) -> list[Executable]:
    """Return the statements that record the new oids of the members' tables."""
    moved: list[Executable] = [
        update(members_table)
        .where(members_table.c.member_id == member.member_id)
        .values(source_table_id=member.source_id, source_schema=member.schema, source_name=member.table_name)
        for member in rebound
    ]
    tables = {member.earlier_id: member.table for member in rebound if member.table is not None}
    recorded = connection.execute(select(identities_table)).all()
    identities = [
        insert(identities_table).values(
            source_table_id=holder_id, identity=identity, identity_index=index, captured_table_id=table.source_id
        )
        for row in recorded
        if (table := tables.get(row.source_table_id)) is not None
        for holder_id, identity, index in _identities(table, row.identity, row.identity_index)
    ]
    return [*moved, delete(identities_table), *identities]


def _identities(table: SourceTable, identity: str, index: str | None) -> Iterator[tuple[int, str, str | None]]:
    """Only the oids of partitions were recorded: each gets the replica identity of its root if it can have that one."""
    yield table.source_id, identity, index
    for partition in table.row_holders:
        yield partition.source_id, identity if index is None else DEFAULT_IDENTITY, None


def _name(schema: str, name: str, logged: Member | None) -> tuple[str, str]:
    return (logged.schema, logged.table) if logged is not None else (schema, name)


def _name_columns(logged: Member | None) -> dict[int, str]:
    if logged is None or not logged.column_numbers:
        return {}
    return dict(zip(logged.column_numbers, logged.columns, strict=True))


_KEEPS_OIDS = "select exists (select from pg_publication where pubname = :name and oid = :id)"

_CANDIDATES = """
select c.oid::bigint as oid, n.nspname::text as schema, c.relname::text as name
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p')
  and (not exists (select from pg_publication where pubname = :name)
       or exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
                  where p.pubname = :name and r.prrelid = c.oid))
"""
"""If the publication was restored too, it has exactly the members' tables: so a new table that has got the name of a
member's table does not match.
"""
