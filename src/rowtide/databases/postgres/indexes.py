"""Build indexes concurrently."""

from __future__ import annotations

from sqlalchemy import Connection, text

from rowtide.databases.postgres.alterations import Alterations
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.databases.source_table import SourceTable, TableKind


def build_index(
    alterations: Alterations, table: SourceTable, index: tuple[str, str], definition: str, *, is_unique: bool = False
) -> None:
    """Build an index on a table or one of its metadata tables if it does not exist; rebuild an invalid one.

    `index` is its schema and name; `definition` starts with `on`. A partitioned table is locked during the build:
    PostgreSQL cannot build its indexes concurrently.
    """
    validity = alterations.run(table.qualified_name, lambda connection: is_valid(connection, index))
    beside = "" if table.kind is TableKind.PARTITIONED else "concurrently "
    if validity is False:
        alterations.run_alone(statement(f"drop index {beside}{quote_qualified(*index)}"))
    if not validity:
        kind = "unique index" if is_unique else "index"
        alterations.tell(f"Building an index of {table.qualified_name} ...")
        alterations.run_alone(statement(f"create {kind} {beside}{quote(index[1])} {definition}"))


def is_valid(connection: Connection, index: tuple[str, str]) -> bool | None:
    """Return whether an index is valid; None if it does not exist."""
    asked = text("select indisvalid from pg_index where indexrelid = to_regclass(:name)")
    found = connection.execute(asked, {"name": quote_qualified(*index)}).scalar()
    return None if found is None else bool(found)
