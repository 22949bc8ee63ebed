"""The tables that SQL Server documents, read at any node; see `documented`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowtide.merge.documented.names import view_names
from rowtide.merge.errors import DocumentedTableUnknown
from rowtide.merge.nodes.node import Node


def read_table(node: Node, name: str) -> Sequence[Mapping[str, object]]:
    """Return the rows of a documented table, by column; the name in any case. Raises `DocumentedTableUnknown`."""
    listed = sorted(view_names())
    found = next((each for each in listed if each.lower() == name.lower()), None)
    if found is None:
        raise DocumentedTableUnknown(name, ", ".join(listed))
    return node.tables.read_documented(found) if node.tables.is_prepared() else ()
