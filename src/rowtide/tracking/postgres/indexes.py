"""Indexes that are built while the table is written."""

from __future__ import annotations

from sqlalchemy import Connection, text

from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.tracking.postgres.alterations import Alterations
from rowtide.tracking.postgres.subject import Subject


def build_index(
    alterations: Alterations, subject: Subject, index: tuple[str, str], definition: str, *, is_unique: bool = False
) -> None:
    """Build an index of a tracked table, or of what belongs to it, where there is none; one half built is built anew.

    `index` is its schema and name; `definition` begins with `on`. A partitioned table is locked meanwhile: PostgreSQL
    cannot build its indexes beside writers.
    """
    validity = alterations.run(subject.name, lambda connection: is_valid(connection, index))
    beside = "" if subject.is_partitioned else "concurrently "
    if validity is False:
        alterations.run_alone(statement(f"drop index {beside}{quote_qualified(*index)}"))
    if not validity:
        kind = "unique index" if is_unique else "index"
        alterations.tell(f"Building an index of {subject.name} ...")
        alterations.run_alone(statement(f"create {kind} {beside}{quote(index[1])} {definition}"))


def is_valid(connection: Connection, index: tuple[str, str]) -> bool | None:
    """Return whether an index is whole, None where there is none."""
    asked = text("select indisvalid from pg_index where indexrelid = to_regclass(:name)")
    found = connection.execute(asked, {"name": quote_qualified(*index)}).scalar()
    return None if found is None else bool(found)
