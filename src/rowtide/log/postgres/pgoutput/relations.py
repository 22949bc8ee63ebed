"""The connection's state: tables as last described, members, and the numbers of the table versions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rowtide.core.tables import ColumnShape, LoggedTable, TableShape
from rowtide.core.values import frozen
from rowtide.log.announcements import Alteration
from rowtide.log.membership import Member, follow_alteration, needed_columns
from rowtide.log.postgres.pgoutput.inferring import Types, Unclear
from rowtide.log.postgres.pgoutput.messages import Relation, is_control


@frozen
class RowLayout:
    """The columns of a table's rows in the log, and those that are kept.

    `kept` are the places, among the log's columns, of the shape's columns; a layout without a shape is of a table that
    no member needs.
    """

    column_count: int
    kept: tuple[int, ...]
    shape: TableShape | None


@frozen
class LayoutChange:
    """Rows of a table have this layout from a message of the batch on."""

    oid: int
    message: int
    layout: RowLayout


class Relations:
    """The tables as last described, each with the layout that follows from the present members.

    `announces_ddl`: event triggers announce alterations. `shapes` are those of rows before this connection.
    """

    def __init__(
        self,
        members: Iterable[Member],
        *,
        announces_ddl: bool,
        shapes: Iterable[TableShape] = (),
    ) -> None:
        self.announces_ddl = announces_ddl
        self._members = {member.member_id: member for member in members}
        self._relations: dict[int, Relation] = {}
        self._layouts: dict[int, RowLayout] = {}
        self._types = {shape.source_id: _types(shape.columns) for shape in shapes}
        self.unclear: dict[int, Unclear] = {}

    def copy(self) -> Relations:
        """Return an independent copy."""
        other = Relations(self.members, announces_ddl=self.announces_ddl)
        other._relations, other._layouts = self._relations.copy(), self._layouts.copy()
        other._types = self._types.copy()
        other.unclear = self.unclear.copy()
        return other

    @property
    def control_ids(self) -> frozenset[int]:
        """The oids of the table of announcements; it may have been created again."""
        return frozenset(oid for oid, relation in self._relations.items() if is_control(relation))

    def find_control(self, oid: int) -> Relation | None:
        """Return the table of announcements, if a table is it now."""
        relation = self._relations.get(oid)
        return relation if relation is not None and is_control(relation) else None

    @property
    def members(self) -> tuple[Member, ...]:
        return tuple(self._members.values())

    @property
    def described_ids(self) -> frozenset[int]:
        """The oids of the tables that were described."""
        return frozenset(self._relations)

    def is_as_described(self, relation: Relation) -> bool:
        """Whether a table was described like this before, and its members read it so."""
        return self._relations.get(relation.oid) == relation and relation.oid not in self.unclear

    def types_of(self, oid: int) -> Types:
        """Return the types of a table's columns before its next description; none if those are not known, or were
        altered since by a statement that was announced.
        """
        return self._types.get(oid, {})

    def name(self, oid: int) -> str:
        """Return a table's name for messages; of one that was never described its oid."""
        relation = self._relations.get(oid)
        return f"the table with oid {oid}" if relation is None else f"{relation.schema}.{relation.name}"

    def name_all(self) -> str:
        """Return the names of the tables that were described, as alternatives."""
        return " or ".join(sorted(self.name(oid) for oid in self._relations)) or "a table that was not described"

    def carried_layouts(self) -> list[LayoutChange]:
        """Return the layouts that apply at the start of a batch."""
        return [LayoutChange(oid, 0, layout) for oid, layout in self._layouts.items()]

    def describe(self, relation: Relation, message: int) -> list[LayoutChange]:
        """Process a Relation message; servers repeat it often, mostly unchanged."""
        if self._relations.get(relation.oid) == relation:
            return []
        self._relations[relation.oid] = relation
        self._types[relation.oid] = _types(relation.columns)
        return self._lay_out(relation.oid, message)

    def enable(self, member: Member, message: int) -> list[LayoutChange]:
        replaced = self.disable(member.member_id, message)  # an id twice in the log: the later one counts
        self._members[member.member_id] = member
        return replaced + self._lay_out(member.source_id, message)

    def disable(self, member_id: str, message: int) -> list[LayoutChange]:
        member = self._members.pop(member_id, None)
        return [] if member is None else self._lay_out(member.source_id, message)

    def alter(self, alteration: Alteration, message: int) -> list[LayoutChange]:
        """Apply an alteration to the members; the server describes the table again before its next row."""
        self._members = {key: follow_alteration(member, alteration) for key, member in self._members.items()}
        self._types.pop(alteration.source_id, None)
        return self._lay_out(alteration.source_id, message)

    def _lay_out(self, oid: int, message: int) -> list[LayoutChange]:
        relation = self._relations.get(oid)
        if relation is None:
            return []
        layout = lay_out(relation, self.members)
        if self._layouts.get(oid) == layout:
            return []
        self._layouts[oid] = layout
        return [LayoutChange(oid, message, layout)]


def _types(columns: Iterable[ColumnShape]) -> Types:
    return {column.name: (column.type_code, column.type_modifier) for column in columns}


def lay_out(relation: Relation, members: Iterable[Member]) -> RowLayout:
    """Keep the columns that a member needs; a needed column that the table lacks is omitted."""
    interested = [member for member in members if member.source_id == relation.oid]
    if not interested:
        return RowLayout(len(relation.columns), (), None)
    needed = needed_columns(interested, relation.oid)
    kept = tuple(place for place, column in enumerate(relation.columns) if column.name in needed)
    others = tuple(column for column in relation.columns if column.name not in needed)
    columns = tuple(_number(relation.columns[place], interested) for place in kept)
    shape = TableShape(relation.oid, relation.schema, relation.name, relation.identity, columns, others)
    return RowLayout(len(relation.columns), kept, shape)


def _number(column: ColumnShape, members: Iterable[Member]) -> ColumnShape:
    """The log has no column numbers; the members know that of the column of this name."""
    for member in members:
        if column.name in member.columns and member.column_numbers:
            return replace(column, number=member.column_numbers[member.columns.index(column.name)])
    return column


@frozen
class Resolved:
    """The version that rows of a shape have.

    `is_new` if it was assigned now; `is_reshaped` if the table's rows did not have it before on this connection.
    """

    version: LoggedTable
    is_new: bool
    is_reshaped: bool


class TableVersions:
    """Assigns table ids, each once: 1, 2, … over the whole log."""

    def __init__(self, versions: Iterable[LoggedTable]) -> None:
        known = sorted(versions, key=lambda version: version.table_id)
        self._latest = {version.shape.source_id: version for version in known}
        self._next_id = known[-1].table_id + 1 if known else 1
        # Empty at connect: a reader that died may have given out a version and not have stored the event of its use.
        self._last_used: dict[int, int] = {}

    def resolve(self, shape: TableShape) -> Resolved:
        """Return the table's latest version if it has this shape, else assign the next."""
        version = self._latest.get(shape.source_id)
        is_new = version is None or version.shape != shape
        if version is None or is_new:
            version = LoggedTable(self._next_id, shape)
            self._next_id += 1
            self._latest[shape.source_id] = version
        is_reshaped = self._last_used.get(shape.source_id) != version.table_id
        self._last_used[shape.source_id] = version.table_id
        return Resolved(version, is_new=is_new, is_reshaped=is_reshaped)
