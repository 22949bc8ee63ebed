"""Source tables and capture instances to begin a test with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rowtide.cdc.enabling.instances import as_member, define_instance
from rowtide.cdc.instances import Instance
from rowtide.cdc.requests import InstanceRequest
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages, ColumnShape, ImageKind, LoggedTable, TableShape
from rowtide.databases.source_table import SourceColumn, SourceIndex, SourceTable, TableKind
from rowtide.log.membership import Alteration, Enabled, as_altered

_TYPE_CODES = {"integer": 23, "text": 25, "bigint": 20}


def source_table(
    columns: Sequence[tuple[str, str]] = (("id", "integer"), ("name", "text")),
    *,
    name: str = "t1",
    key: Sequence[str] = ("id",),
    source_id: int = 16385,
    kind: TableKind = TableKind.ORDINARY,
    schema: str = "public",
    indexes: Sequence[SourceIndex] = (),
) -> SourceTable:
    return SourceTable(
        source_id=source_id,
        schema=schema,
        name=name,
        kind=kind,
        identity="d",
        identity_index=None,
        key_name=f"{name}_pkey" if key else None,
        columns=tuple(
            SourceColumn(
                number=number,
                name=column,
                type_code=_TYPE_CODES.get(type_text, 1043),
                type_modifier=-1,
                type_text=type_text,
                is_nullable=column not in key,
                is_generated=False,
                key_ordinal=list(key).index(column) + 1 if column in key else None,
            )
            for number, (column, type_text) in enumerate(columns, 1)
        ),
        indexes=(*([unique_index(f"{name}_pkey", *key)] if key else []), *indexes),
    )


def without(table: SourceTable, name: str) -> SourceTable:
    """Return the table without a column."""
    return replace(table, columns=tuple(column for column in table.columns if column.name != name))


def with_column(table: SourceTable, name: str, /, **changes: Any) -> SourceTable:
    """Return the table with a column changed, which keeps its number."""
    changed = (replace(column, **changes) if column.name == name else column for column in table.columns)
    return replace(table, columns=tuple(changed))


def with_added(table: SourceTable, name: str, *, is_generated: bool = False) -> SourceTable:
    """Return the table with another column, of the last one's type."""
    added = replace(table.columns[-1], number=9, name=name, is_generated=is_generated, key_ordinal=None)
    return replace(table, columns=(*table.columns, added))


def unique_index(name: str, *columns: str | None, **changes: Any) -> SourceIndex:
    """Return an index that can identify rows, but for what is changed."""
    usable = SourceIndex(name, columns, is_unique=True, is_immediate=True, is_partial=False, is_valid=True)
    return replace(usable, **changes)


def instance(
    member_id: str = "m1",
    *,
    table: SourceTable | None = None,
    name: str | None = None,
    columns: Sequence[str] = (),
    before_images: BeforeImages = BeforeImages.FULL,
    **options: Any,
) -> Instance:
    request = InstanceRequest(
        capture_instance=name, columns=tuple(columns) or None, before_images=before_images, **options
    )
    return define_instance(table or source_table(), request, member_id)


def enabled(lsn: int, made: Instance) -> Enabled:
    return Enabled(CommitLsn(lsn), as_member(made))


def shape_of(table: SourceTable, identity: ImageKind = ImageKind.FULL) -> TableShape:
    is_full = identity is ImageKind.FULL
    columns = tuple(
        ColumnShape(
            column.name, column.type_code, column.type_modifier, is_key=is_full or column.key_ordinal is not None
        )
        for column in table.columns
    )
    return TableShape(table.source_id, table.schema, table.name, identity, columns, others=())


def version_of(table: SourceTable, table_id: int = 1, identity: ImageKind = ImageKind.FULL) -> LoggedTable:
    return LoggedTable(table_id, shape_of(table, identity))


def alteration_of(table: SourceTable, *, statement: str = "alter …", rewrites_values: bool = False) -> Alteration:
    """Return what the log records of a statement after which a table is as given."""
    columns = tuple(map(as_altered, table.columns))
    return Alteration(table.source_id, table.schema, table.name, "ALTER TABLE", statement, rewrites_values, columns)
