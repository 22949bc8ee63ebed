"""The tables that SQL Server documents, read at any node; see `documented`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rowtide.merge.documented.names import view_names
from rowtide.merge.errors.inspection import DocumentedTableUnknown
from rowtide.merge.nodes.roles.schema import MergedTables


@dataclass(frozen=True, slots=True)
class DocumentedTable:
    """A documented table as it is now: its columns in the documented order, and its rows by column."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, object]]


def read_table(node: MergedTables, name: str) -> DocumentedTable:
    """Return a documented table by its name, in any case; without columns where nothing is merged.

    Raises `DocumentedTableUnknown`.
    """
    listed = sorted(view_names())
    found = next((each for each in listed if each.lower() == name.lower()), None)
    if found is None:
        raise DocumentedTableUnknown(name, ", ".join(listed))
    columns, rows = node.tables.read_documented(found) if node.tables.is_prepared() else ((), ())
    return DocumentedTable(found, columns, [dict(zip(columns, row, strict=True)) for row in rows])


def read_rows(node: MergedTables, view: str, rowguids: Sequence[str]) -> list[Mapping[str, object]]:
    """Return the rows of a documented table that are of some rowguids, by column."""
    columns, rows = node.tables.read_documented(view, rowguids)
    return [dict(zip(columns, row, strict=True)) for row in rows]
