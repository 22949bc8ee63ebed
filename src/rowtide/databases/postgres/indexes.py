"""Indexes that are built while the table is written."""

from __future__ import annotations

from sqlalchemy import Connection, text

from rowtide.databases.postgres.alterations import Alterations
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.databases.source_table import SourceTable, TableKind


def build_index(
    alterations: Alterations, table: SourceTable, index: tuple[str, str], definition: str, *, is_unique: bool = False
) -> None:
    """Build an index of a table, or of what belongs to it, where there is none; one half built is built anew.

    `index` is its schema and name; `definition` begins with `on`. A partitioned table is locked meanwhile: PostgreSQL
    cannot build its indexes beside writers.
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
    """Return whether an index is whole, None where there is none."""
    asked = text("select indisvalid from pg_index where indexrelid = to_regclass(:name)")
    found = connection.execute(asked, {"name": quote_qualified(*index)}).scalar()
    return None if found is None else bool(found)
