"""The tables that SQL Server documents, read at any node; see `documented`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Table, select

from rowtide.merge.documented.names import STORED, view_names
from rowtide.merge.errors.inspection import DocumentedTableUnknown
from rowtide.merge.nodes.roles.schema import MergedTables
from rowtide.merge.progress import as_utc


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
    listed = sorted((*view_names(), *STORED))
    found = next((each for each in listed if each.lower() == name.lower()), None)
    if found is None:
        raise DocumentedTableUnknown(name, ", ".join(listed))
    if not node.tables.is_prepared():
        return DocumentedTable(found, (), ())
    columns, rows = _read_stored(node, STORED[found]) if found in STORED else node.tables.read_documented(found)
    return DocumentedTable(found, columns, [dict(zip(columns, row, strict=True)) for row in rows])


def _read_stored(node: MergedTables, table: Table) -> tuple[tuple[str, ...], Sequence[Sequence[object]]]:
    rows = node.connection.execute(select(table).order_by(*table.primary_key))
    return tuple(rows.keys()), [[as_utc(each) if isinstance(each, datetime) else each for each in row] for row in rows]


def read_rows(node: MergedTables, view: str, rowguids: Sequence[str]) -> list[Mapping[str, object]]:
    """Return the rows of a documented table that are of some rowguids, by column."""
    columns, rows = node.tables.read_documented(view, rowguids)
    return [dict(zip(columns, row, strict=True)) for row in rows]
