"""Columns that were renamed when no event trigger told: found by their numbers, which the catalogue never gives twice.

A description of a table in the log has names and no numbers. A needed column that it lacks was dropped or renamed; the
catalogue, read later, still has the number of one that was renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rowtide.core.tables import ColumnShape
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.type_codes import describe_code
from rowtide.databases.source_table import SourceColumn, SourceTable
from rowtide.log.alterations import Alteration, AlteredColumn
from rowtide.log.errors import RenameUnclear
from rowtide.log.membership import Member
from rowtide.log.postgres.pgoutput.messages import Relation

Present = Mapping[int, SourceTable | None]
"""Tables as the catalogue has them, by oid; None is one that was dropped."""


class TableWanted(Exception):
    """A table lacks needed columns: decode again with what the catalogue says of it now."""

    def __init__(self, source_id: int) -> None:
        super().__init__(source_id)
        self.source_id = source_id


def _needed(relation: Relation, members: Iterable[Member]) -> dict[int, str]:
    """Return the columns that members need of a table, as they know them: names by numbers."""
    ours = (member for member in members if member.source_id == relation.oid)
    return dict(pair for member in ours for pair in zip(member.column_numbers, member.columns, strict=False))


def infer_renames(relation: Relation, members: Iterable[Member], present: Present) -> Alteration | None:
    """Return what renamed needed columns, None where nothing did.

    Raises `TableWanted`; and `RenameUnclear` where a column has a third name by now: its name in the log cannot be told
    from a new column's.
    """
    described = {column.name: column for column in relation.columns}
    needed = _needed(relation, members)
    lacking = {number: name for number, name in needed.items() if name not in described}
    if lacking and relation.oid not in present:
        raise TableWanted(relation.oid)
    table = present[relation.oid] if lacking else None
    if table is None:
        return None
    names = {column.number: column.name for column in table.columns}
    renamed = {name: names[number] for number, name in lacking.items() if number in names}
    for before, now in renamed.items():
        if now not in described:
            raise RenameUnclear(f"{relation.schema}.{relation.name}", before, now, ", ".join(described))
    if not renamed:
        return None
    actions = (f"rename column {quote(before)} to {quote(now)}" for before, now in renamed.items())
    name = quote_qualified(relation.schema, relation.name)
    return Alteration(
        source_id=relation.oid,
        schema=relation.schema,
        table=relation.name,
        command="ALTER TABLE",
        statement="; ".join(f"alter table {name} {action}" for action in actions),
        rewrites_values=False,
        columns=_as_described(table, described, {number: renamed.get(name, name) for number, name in needed.items()}),
        renames=tuple(renamed.items()),
    )


def _as_described(
    table: SourceTable, described: Mapping[str, ColumnShape], needed: Mapping[int, str]
) -> tuple[AlteredColumn, ...]:
    """Return the columns that the table had: the needed ones, whatever became of them, and others by their names."""
    now = {column.number: column for column in table.columns}
    known = {number: name for number, name in needed.items() if name in described}
    others = {number: column.name for number, column in now.items() if number not in needed}
    # A newer column may have the name of one that was dropped since.
    known |= {number: name for number, name in others.items() if name not in known.values() and name in described}
    unlogged = {number: column for number, column in now.items() if column.is_generated and number not in known}
    found = [_of_shape(number, described[name], now.get(number)) for number, name in known.items()]
    found += [_of_catalogue(column) for column in unlogged.values()]
    return tuple(sorted(found, key=lambda column: column.number))


def _of_shape(number: int, shape: ColumnShape, column: SourceColumn | None) -> AlteredColumn:
    if column is not None and (shape.type_code, shape.type_modifier) == (column.type_code, column.type_modifier):
        return replace(_of_catalogue(column), name=shape.name)
    return AlteredColumn(
        number=number,
        name=shape.name,
        type_text=describe_code(shape.type_code, shape.type_modifier),
        type_code=shape.type_code,
        type_modifier=shape.type_modifier,
        base_type_text=None,
        is_nullable=True,
        is_generated=False,
        default=None,
    )


def _of_catalogue(column: SourceColumn) -> AlteredColumn:
    return AlteredColumn(
        number=column.number,
        name=column.name,
        type_text=column.type_text,
        type_code=column.type_code,
        type_modifier=column.type_modifier,
        base_type_text=column.base_type_text,
        is_nullable=column.is_nullable,
        is_generated=column.is_generated,
        default=None,
    )
