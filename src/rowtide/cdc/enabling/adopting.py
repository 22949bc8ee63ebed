"""Capture's part in adopting a moved database: its instances follow their tables, and are announced again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, Executable, select, update

from rowtide.cdc.definitions import FEATURE, are_made, captured_columns, change_tables, index_columns, list_enabled
from rowtide.cdc.enabling.reinitialize import announce_instances
from rowtide.cdc.enabling.table_rules import reconsider_steps
from rowtide.databases.postgres.alterations import Alterations
from rowtide.log.postgres.rebinding import NOWHERE, Rebound
from rowtide.log.source_definition import SourceDefinition


def list_names(connection: Connection) -> tuple[str, ...]:
    """Return the names of all instances, oldest first; none if capture is not enabled."""
    return tuple(enabled.capture_instance for enabled in list_enabled(connection)) if are_made(connection) else ()


def rebind_steps(connection: Connection, rebound: Sequence[Rebound]) -> list[Executable]:
    """Return the statements that record the present oids of tables and numbers of columns."""
    ours = [member for member in rebound if member.feature == FEATURE]
    return [*(step for member in ours for step in _rebind(connection, member)), *reconsider_steps(connection)]


def announce_again(alterations: Alterations, source: SourceDefinition) -> None:
    """Announce all instances again, each in a transaction."""
    announce_instances(alterations, source)


def _rebind(connection: Connection, member: Rebound) -> Iterator[Executable]:
    yield (
        update(change_tables)
        .where(change_tables.c.member_id == member.member_id)
        .values(source_object_id=member.source_id)
    )
    columns = member.table.columns if member.table is not None else ()
    numbers = {column.name: column.number for column in columns}
    for table, ordinal in ((captured_columns, "column_ordinal"), (index_columns, "index_ordinal")):
        rows = (select(table).join(change_tables, change_tables.c.object_id == table.c.object_id)).where(
            change_tables.c.member_id == member.member_id
        )
        for row in connection.execute(rows):
            name = member.column_names.get(row.column_id, row.column_name)
            place = (table.c.object_id == row.object_id, table.c[ordinal] == getattr(row, ordinal))
            yield update(table).where(*place).values(column_id=numbers.get(name, NOWHERE))
