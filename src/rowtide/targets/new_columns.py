"""New instances for columns that a target's table lacks because they were added to the source's table, or renamed.

The process that applies the target makes the instance if it may enable tables, as `enable-table` does by hand: in one
transaction, with the options of the existing instance, and a copy. The target is then handed over to it (`hand_over`).
What prevents that is reported together with the command that helps.

Capture does not know targets. The process that applies one knows its options, and checks whether it could be handed
over before it makes an instance. No choice of a user is undone: the existing instance must have been enabled with all
columns, with a copy and without a gating role. A table has at most two instances, so one new instance gets all missing
columns. The price is a copy of the table for each added or renamed column, which any role that may alter the table can
cause.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

from sqlalchemy import Connection, Engine, Executable, text

from rowtide.cdc import access
from rowtide.cdc.definitions import EnabledTable, list_enabled, read_captured_columns, require_complete
from rowtide.cdc.enabling.instances import MAX_NAME_LENGTH, define_instance, list_superseded
from rowtide.cdc.enabling.postgres import plan_disable_briefly, plan_enable_table, repeat_request
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import RecordedInstance, read_first_definition
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.requests import InstanceRequest
from rowtide.cdc.snapshot_requests import OPEN, RequestState, SnapshotRequest, list_visible
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import LockMode
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.errors import translated
from rowtide.databases.source_table import SourceTable
from rowtide.events.catalogue import InstanceMade, InstanceNotEnded
from rowtide.events.event import emit
from rowtide.log.postgres.membership import MembershipChange, run_membership_changes
from rowtide.targets.columns import own_names
from rowtide.targets.definitions import Target, find_target
from rowtide.targets.errors import ColumnsGated, ColumnsLeftOut, ColumnsNotCopied, NewColumnsNotFollowed
from rowtide.targets.hand_over import HandOver, find_reused, is_ahead, is_expressed

_WAIT_S = 1.0
_ANY = "any"


@frozen
class NewColumns:
    """The columns of a table that an instance of a target lacks, by number: those that were added, or renamed."""

    instance: str
    names: Mapping[int, str]


def find_new_columns(connection: Connection, target: Target) -> tuple[NewColumns, ...]:
    """Return the columns of the source's tables that the instances of a target lack, excluded ones included."""
    if not target.options.follow_columns:
        return ()
    found: dict[str, dict[int, str]] = {}
    for row in connection.execute(text(_NEW), {"consumer": target.consumer.name}):
        found.setdefault(row.capture_instance, {})[row.number] = row.name
    return tuple(NewColumns(instance, names) for instance, names in found.items())


def describe_unfollowed(connection: Connection, lake: str, target: Target) -> dict[str, str]:
    """Return why tables of a target lack columns, by instance; instances that are being copied are omitted."""
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
    """Enable an instance for each table whose new columns a target has to follow; return what prevents it."""
    with translated(), engine.connect() as connection:
        names = [new.instance for new in find_new_columns(connection, target) if new.instance in recorded]
    errors = [_make(engine, database, lake, target, recorded, name) for name in names]
    return tuple(str(error) for error in errors if error is not None)


def end_superseded(engine: Engine, database: str) -> None:
    """Disable instances that were made for targets, and that no consumer reads any more since they were superseded."""
    with translated(), engine.connect() as connection:
        found = list_superseded(connection)
    for one in found:

        def plan(connection: Connection, ended: EnabledTable = one) -> Sequence[Executable]:
            source = access.own_source(connection, database)
            if ended not in list_superseded(connection):
                # A consumer reads it by now, or another process has disabled it.
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
        # Changes of members are serialized, so an instance that another process made is visible here.
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
    """Change the members of a table; return an error instead of raising it, because applying does not depend on
    this.
    """
    change = MembershipChange(source_id, name, LockMode.SHARE_ROW_EXCLUSIVE, plan)
    try:
        return run_membership_changes(engine, [change], _WAIT_S, lambda _progress: None)[source_id]
    except RowtideError as error:
        return error


def _plan(
    connection: Connection, lake: str, target: Target, recorded: Mapping[str, RecordedInstance], new: NewColumns
) -> tuple[SourceTable, InstanceRequest] | None:
    """Return the instance to be made; None if none is needed, or it exists. Raises `NewColumnsNotFollowed`."""
    enabled = {one.capture_instance: one for one in list_enabled(connection)}
    known, own = recorded.get(new.instance), enabled.get(new.instance)
    if known is None or own is None or known.instance.member_id != own.member_id:
        # Its definition has to be published first.
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
