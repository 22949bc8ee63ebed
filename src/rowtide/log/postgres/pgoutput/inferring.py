"""Infers what altered a table that no event trigger reported, from attribute numbers, which the catalogue never reuses.

A Relation message lists the columns' names in the order of their numbers, without the numbers. A needed column that is
not listed was dropped or renamed; needed columns in another order swapped names; an unknown column was added. The
catalogue, read later, still has the numbers of renamed and added columns.

Rows of a table whose alteration cannot be determined are omitted (`Unclear`), never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise

from rowtide.core.tables import ColumnShape
from rowtide.core.values import frozen
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.values import describe_code
from rowtide.log.membership import Alteration, AlteredColumn, Member
from rowtide.log.postgres.pgoutput.messages import Relation


def are_in_order(described: Sequence[str], needed: Mapping[int, str]) -> bool:
    """Return whether a description has the needed columns in the order of their numbers; False if names were
    swapped.
    """
    indexes = {name: index for index, name in enumerate(described)}
    found = [indexes[needed[number]] for number in sorted(needed) if needed[number] in indexes]
    return len(found) == len(needed) and found == sorted(found)


def name_columns(
    described: Sequence[str], needed: Mapping[int, str], columns: Iterable[AlteredColumn], computed: Set[int]
) -> dict[int, str | None]:
    """Return the needed columns' names as described, by number; None if they cannot be determined.

    `needed` are the columns by the names that they had before the description; `columns` are the catalogue's later
    state. A column that is dropped by then has its earlier name, if the description lists it. `computed` are columns
    that were generated at some time, and were not in the log during it.

    A column that is needed and still exists was in the table throughout, and so was each existing column with a lower
    number. If no column before it can have been dropped since, its index follows from the numbers alone.
    """
    present = {column.number: column.name for column in columns if not column.is_generated}
    last = max((number for number in needed if number in present), default=0)
    steady = sorted(number for number in present if number <= last and number not in computed)
    indexes = _bound_indexes(described, needed, present, steady)
    is_ordered = _is_ascending([described.index(needed[n]) for n in sorted(needed) if needed[n] in described])
    names: dict[int, str | None] = {}
    for number, name in needed.items():
        if number in indexes:
            names[number] = _choose(described[slice(*indexes[number])], name, present[number], is_ordered=is_ordered)
        elif name in described:
            names[number] = name if is_ordered else None
    known = [name for name in names.values() if name is not None]
    return {number: name if known.count(name or "") == 1 else None for number, name in names.items()}


def _bound_indexes(
    described: Sequence[str], needed: Mapping[int, str], present: Mapping[int, str], steady: Sequence[int]
) -> dict[int, tuple[int, int]]:
    """Return the range of possible indexes, first and one past the last, of each column that was in the table
    throughout.
    """
    anchors = {
        number: described.index(needed[number])
        for number in steady
        if number in needed and needed[number] == present[number] and needed[number] in described
    }
    if not _is_ascending(list(anchors.values())):
        anchors = {}
    lowest: dict[int, int] = {}
    index = -1
    for number in steady:
        lowest[number] = index = max(index + 1, anchors.get(number, 0))
    highest: dict[int, int] = {}
    index = len(described)
    for number in reversed(steady):
        # Not more columns precede it than there are lower numbers.
        highest[number] = index = min(index - 1, number - 1, anchors.get(number, index))
    return {number: (lowest[number], highest[number] + 1) for number in steady}


def _choose(candidates: Sequence[str], before: str, now: str, *, is_ordered: bool) -> str | None:
    """Return the only candidate; of several the one with a name that the column had, unless names were swapped."""
    if len(candidates) == 1:
        return candidates[0]
    known = (name for name in (before, now) if name in candidates)
    return next(known, None) if is_ordered else None


def _is_ascending(indexes: Sequence[int]) -> bool:
    return all(one < other for one, other in pairwise(indexes))


Columns = tuple[AlteredColumn, ...]
"""The columns of a table as the catalogue has them."""
Present = Mapping[int, Columns | None]
"""Tables as the catalogue has them, by oid; None is a dropped table."""
Types = Mapping[str, tuple[int, int]]
"""Types and their modifiers, by column."""


@frozen
class KnownTables:
    """What is known of tables besides the log: `types` are the types in the table's earlier rows, empty if there are
    none.

    `is_same`: it was described identically before, on this connection. `announces_ddl`: triggers report statements, so
    columns that look the same are the same.
    """

    present: Present
    types: Types
    is_same: bool
    announces_ddl: bool


class TableWanted(Exception):
    """A table lacks needed columns: decode again with the table as the catalogue has it now."""

    def __init__(self, source_id: int) -> None:
        super().__init__(source_id)
        self.source_id = source_id


@frozen
class Unclear:
    """Rows of a table that `member_ids` cannot read: which of the log's columns are theirs cannot be determined."""

    member_ids: tuple[str, ...]
    reason: str


def _needed(ours: Iterable[Member]) -> dict[int, str]:
    """Return the columns that a table's members need: their names for them, by numbers."""
    return dict(pair for member in ours for pair in zip(member.column_numbers, member.columns, strict=False))


def infer_alteration(relation: Relation, members: Iterable[Member], known: KnownTables) -> Alteration | Unclear | None:
    """Return what altered a table since its members were described; None if nothing did.

    `Unclear` if that cannot be determined. Raises `TableWanted`.
    """
    ours = [member for member in members if member.source_id == relation.oid]
    described, needed = [column.name for column in relation.columns], _needed(ours)
    followers = [member for member in ours if member.takes_added]
    is_as_told = not followers or _is_as_announced(relation, followers, needed, known)
    if are_in_order(described, needed) and is_as_told:
        return None
    if relation.oid not in known.present:
        raise TableWanted(relation.oid)
    columns = known.present[relation.oid]
    if columns is None:
        return None
    computed = {number for member in ours for number in member.computed_numbers}
    names = name_columns(described, needed, columns, computed)
    unclear = [number for number, name in names.items() if name is None]
    if unclear:
        return _report_unclear(ours, unclear, needed, columns, described)
    if followers:
        reason = _find_doubt(described, needed, names, columns)
        if reason is not None:
            return Unclear(tuple(member.member_id for member in followers), reason)
    renamed = {needed[number]: name for number, name in names.items() if name not in (None, needed[number])}
    if not renamed and (not followers or _is_known(relation, followers, needed, columns, known)):
        return None
    return _alteration(relation, columns, needed, renamed)


def _is_as_announced(
    relation: Relation, followers: Sequence[Member], needed: Mapping[int, str], known: KnownTables
) -> bool:
    """Whether a description shows no column that members which take added columns do not have already."""
    names = needed.values()
    has_more = any(column.name not in names for column in relation.columns)
    shows_more = not known.is_same and (has_more or _differs(relation, followers, known.types))
    return known.announces_ddl and not shows_more


def _is_known(
    relation: Relation, followers: Sequence[Member], needed: Mapping[int, str], columns: Columns, known: KnownTables
) -> bool:
    """Whether a description without renamed columns has no added or dropped ones either, according to the catalogue."""
    described = {column.name for column in relation.columns}
    computed = {column.name for column in columns if column.is_generated}
    return described - computed == set(needed.values()) - computed and not _differs(relation, followers, known.types)


def _differs(relation: Relation, followers: Sequence[Member], types: Types) -> bool:
    """Whether the table has another name, or a column another type."""
    name = (relation.schema, relation.name)
    is_retyped = any(
        types.get(column.name, (column.type_code, column.type_modifier)) != (column.type_code, column.type_modifier)
        for column in relation.columns
    )
    return is_retyped or any((member.schema, member.table) != name for member in followers)


def _find_doubt(
    described: Sequence[str], needed: Mapping[int, str], names: Mapping[int, str | None], columns: Columns
) -> str | None:
    """Return why it is unknown whether the description's columns are those of the catalogue; None if it is known."""
    now = {column.name: column for column in columns}
    numbers = {column.number for column in columns}
    again = [name for number, name in needed.items() if number not in numbers and name in now and name in described]
    if again:
        return f"column {', '.join(again)} was dropped and added before the log was read"
    added = [name for name in described if name not in names.values() and not (name in now and now[name].is_generated)]
    gone = [name for name in added if name not in now or now[name].number in needed]
    if gone:
        return f"column {', '.join(gone)} was added, and renamed or dropped before the log was read"
    last = max((now[name].number for name in added), default=0)
    missing = set(range(max(needed, default=0) + 1, last)) - numbers
    # A name identifies a column's number only if no other column had that name.
    return f"columns beside {', '.join(added)} were added and dropped before the log was read" if missing else None


def _report_unclear(
    ours: Iterable[Member],
    unclear: Sequence[int],
    needed: Mapping[int, str],
    present: Columns,
    described: Iterable[str],
) -> Unclear:
    now = {column.number: column.name for column in present}
    columns = ", ".join(f"{needed[number]} (now {now.get(number, 'dropped')})" for number in unclear)
    concerned = tuple(member.member_id for member in ours if not set(unclear).isdisjoint(member.column_numbers))
    reason = f"columns were renamed before the log was read, and it has {', '.join(described)}: which is {columns}?"
    return Unclear(concerned, reason)


def _alteration(
    relation: Relation, present: Columns, needed: Mapping[int, str], renamed: Mapping[str, str]
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
        columns=_as_described(present, described, {number: renamed.get(name, name) for number, name in needed.items()}),
        renames=tuple(renamed.items()),
        is_inferred=True,
    )


def _as_described(present: Columns, described: Mapping[str, ColumnShape], needed: Mapping[int, str]) -> Columns:
    """Return the columns that the table had: the needed ones, also if dropped since, and others by their names."""
    now = {column.number: column for column in present}
    known = {number: name for number, name in needed.items() if name in described}
    others = {number: column.name for number, column in now.items() if number not in needed}
    # A newer column may have the name of one that has been dropped.
    known |= {number: name for number, name in others.items() if name not in known.values() and name in described}
    unlogged = {number: column for number, column in now.items() if column.is_generated and number not in known}
    found = [_of_shape(number, described[name], now.get(number)) for number, name in known.items()]
    found += unlogged.values()
    return tuple(sorted(found, key=lambda column: column.number))


def _of_shape(number: int, shape: ColumnShape, column: AlteredColumn | None) -> AlteredColumn:
    if column is not None and (shape.type_code, shape.type_modifier) == (column.type_code, column.type_modifier):
        return replace(column, name=shape.name)
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
