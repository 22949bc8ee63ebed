"""Infers renamed columns without event triggers, from attribute numbers, which the catalogue never reuses.

A Relation message lists names in the order of the numbers, without the numbers. A needed column that it lacks was
dropped or renamed; needed columns in another order swapped names. The catalogue, read later, still has the numbers of
the renamed columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rowtide.core.tables import ColumnShape
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.type_codes import describe_code
from rowtide.databases.source_table import SourceColumn, SourceTable
from rowtide.log.alterations import Alteration, AlteredColumn, as_altered
from rowtide.log.membership import Member
from rowtide.log.postgres.pgoutput.column_numbers import are_in_order, name_columns
from rowtide.log.postgres.pgoutput.messages import Relation

Present = Mapping[int, SourceTable | None]
"""Tables as the catalogue has them, by oid; None is a dropped table."""


class TableWanted(Exception):
    """A table lacks needed columns: decode again with the table as the catalogue has it now."""

    def __init__(self, source_id: int) -> None:
        super().__init__(source_id)
        self.source_id = source_id


@dataclass(frozen=True, slots=True)
class Unclear:
    """Rows of a table that `member_ids` cannot read: which of the log's columns are theirs cannot be determined."""

    member_ids: tuple[str, ...]
    reason: str


def _needed(ours: Iterable[Member]) -> dict[int, str]:
    """Return the columns that a table's members need: their names for them, by numbers."""
    return dict(pair for member in ours for pair in zip(member.column_numbers, member.columns, strict=False))


def infer_renames(relation: Relation, members: Iterable[Member], present: Present) -> Alteration | Unclear | None:
    """Return the renames of needed columns, None if there are none; `Unclear` if they cannot be determined.

    Raises `TableWanted`.
    """
    ours = [member for member in members if member.source_id == relation.oid]
    described, needed = [column.name for column in relation.columns], _needed(ours)
    if are_in_order(described, needed):
        return None
    if relation.oid not in present:
        raise TableWanted(relation.oid)
    table = present[relation.oid]
    if table is None:
        return None
    computed = {number for member in ours for number in member.computed_numbers}
    names = name_columns(described, needed, table, computed)
    unclear = [number for number, name in names.items() if name is None]
    if unclear:
        return _tell_unclear(ours, unclear, needed, table, described)
    renamed = {needed[number]: name for number, name in names.items() if name not in (None, needed[number])}
    return _rename(relation, table, needed, renamed) if renamed else None


def _tell_unclear(
    ours: Iterable[Member],
    unclear: Sequence[int],
    needed: Mapping[int, str],
    table: SourceTable,
    described: Iterable[str],
) -> Unclear:
    now = {column.number: column.name for column in table.columns}
    columns = ", ".join(f"{needed[number]} (now {now.get(number, 'dropped')})" for number in unclear)
    concerned = tuple(member.member_id for member in ours if not set(unclear).isdisjoint(member.column_numbers))
    reason = f"columns were renamed before the log was read, and it has {', '.join(described)}: which is {columns}?"
    return Unclear(concerned, reason)


def _rename(
    relation: Relation, table: SourceTable, needed: Mapping[int, str], renamed: Mapping[str, str]
) -> Alteration:
    actions = (f"rename column {quote(before)} to {quote(now)}" for before, now in renamed.items())
    name = quote_qualified(relation.schema, relation.name)
    described = {column.name: column for column in relation.columns}
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
    """Return the columns that the table had: the needed ones, also if dropped since, and others by their names."""
    now = {column.number: column for column in table.columns}
    known = {number: name for number, name in needed.items() if name in described}
    others = {number: column.name for number, column in now.items() if number not in needed}
    # A newer column may have the name of one that was dropped since.
    known |= {number: name for number, name in others.items() if name not in known.values() and name in described}
    unlogged = {number: column for number, column in now.items() if column.is_generated and number not in known}
    found = [_of_shape(number, described[name], now.get(number)) for number, name in known.items()]
    found += [as_altered(column) for column in unlogged.values()]
    return tuple(sorted(found, key=lambda column: column.number))


def _of_shape(number: int, shape: ColumnShape, column: SourceColumn | None) -> AlteredColumn:
    if column is not None and (shape.type_code, shape.type_modifier) == (column.type_code, column.type_modifier):
        return replace(as_altered(column), name=shape.name)
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
