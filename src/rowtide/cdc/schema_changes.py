"""What DDL on its table makes of an instance, and what its history says of it. Pure.

The set of captured columns is fixed: one that is new is ignored, one that is dropped is null from there on, a renamed
one goes on under its captured name. Only types follow, and the table's name. Event triggers tell what was done; where
there are none, what the log's descriptions of the table differ in is told, as statements of our own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rowtide.cdc.column_places import find_places
from rowtide.cdc.definitions import CapturedColumn, Instance, SeenColumn
from rowtide.cdc.expressions import column_type
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import ColumnShape, TableShape
from rowtide.databases.postgres import type_codes
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.log.alterations import Alteration, AlteredColumn

_TYPES_BY_CODE = {"postgres": type_codes.describe_code}


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """What one statement did to an instance, which is `instance` from then on.

    `required_column_update`: a column of the change table changes its type. `is_inferred`: nobody told the statement,
    `command` describes the difference. `rewrites_values`: values may have changed without change rows.
    """

    instance: Instance
    lsn: CommitLsn
    command: str
    required_column_update: bool
    is_inferred: bool = False
    rewrites_values: bool = False


def follow_alteration(instance: Instance, lsn: CommitLsn, alteration: Alteration) -> SchemaChange:
    """Return what a statement that was told does to an instance of its table."""
    by_number = {column.number: column for column in alteration.columns}
    after = replace(
        instance,
        source_schema=alteration.schema,
        source_table=alteration.table,
        columns=tuple(_told(column, by_number.get(column.column_id)) for column in instance.columns),
        seen_columns=tuple(
            SeenColumn(column.name, column.type_code, column.type_modifier, is_generated=column.is_generated)
            for column in alteration.columns
        ),
    )
    return SchemaChange(
        instance=after,
        lsn=lsn,
        command=alteration.statement,
        required_column_update=changes_types(instance, after),
        rewrites_values=alteration.rewrites_values,
    )


def follow_shape(instance: Instance, lsn: CommitLsn, shape: TableShape) -> Sequence[SchemaChange]:
    """Return what is new in a description of an instance's table; nothing where all of it was told."""
    changes: list[SchemaChange] = []
    for command, after in _differences(instance, shape):
        before = changes[-1].instance if changes else instance
        changes.append(SchemaChange(after, lsn, command, changes_types(before, after), is_inferred=True))
    return changes


def changes_types(before: Instance, after: Instance) -> bool:
    """Tell whether a column of the change table gets another type."""
    return [column_type(before, column) for column in before.columns] != [
        column_type(after, column) for column in after.columns
    ]


def _told(captured: CapturedColumn, column: AlteredColumn | None) -> CapturedColumn:
    if column is None:
        return captured
    return replace(
        captured,
        type_text=column.type_text,
        type_code=column.type_code,
        type_modifier=column.type_modifier,
        base_type_text=column.base_type_text,
    )


def _differences(instance: Instance, shape: TableShape) -> Iterator[tuple[str, Instance]]:
    """Yield one statement after the other that leads to a shape, and the instance after it."""
    table = quote_qualified(instance.source_schema, instance.source_table)
    renamed = quote_qualified(shape.schema, shape.name)
    if table != renamed:
        instance = replace(instance, source_schema=shape.schema, source_table=shape.name)
        yield f"alter table {table} rename to {renamed}", instance
    seen = {column.name: column for column in instance.seen_columns}
    present = {column.name: column for column in (*shape.columns, *(shape.others or ()))}
    if not seen or shape.others is None:
        return
    for gone in [column for column in seen.values() if column.name not in present and not column.is_generated]:
        del seen[gone.name]
        instance = replace(instance, seen_columns=tuple(seen.values()))
        yield f"alter table {renamed} drop column {quote(gone.name)}", instance
    for column in present.values():
        known = seen.get(column.name)
        seen[column.name] = SeenColumn(column.name, column.type_code, column.type_modifier)
        described = _TYPES_BY_CODE[instance.database_kind](column.type_code, column.type_modifier)
        if known is None:
            instance = replace(instance, seen_columns=tuple(seen.values()))
            yield f"alter table {renamed} add column {quote(column.name)} {described}", instance
        elif (known.type_code, known.type_modifier) != (column.type_code, column.type_modifier):
            instance = _retype(replace(instance, seen_columns=tuple(seen.values())), shape, column, described)
            yield f"alter table {renamed} alter column {quote(column.name)} type {described}", instance


def _retype(instance: Instance, shape: TableShape, column: ColumnShape, type_text: str) -> Instance:
    places = find_places(instance, shape)
    columns = (
        replace(
            captured,
            type_text=type_text,
            type_code=column.type_code,
            type_modifier=column.type_modifier,
            base_type_text=None,
        )
        if captured.name in places and shape.columns[places[captured.name]] is column
        else captured
        for captured in instance.columns
    )
    return replace(instance, columns=tuple(columns))
