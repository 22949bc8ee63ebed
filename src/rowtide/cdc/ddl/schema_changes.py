"""The effects of the log's events on instances: they begin, change columns by DDL, and end; and the history's entries.
Pure.

The set of captured columns is fixed: a new column is ignored, a dropped one is null from then on, a renamed one keeps
its captured name, a generated one that becomes ordinary has values from then on. Types and the table's name follow the
table. Event triggers record the statements; without them, differences between the log's descriptions of the table are
recorded, as generated statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rowtide.cdc.change_columns import column_type, find_indexes
from rowtide.cdc.definitions import FEATURE
from rowtide.cdc.instances import CapturedColumn, Instance, SeenColumn, decode_instance
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import ColumnShape, TableShape
from rowtide.core.values import frozen
from rowtide.databases.postgres import values
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.values import is_wider_number
from rowtide.log.membership import Alteration, Altered, AlteredColumn, Disabled, Enabled, Reshaped
from rowtide.log.store.state import ManifestState, events_between

_WIDER_BY_DATABASE = {"postgres": is_wider_number}


def only_widens(before: Instance, after: Instance, alteration: Alteration) -> bool:
    """Return whether a statement that rewrote an instance's table kept the value of every captured column.

    It did if only the server's own casts rewrote it, and each changed type is numeric and became a wider one.
    """
    pairs = zip(before.columns, after.columns, strict=True)
    return alteration.casts_alone and all(_is_as_it_was(before, old, new) for old, new in pairs)


def _is_as_it_was(instance: Instance, old: CapturedColumn, new: CapturedColumn) -> bool:
    if (old.type_code, old.type_modifier) == (new.type_code, new.type_modifier):
        return True
    is_wider = _WIDER_BY_DATABASE[instance.database_kind]
    return is_wider((old.type_code, old.value_type_text), (new.type_code, new.value_type_text))


_TYPES_BY_CODE = {"postgres": values.describe_code}


@frozen
class InstanceSchemaChange:
    """What one statement did to an instance, which is `instance` from then on.

    `required_column_update`: a column of the change table changes its type. `is_inferred`: no event trigger recorded
    the statement, `command` describes the difference. `rewrites_values`: values may have changed without change rows.
    """

    instance: Instance
    lsn: CommitLsn
    command: str
    required_column_update: bool
    is_inferred: bool = False
    rewrites_values: bool = False


def follow_alteration(instance: Instance, lsn: CommitLsn, alteration: Alteration) -> InstanceSchemaChange | None:
    """Return the effect of a recorded statement on an instance of its table.

    None if the statement altered a parent, or a type, in a way that the table does not inherit, such as its name; and
    if it was inferred, unless columns were renamed or the key was lost: the rest is inferred from the next rows.
    """
    key_lost_at = _find_key_loss(instance, lsn, alteration)
    if alteration.is_inferred:
        if alteration.renames:
            return _follow_renames(instance, lsn, alteration)
        if key_lost_at == instance.key_lost_at:
            return None
        after = replace(instance, key_lost_at=key_lost_at)
        return InstanceSchemaChange(after, lsn, alteration.statement, required_column_update=False, is_inferred=True)
    by_number = {column.number: column for column in alteration.columns}
    after = replace(
        instance,
        source_schema=alteration.schema,
        source_table=alteration.table,
        columns=tuple(_recorded(column, by_number.get(column.column_id), lsn) for column in instance.columns),
        seen_columns=tuple(
            SeenColumn(column.name, column.type_code, column.type_modifier, is_generated=column.is_generated)
            for column in alteration.columns
        ),
        key_lost_at=key_lost_at,
    )
    if alteration.is_inherited and after == instance and not (alteration.rewrites_values or alteration.moves_rows):
        return None
    return InstanceSchemaChange(
        instance=after,
        lsn=lsn,
        command=alteration.statement,
        required_column_update=changes_types(instance, after),
        rewrites_values=_rewrites_values(instance, after, alteration),
    )


def _find_key_loss(instance: Instance, lsn: CommitLsn, alteration: Alteration) -> int | None:
    """Return the LSN from which on rows may have equal keys.

    A lost key cannot be regained, because nothing distinguishes the rows in between; but a transaction may replace a
    key.
    """
    key = {column.column_id for column in instance.index_columns}
    if alteration.keys is None or not key or instance.key_lost_at not in (None, lsn.value):
        return instance.key_lost_at
    return None if any(key.issuperset(each) for each in alteration.keys) else lsn.value


def _rewrites_values(before: Instance, after: Instance, alteration: Alteration) -> bool:
    """Return whether values or rows may have changed without a change row."""
    is_rewritten = alteration.rewrites_values and not only_widens(before, after, alteration)
    return is_rewritten or alteration.moves_rows or _empties_column(before, after, alteration)


def _empties_column(before: Instance, after: Instance, alteration: Alteration) -> bool:
    """Return whether a captured column of a table without a key is dropped.

    Its values become null without change rows, so rows that are identified only by all of their values can no longer be
    found.
    """
    if before.index_columns:
        return False
    present = {column.number: column.name for column in alteration.columns}
    missing = [column for column in before.columns if column.column_id not in present]
    remaining = {column.name for column in after.seen_columns}
    is_fewer = any(column.name not in remaining for column in before.seen_columns)
    return bool(missing) and (is_fewer or any(column.name in remaining for column in missing))


def _follow_renames(instance: Instance, lsn: CommitLsn, alteration: Alteration) -> InstanceSchemaChange:
    """Only renames are known; other changes are inferred from the next rows."""
    names = dict(alteration.renames)
    seen = tuple(replace(column, name=names.get(column.name, column.name)) for column in instance.seen_columns)
    after = replace(instance, seen_columns=seen)
    return InstanceSchemaChange(after, lsn, alteration.statement, required_column_update=False, is_inferred=True)


def follow_shape(instance: Instance, lsn: CommitLsn, shape: TableShape) -> Sequence[InstanceSchemaChange]:
    """Return the differences of an instance's table from a description of it; none if all statements were recorded."""
    changes: list[InstanceSchemaChange] = []
    instance = _drop_missing(instance, lsn, shape)
    for command, after in _differences(instance, shape):
        before = changes[-1].instance if changes else instance
        is_dropped = not instance.index_columns and len(after.seen_columns) < len(before.seen_columns)
        changes.append(
            InstanceSchemaChange(
                after, lsn, command, changes_types(before, after), is_inferred=True, rewrites_values=is_dropped
            )
        )
    return changes


def _drop_missing(instance: Instance, lsn: CommitLsn, shape: TableShape) -> Instance:
    """Return an instance with the columns marked that a description of its table has not any more."""
    if not instance.seen_columns or shape.others is None:
        return instance
    indexes = find_indexes(instance, shape)
    columns = (
        column
        if column.is_computed or column.name in indexes or column.dropped_at is not None
        else replace(column, dropped_at=lsn.value)
        for column in instance.columns
    )
    return replace(instance, columns=tuple(columns))


def changes_types(before: Instance, after: Instance) -> bool:
    """Return whether a column of the change table changes its type."""
    return [column_type(before, column) for column in before.columns] != [
        column_type(after, column) for column in after.columns
    ]


def _recorded(captured: CapturedColumn, column: AlteredColumn | None, lsn: CommitLsn) -> CapturedColumn:
    if column is None:
        return captured if captured.dropped_at is not None else replace(captured, dropped_at=lsn.value)
    return replace(
        captured,
        type_text=column.type_text,
        type_code=column.type_code,
        type_modifier=column.type_modifier,
        base_type_text=column.base_type_text,
        is_computed=column.is_generated,
    )


def _differences(instance: Instance, shape: TableShape) -> Iterator[tuple[str, Instance]]:
    """Yield the statements that lead to a shape, one after the other, and the instance after each."""
    # The rename comes first, because the statements after it use the new name.
    known, table = (instance.source_schema, instance.source_table), (shape.schema, shape.name)
    if known != table:
        instance = replace(instance, source_schema=shape.schema, source_table=shape.name)
        yield f"alter table {quote_qualified(*known)} rename to {quote_qualified(*table)}", instance
    for action, after in _column_differences(instance, shape):
        yield f"alter table {quote_qualified(*table)} {action}", after


def _column_differences(instance: Instance, shape: TableShape) -> Iterator[tuple[str, Instance]]:
    """Compare columns by name. Generated ones may or may not be in the log."""
    if not instance.seen_columns or shape.others is None:
        return
    # By name, because the log's descriptions have no column numbers: a column that was dropped and added again with the
    # same name looks like a change of type.
    present = {column.name: column for column in (*shape.columns, *shape.others)}
    for gone in instance.seen_columns:
        if gone.name not in present and not gone.is_generated:
            instance = _see(instance, gone.name)
            yield f"drop column {quote(gone.name)}", instance
    seen = {column.name: column for column in instance.seen_columns}
    for name, column in present.items():
        type_text = _TYPES_BY_CODE[instance.database_kind](column.type_code, column.type_modifier)
        if name not in seen:
            instance = _see(instance, name, column)
            yield f"add column {quote(name)} {type_text}", instance
        elif (seen[name].type_code, seen[name].type_modifier) != (column.type_code, column.type_modifier):
            instance = _retype(_see(instance, name, column), shape, column, type_text)
            yield f"alter column {quote(name)} type {type_text}", instance


def _see(instance: Instance, name: str, column: ColumnShape | None = None) -> Instance:
    """Record a column's present state, or that it is gone (None)."""
    others = tuple(seen for seen in instance.seen_columns if seen.name != name)
    new = (SeenColumn(name, column.type_code, column.type_modifier),) if column is not None else ()
    return replace(instance, seen_columns=(*others, *new))


def _retype(instance: Instance, shape: TableShape, column: ColumnShape, type_text: str) -> Instance:
    indexes = find_indexes(instance, shape)
    columns = (
        replace(
            captured,
            type_text=type_text,
            type_code=column.type_code,
            type_modifier=column.type_modifier,
            base_type_text=None,
        )
        if captured.name in indexes and shape.columns[indexes[captured.name]] is column
        else captured
        for captured in instance.columns
    )
    return replace(instance, columns=tuple(columns))


@frozen
class InstanceLifetime:
    """A capture instance and the LSNs that it captures: after `begin`, before `end` (None: it is still enabled)."""

    instance: Instance
    begin: CommitLsn
    end: CommitLsn | None = None

    def contains(self, lsn: CommitLsn) -> bool:
        return self.begin < lsn and (self.end is None or lsn < self.end)


@frozen
class AlteredInstance:
    """An instance whose table was altered, as of the last such transaction, at `lsn`."""

    lifetime: InstanceLifetime
    lsn: CommitLsn


@frozen
class AppliedEvents:
    """The lifetimes that overlap a range, as of its end, and the schema changes of instances that are still enabled."""

    lifetimes: tuple[InstanceLifetime, ...]
    history: tuple[InstanceSchemaChange, ...]


def apply_events(
    state: ManifestState, active: Mapping[str, InstanceLifetime], from_position: Position, to_position: Position
) -> AppliedEvents:
    """Apply the events of a range to the lifetimes that are active at its start, by member id."""
    lifetimes = dict(active)
    of_table: dict[int, list[str]] = {}
    for member_id, lifetime in lifetimes.items():
        of_table.setdefault(lifetime.instance.source_id, []).append(member_id)
    history: list[InstanceSchemaChange] = []
    for event in events_between(state, from_position, to_position):
        if isinstance(event, Enabled) and event.member.feature == FEATURE:
            instance = decode_instance(event.member.definition)
            lifetimes[instance.member_id] = InstanceLifetime(instance, event.commit_lsn)
            of_table.setdefault(instance.source_id, []).append(instance.member_id)
        elif isinstance(event, Disabled) and event.member_id in lifetimes:
            lifetimes[event.member_id] = replace(lifetimes[event.member_id], end=event.commit_lsn)
        elif isinstance(event, Altered | Reshaped):
            members = of_table.get(_source_id(state, event), ())
            changes = [
                change for member_id in members for change in _schema_changes(state, lifetimes[member_id], event)
            ]
            for change in changes:
                member_id = change.instance.member_id
                lifetimes[member_id] = replace(lifetimes[member_id], instance=change.instance)
            history += changes
    is_over = {member_id: lifetime.end is not None for member_id, lifetime in lifetimes.items()}
    return AppliedEvents(
        tuple(lifetimes.values()), tuple(change for change in history if not is_over[change.instance.member_id])
    )


def _source_id(state: ManifestState, event: Altered | Reshaped) -> int:
    """Return the table of an event."""
    return event.alteration.source_id if isinstance(event, Altered) else state.tables[event.table_id].shape.source_id


def _schema_changes(
    state: ManifestState, lifetime: InstanceLifetime, event: Altered | Reshaped
) -> Sequence[InstanceSchemaChange]:
    """Return how an event of an instance's table changes the instance."""
    instance, lsn = lifetime.instance, event.commit_lsn
    if not lifetime.contains(lsn):
        return ()
    if isinstance(event, Altered):
        change = follow_alteration(instance, lsn, event.alteration)
        return (change,) if change is not None else ()
    return follow_shape(instance, lsn, state.tables[event.table_id].shape)


def find_altered(applied: AppliedEvents, active: Mapping[str, InstanceLifetime]) -> Iterator[AlteredInstance]:
    """Yield the instances that were active before the range and whose tables were altered in it."""
    last = {change.instance.member_id: change.lsn for change in applied.history}
    for lifetime in applied.lifetimes:
        member_id = lifetime.instance.member_id
        if member_id in active and member_id in last:
            yield AlteredInstance(lifetime, last[member_id])
