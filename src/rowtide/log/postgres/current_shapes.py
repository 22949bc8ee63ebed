"""Tables of the catalogue as the log would describe them."""

from __future__ import annotations

from rowtide.core.tables import ColumnShape, ImageKind, TableShape
from rowtide.databases.source_table import SourceTable
from rowtide.log.postgres.membership import DEFAULT_IDENTITY, FULL_IDENTITY, INDEX_IDENTITY


def shape_of(table: SourceTable) -> TableShape:
    """Return the shape in which the log would show a table now."""
    names = {DEFAULT_IDENTITY: table.key_name, INDEX_IDENTITY: table.identity_index}
    index = table.find_index(names.get(table.identity))
    key = index.columns if index is not None else ()
    columns = tuple(
        ColumnShape(column.name, column.type_code, column.type_modifier, column.name in key, column.number)
        for column in table.columns
    )
    identity = ImageKind.FULL if table.identity == FULL_IDENTITY else ImageKind.KEY
    return TableShape(table.source_id, table.schema, table.name, identity, columns)
