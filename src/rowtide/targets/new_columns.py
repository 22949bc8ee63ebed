"""Columns of a source's table that a target's table lacks: added, or handed over with a newer instance.

It is made by who applies the target and may enable tables, as `enable-table` makes one by hand: in one transaction,
with the options of the instance that is there, and a copy. Targets then go over to it (`hand_over`). What is in the way
is said with the command that helps.

Capture knows nothing of targets; who applies knows the options, and asks the rule by which it would go over before it
makes anything. Nobody's choice is undone: the present instance has to have been enabled with all columns, with a copy
and without a gating role. Without a second instance for each column a third one would have no room, as a table has two.
The price is a copy of the table for each added or renamed column, which any role that may alter the table can cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from sqlalchemy import Connection, Engine, Executable, text

from rowtide.cdc import access
from rowtide.cdc.definitions import EnabledTable, list_enabled, read_captured_columns, require_complete
from rowtide.cdc.enabling.instances import MAX_NAME_LENGTH, define_instance, list_superseded
from rowtide.cdc.enabling.postgres import plan_disable_briefly, plan_enable_table, repeat_request
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import ENABLED, RecordedInstance, read_first_definition
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.requests import InstanceRequest
from rowtide.cdc.snapshot_requests import OPEN, RequestState, SnapshotRequest, list_visible
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import LockMode
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.errors import translated
from rowtide.databases.source_table import SourceTable
from rowtide.events.catalogue import InstanceMade, InstanceNotEnded
from rowtide.events.event import emit
from rowtide.log.postgres.membership import MembershipChange, run_membership_changes
from rowtide.targets.definitions import Target, find_target, for_instance, own_names
from rowtide.targets.errors import ColumnsGated, ColumnsLeftOut, ColumnsNotCopied, NewColumnsNotFollowed
from rowtide.targets.options import TargetOptions

# Hand-over of a table to a newer instance of its source's table, which has more columns, or their present names. A
# column that is added to the source is not captured by the instances that are there, and a constant default makes no
# change rows: nothing but a copy of the table has all its values. So the table goes over at an LSN at which the newer
# instance's copy is complete, and is made equal to the source's table as of that LSN. It has all that the older
# instance captured until then, so that a history lacks no moment. A new target follows columns where that loses
# nothing: not with `--truncate keep`, whose rows a copy lacks, nor with a class, which names instances itself. Nobody
# gains a right by it: only the owner takes a target over, never to an instance with another gating role. Names are
# found by the columns' numbers. Renamed columns are renamed before the table is made equal, so that slices do not end
# for it; a Delta table's files are written again under the new name, since column mapping would lock out readers for
# good. SQL is not translated: where an expression has the old name, the target stays.


@frozen
class HandOver:
    """An instance of a target, and the one that takes its place."""

    old: Instance
    new: Instance


def find_hand_overs(
    target: Target,
    recorded: Mapping[str, RecordedInstance],
    at: CommitLsn,
    is_copied: Callable[[RecordedInstance], bool],
) -> Iterator[HandOver]:
    """Yield the instances of a target that have a newer one whose rows are copied, if the target follows columns.

    The target's set is at an LSN: what was dropped up to it is null in its tables.
    """
    if not target.options.follow_columns:
        return
    taken = set(target.consumer.instance_names)
    for consumed in target.consumer.instances:
        old = recorded.get(consumed.name)
        if old is None or old.instance.member_id != consumed.member_id:
            continue
        dropped = {
            column.column_id
            for column in old.instance.columns
            if column.dropped_at is not None and column.dropped_at <= at.value
        }
        for new in recorded.values():
            change = HandOver(old.instance, new.instance)
            if new.state != ENABLED or new.instance.capture_instance in taken:
                continue
            if is_ahead(new.instance, old.instance, dropped) and is_copied(new):
                if not is_expressed(target, change):
                    taken.add(new.instance.capture_instance)
                    yield change
                break


def is_ahead(new: Instance, old: Instance, dropped: Collection[int]) -> bool:
    """Return whether an instance has all columns of another of the same table, and more, or their later names.

    `dropped` are the numbers of the older one's columns that are gone. Not an instance with another gating role: who
    may read the target's table would read what the role keeps.
    """
    if (new.source_id, new.role_name) != (old.source_id, old.role_name):
        return False
    if old.supports_net_changes and not new.supports_net_changes:
        return False
    before = {column.column_id: column.name for column in old.columns if column.column_id not in dropped}
    after = {column.column_id: column.name for column in new.columns}
    if not before.keys() <= after.keys() or find_reused(new, old, dropped):
        return False
    if after.keys() != before.keys():
        return True
    present = {column.name for column in new.seen_columns}
    renamed = [number for number, name in before.items() if after[number] != name]
    # Of two instances with other names the later one has those that the table has.
    return present >= {after[number] for number in renamed} and not present >= {before[number] for number in renamed}


def find_reused(new: Instance, old: Instance, dropped: Collection[int]) -> tuple[str, ...]:
    """Return the names of dropped columns, which the target's table still has, that another column cannot take.

    A column that was added again, with the same type, can: its values come in the place of nulls.
    """
    known = {column.column_id for column in old.columns}
    names = {column.lake_name.lower(): column.type_text for column in old.columns if column.column_id in dropped}
    return tuple(
        column.name
        for column in new.columns
        if column.lake_name.lower() in names
        and (column.column_id in known or column.type_text != names[column.lake_name.lower()])
    )


def is_expressed(target: Target, change: HandOver) -> bool:
    """Return whether an expression of the table names a column that has another name in the newer instance."""
    options, old = target.options, change.old.capture_instance
    expressions = for_instance(options.columns, old, target.consumer.instance_names).values()
    texts = [*expressions, *([options.apply_as_deletes] if options.apply_as_deletes is not None else [])]
    renamed = [before for before, after in _names_by_source(change).items() if before != after]
    return any(re.search(rf"(?i)(?<!\w){re.escape(name)}(?!\w)", text) for name in renamed for text in texts)


def _names_by_source(change: HandOver) -> dict[str, str]:
    """Return the names that columns of the older instance have in the newer one, as readers know them."""
    after = {column.column_id: column for column in change.new.for_readers().columns}
    columns = change.old.for_readers().columns
    return {column.lake_name: after[column.column_id].lake_name for column in columns if column.column_id in after}


def translate(options: TargetOptions, change: HandOver, others: Sequence[str]) -> TargetOptions:
    """Return a target's options as they mean the same of the newer instance; `others` are its other instances.

    An option that names a column keeps naming it under its new name: what was excluded stays excluded. A column of
    the table that an option renamed keeps that name, others take the source's.
    """
    old, new = change.old.capture_instance, change.new.capture_instance
    sources = _names_by_source(change)
    renamed = for_instance(options.rename, old, (old, *others))
    own = {renamed.get(before, before): renamed.get(before, after) for before, after in sources.items()}

    def spell(name: str, names: Mapping[str, str]) -> list[str]:
        if name.startswith(f"{old}."):
            column = name.removeprefix(f"{old}.")
            return [f"{new}.{names.get(column, column)}"]
        if names.get(name, name) == name:
            return [name]
        # The other tables may have a column of the old name.
        return [f"{new}.{names[name]}", *(f"{other}.{name}" for other in others)] if others else [names[name]]

    def spell_all(listed: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for name in listed for each in spell(name, names)))

    def spell_keys(given: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
        return {each: value for name, value in given.items() for each in spell(name, names)}

    wanted, tracked = options.column_list, options.track_history_column_list
    changed = {before: after for before, after in own.items() if before != after}
    kept = {name: columns for name, columns in options.renamed_columns.items() if name != old}
    return replace(
        options,
        column_list=spell_all(wanted, sources) if wanted is not None else None,
        except_column_list=spell_all(options.except_column_list, sources),
        rename=spell_keys(options.rename, sources),
        columns=spell_keys(options.columns, own),
        track_history_column_list=spell_all(tracked, own) if tracked is not None else None,
        track_history_except_column_list=spell_all(options.track_history_except_column_list, own),
        cluster_by=spell_all(options.cluster_by, own),
        partition_by=spell_all(options.partition_by, own),
        # As of earlier LSNs the table is known under the names of earlier instances.
        table_names={**options.table_names, new: options.table_of(old)},
        renamed_columns={**kept, **({new: changed} if changed else {})},
    )


_WAIT_S = 1.0
_ANY = "any"


@frozen
class NewColumns:
    """The columns of a table that an instance of a target lacks, by number: those that were added, or renamed."""

    instance: str
    names: Mapping[int, str]


def find_new_columns(connection: Connection, target: Target) -> tuple[NewColumns, ...]:
    """Return what the source's tables have and the instances of a target have not; it may be what was excluded."""
    if not target.options.follow_columns:
        return ()
    found: dict[str, dict[int, str]] = {}
    for row in connection.execute(text(_NEW), {"consumer": target.consumer.name}):
        found.setdefault(row.capture_instance, {})[row.number] = row.name
    return tuple(NewColumns(instance, names) for instance, names in found.items())


def describe_unfollowed(connection: Connection, lake: str, target: Target) -> dict[str, str]:
    """Return why tables of a target have not all columns, by instance; none of those that are being copied."""
    notes: dict[str, str] = {}
    found = find_new_columns(connection, target)
    recorded = PublishedLake(lake).get_published_instances()[1] if found else {}
    for new in found:
        try:
            planned = _plan(connection, lake, target, recorded, new)
        except NewColumnsNotFollowed as error:
            notes[new.instance] = str(error)
        else:
            if planned is not None:
                names = ", ".join(new.names.values())
                notes[new.instance] = f"the owner's next apply makes an instance for columns {names}"
    return notes


def make_instances(
    engine: Engine, database: str, lake: str, target: Target, recorded: Mapping[str, RecordedInstance]
) -> tuple[str, ...]:
    """Enable an instance for each table whose new columns a target is to follow; return what is in the way."""
    with translated(), engine.connect() as connection:
        names = [new.instance for new in find_new_columns(connection, target) if new.instance in recorded]
    errors = [_make(engine, database, lake, target, recorded, name) for name in names]
    return tuple(str(error) for error in errors if error is not None)


def end_superseded(engine: Engine, database: str) -> None:
    """Disable the instances that were made for targets, and that no consumer has since another took their place."""
    with translated(), engine.connect() as connection:
        found = list_superseded(connection)
    for one in found:

        def plan(connection: Connection, ended: EnabledTable = one) -> Sequence[Executable]:
            source = access.own_source(connection, database)
            if ended not in list_superseded(connection):
                # A consumer has got it, or another process has disabled it.
                return ()
            failpoint("superseded_instance.before")
            return plan_disable_briefly(connection, source, ended)

        error = _change(engine, one.source_id, one.capture_instance, plan)
        failpoint("superseded_instance.after")
        if error is not None:
            emit(InstanceNotEnded(one.capture_instance, error))


def _make(
    engine: Engine, database: str, lake: str, target: Target, recorded: Mapping[str, RecordedInstance], name: str
) -> RowtideError | None:
    made: list[str] = []

    def plan(connection: Connection) -> Sequence[Executable]:
        source = access.own_source(connection, database)
        require_complete(connection)
        # Members change one transaction after the other: what another process made is there now.
        present = find_target(connection, target.name)
        new = next((one for one in find_new_columns(connection, present) if one.instance == name), None)
        planned = _plan(connection, lake, present, recorded, new) if new is not None else None
        made.clear()
        if planned is None:
            return ()
        instance, steps = plan_enable_table(connection, source, *planned, locks_briefly=True, is_followed=True)
        made.append(instance.capture_instance)
        failpoint("followed_instance.before")
        return steps

    error = _change(engine, recorded[name].instance.source_id, name, plan)
    failpoint("followed_instance.after")
    for instance in made if error is None else ():
        emit(InstanceMade(instance, name, target.name))
    return error


def _change(
    engine: Engine, source_id: int, name: str, plan: Callable[[Connection], Sequence[Executable]]
) -> RowtideError | None:
    """Change the members of a table; return what is in the way: applying does not depend on it."""
    change = MembershipChange(source_id, name, LockMode.SHARE_ROW_EXCLUSIVE, plan)
    try:
        return run_membership_changes(engine, [change], _WAIT_S, lambda _rounds: None)[source_id]
    except RowtideError as error:
        return error


def _plan(
    connection: Connection, lake: str, target: Target, recorded: Mapping[str, RecordedInstance], new: NewColumns
) -> tuple[SourceTable, InstanceRequest] | None:
    """Return the instance that is to be made; None if none is, or one is there. Raises `NewColumnsNotFollowed`."""
    enabled = {one.capture_instance: one for one in list_enabled(connection)}
    known, own = recorded.get(new.instance), enabled.get(new.instance)
    if known is None or own is None or known.instance.member_id != own.member_id:
        # Its definition is published first.
        return None
    table, old = find_by_id(connection, own.source_id), known.instance
    wanted = _find_wanted(target, new, old)
    if table is None or not wanted:
        return None
    requests = [one for one in list_visible(connection) if one.condition is None]
    name = _choose_name(connection, target, new.instance, {*enabled, *recorded})
    facts = (target.name, table.qualified_name, ", ".join(wanted))
    dropped = {column.column_id for column in old.columns} - {column.number for column in table.columns}
    for one in enabled.values():
        if one.source_id != own.source_id or one is own:
            continue
        if one.capture_instance in target.consumer.instance_names:
            raise NewColumnsNotFollowed(*facts, f"it has both {new.instance} and {one.capture_instance}")
        if _is_later(connection, one, own, {column.column_id for column in old.columns} - dropped, new.names):
            if not _is_copied(requests, one):
                raise ColumnsNotCopied(*facts, f"{one.capture_instance} has no copy", one.capture_instance)
            return None
    if own.role_name is not None:
        raise ColumnsGated(*facts, f"{new.instance} has a gating role", name, own.role_name)
    if not _is_copied(requests, own):
        raise ColumnsLeftOut(*facts, f"{new.instance} was enabled without a copy", name)
    if not _had_all(read_first_definition(lake, old.member_id)):
        raise ColumnsLeftOut(*facts, f"{new.instance} was enabled without some of the columns", name)
    limits = [one.rows_per_second for one in requests if one.member_id == own.member_id]
    request = replace(repeat_request(table, own), capture_instance=name, rows_per_second=limits[-1])
    try:
        instance = define_instance(table, request, _ANY)
    except RowtideError as error:
        raise NewColumnsNotFollowed(*facts, error.filled_fact) from error
    reused = find_reused(instance, old, dropped)
    if reused:
        raise NewColumnsNotFollowed(*facts, f"its table has dropped columns of the same names ({', '.join(reused)})")
    if is_expressed(target, HandOver(old, instance)):
        raise NewColumnsNotFollowed(*facts, "an expression or a condition of it names a renamed column")
    # Columns that swapped their names keep them.
    return (table, request) if is_ahead(instance, old, dropped) else None


def _find_wanted(target: Target, new: NewColumns, old: Instance) -> list[str]:
    """Return the names of the new columns that a target has not excluded; a renamed one stays what it was."""
    options, captured = target.options, {column.column_id for column in old.columns}
    left_out = set(own_names(options.except_column_list, new.instance))
    return [
        name
        for number, name in new.names.items()
        if number in captured or (options.column_list is None and name not in left_out)
    ]


def _is_later(
    connection: Connection, one: EnabledTable, own: EnabledTable, kept: Collection[int], names: Mapping[int, str]
) -> bool:
    """Return whether an instance has the columns of another that are still there, and one of the new ones."""
    if one.role_name != own.role_name or one.supports_net_changes < own.supports_net_changes:
        return False
    captured = {number: name for number, (name, _) in read_captured_columns(connection, one.member_id).items()}
    return captured.keys() >= set(kept) and any(captured.get(number) == name for number, name in names.items())


def _is_copied(requests: Sequence[SnapshotRequest], enabled: EnabledTable) -> bool:
    """Return whether an instance has a whole copy, or is to get one."""
    states = (*OPEN, RequestState.FINISHED)
    return any(one.member_id == enabled.member_id and one.state in states for one in requests)


def _had_all(first: Instance | None) -> bool:
    """Return whether an instance was enabled with all columns that its table had: nobody chose among them."""
    if first is None:
        return False
    return {column.name for column in first.columns} == {column.name for column in first.seen_columns}


def _choose_name(connection: Connection, target: Target, instance: str, taken: Collection[str]) -> str:
    """Return a name that no instance had, and no table has by default."""
    first, used = target.options.table_of(instance), {name.lower() for name in taken}
    for number in count(2):
        suffix = f"_{number}"
        name = first[: MAX_NAME_LENGTH - len(suffix)] + suffix
        if name.lower() not in used and not connection.execute(text(_OF_A_TABLE), {"name": name}).scalar_one():
            return name
    raise AssertionError


_NEW = """
select t.capture_instance, a.attnum as number, a.attname::text as name
from cdc.consumer_instances i
join cdc.change_tables t on t.capture_instance = i.capture_instance and t.member_id = i.member_id
join pg_attribute a on a.attrelid = t.source_object_id and a.attnum > 0 and not a.attisdropped
left join cdc.captured_columns c on c.object_id = t.object_id and c.column_id = a.attnum
where i.consumer_name = :consumer and c.column_name is distinct from a.attname::text
order by t.object_id, a.attnum
"""

_OF_A_TABLE = """
select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
               where lower(n.nspname || '_' || c.relname) = lower(:name))
"""
