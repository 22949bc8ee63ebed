"""CDC's statements on PostgreSQL: what enabling and disabling run, and how truncates are refused."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import Connection, Executable

from rowtide.cdc import definitions
from rowtide.cdc.access import plan_gating_role
from rowtide.cdc.enabling import instances
from rowtide.cdc.errors.querying import InstanceUnknown
from rowtide.cdc.instances import Instance
from rowtide.cdc.jobs.definitions import first_table_steps, last_table_steps
from rowtide.cdc.requests import InstanceRequest
from rowtide.cdc.snapshot_requests import has_snapshot, request_step
from rowtide.databases.postgres.alterations import LockMode, lock_briefly_steps
from rowtide.databases.postgres.catalogue import find_by_id, find_table, require_table_owner
from rowtide.databases.postgres.functions import close_function
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified, statement
from rowtide.databases.source_table import SourceTable
from rowtide.log.postgres import membership, partition_truncates
from rowtide.log.postgres.partition_truncates import TRUNCATE_REFUSED
from rowtide.log.postgres.table_publications import read_publishing
from rowtide.log.source_definition import SourceDefinition

# Truncates that are refused, on PostgreSQL: those that an instance does not want (SQL Server: 4711), and those of a
# partition by itself, which the server does not publish for a partitioned table.

REFUSE = statement(f"""
create or replace function cdc.refuse_truncate() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    raise exception using
        errcode = 'feature_not_supported',
        message = format('{TRUNCATE_REFUSED}: table %I.%I is enabled for change data capture and cannot be truncated',
            tg_table_schema, tg_table_name),
        hint = format('Delete its rows, or disable capture instance %s first.', tg_argv[0]);
end $$
""")
"""The function that the trigger of a table calls."""
CLOSE = statement(close_function("cdc.refuse_truncate()"))


def refusal_steps(table: SourceTable, instance: Instance) -> list[Executable]:
    """Refuse truncates for one instance."""
    refusing = []
    if instance.refuses_truncate:
        refusing.append(
            statement(
                f"create trigger {quote(_trigger_name(instance.member_id, 'before'))} before truncate on "
                f"{quote_qualified(table.schema, table.name)} for each statement "
                f"execute function cdc.refuse_truncate({quote_literal(instance.capture_instance)})"
            )
        )
    way_out = f"disable capture instance {instance.capture_instance}"
    return [*refusing, *partition_truncates.refuse_steps(table, instance.member_id, way_out)]


def allowance_steps(connection: Connection, enabled: definitions.EnabledTable) -> list[Executable]:
    """Undo `refusal_steps`, also those of a build that had all its triggers in schema cdc."""
    names = [_trigger_name(enabled.member_id, when) for when in ("before", "after")]
    return [
        *partition_truncates.drop_trigger_steps(connection, names),
        *partition_truncates.allow_steps(connection, enabled.member_id),
    ]


def _trigger_name(member_id: str, when: str) -> str:
    return f"rowtide_{when}_truncate_{member_id[:8]}"


def plan_enable_table(
    connection: Connection,
    source: SourceDefinition,
    table: SourceTable,
    request: InstanceRequest,
    *,
    locks_briefly: bool = False,
    is_followed: bool = False,
) -> tuple[Instance, list[Executable]]:
    """Return the new instance and the steps that enable it; with `locks_briefly`, those for many tables in rounds.

    `is_followed`: it is made for targets that follow columns. Raises errors of `cdc.instances` and `cdc.access`, and
    `DefinitionsIncomplete`, `GrantMissing`.
    """
    definitions.require_complete(connection)
    require_table_owner(connection, table)
    enabled, followed = definitions.list_enabled(connection), instances.list_followed(connection)
    counted = [other for other in enabled if (other.member_id in followed) is is_followed]
    instance = define_beside(table, request, enabled, counted)
    lock = membership.lock_steps(table)
    if locks_briefly:
        lock = membership.lock_briefly_steps(table, instance.before_images, find_key_index(table, instance))
    steps = [
        *plan_gating_role(connection, request.role_name),
        *lock,
        *first_table_steps(connection),
        *_begin_steps(connection, source, table, instance),
        *definitions.own_steps(instance.member_id, request.widened),
        *(instances.mark_steps(instance.member_id) if is_followed else ()),
        *(_snapshot_steps(instance, request.rows_per_second) if request.snapshot else ()),
    ]
    return instance, steps


def define_beside(
    table: SourceTable,
    request: InstanceRequest,
    enabled: Sequence[definitions.EnabledTable],
    counted: Sequence[definitions.EnabledTable] | None = None,
) -> Instance:
    """Return the definition of a new instance beside those that are enabled. Raises errors of `cdc.instances`.

    `counted` are those that count for the limit of a table, by default all.
    """
    instance = instances.define_instance(table, request, str(uuid.uuid4()))
    instances.require_room(instance, enabled, counted)
    instances.require_distinct_names(table, enabled)
    if table.identity != membership.FULL_IDENTITY:
        instances.require_same_key(instance, enabled)
    return instance


def find_key_index(table: SourceTable, instance: Instance) -> str | None:
    """Return the index of an instance's key that is not the primary key's."""
    return instance.index_name if instance.index_name != table.key_name else None


def plan_disable_table(
    connection: Connection, source: SourceDefinition, table_name: str, capture_instance: str | None
) -> list[Executable]:
    """Return the steps that disable one instance of a table, or all (None). Raises `InstanceUnknown`."""
    return _release_steps(connection, source, _choose_instances(connection, table_name, capture_instance))


def plan_disable_briefly(
    connection: Connection, source: SourceDefinition, enabled: definitions.EnabledTable
) -> list[Executable]:
    """Return the steps that disable one of several instances, without a wait that users of its table would notice."""
    table = find_by_id(connection, enabled.source_id)
    lock = lock_briefly_steps(table, LockMode.SHARE_ROW_EXCLUSIVE) if table is not None else []
    return [*lock, *_release_steps(connection, source, [enabled])]


def plan_release_table(connection: Connection, source: SourceDefinition, source_id: int) -> list[Executable]:
    """Return the steps that disable every instance of the table with this oid."""
    matching = [enabled for enabled in definitions.list_enabled(connection) if enabled.source_id == source_id]
    return _release_steps(connection, source, matching)


def plan_announce_again(
    connection: Connection, source: SourceDefinition, enabled: definitions.EnabledTable
) -> list[Executable]:
    """Return the steps that announce an instance in a new log; a dropped table loses its instances.

    An instance whose columns are unchanged keeps its member id, and so its change table; otherwise it starts again.
    """
    table = find_by_id(connection, enabled.source_id)
    if table is None:
        return _release_steps(connection, source, [enabled])
    recorded = definitions.read_captured_columns(connection, enabled.member_id)
    present = {column.number: (column.name, column.type_text) for column in table.columns}
    columns = tuple(present[number][0] for number in recorded if number in present)
    is_same = all(present.get(number) == column for number, column in recorded.items())
    member_id = enabled.member_id if is_same else str(uuid.uuid4())
    instance = instances.define_instance(table, repeat_request(table, enabled, columns), member_id)
    return [
        *membership.lock_steps(table),
        membership.unregister_step(enabled.member_id),
        definitions.forget_step(enabled.member_id),
        *allowance_steps(connection, enabled),
        *_begin_steps(connection, source, table, instance),
        *definitions.own_steps(member_id, definitions.read_own(connection, enabled.member_id)),
        *(instances.mark_steps(member_id) if enabled.member_id in instances.list_followed(connection) else ()),
        # Changes in the gap are in no change table, so the table as of later LSNs needs another snapshot.
        *(_snapshot_steps(instance) if has_snapshot(connection, enabled.member_id) else ()),
    ]


def _snapshot_steps(instance: Instance, rows_per_second: int | None = None) -> list[Executable]:
    step = request_step(instance.capture_instance, instance.member_id, rows_per_second=rows_per_second)
    return [step]


def _begin_steps(
    connection: Connection, source: SourceDefinition, table: SourceTable, instance: Instance
) -> list[Executable]:
    """Return the steps that add an instance to the log and the catalogue; its table is locked."""
    member = instances.as_member(instance)
    join = membership.join_steps(
        source,
        table,
        member,
        instance.before_images,
        publishing=read_publishing(connection, source, table.source_id),
        key_index=find_key_index(table, instance),
    )
    return [
        *join,
        *definitions.record_steps(instance),
        *refusal_steps(table, instance),
        membership.announce_enabled(member),
    ]


def repeat_request(
    table: SourceTable, enabled: definitions.EnabledTable, columns: tuple[str, ...] | None = None
) -> InstanceRequest:
    """Request an instance as it was, by default with all columns of its table.

    The index and net changes are omitted if the table no longer allows them.
    """
    index = table.find_index(enabled.index_name)
    is_usable = index is not None and index.is_valid and instances.find_problem(table, index) is None
    index_name = enabled.index_name if is_usable else None
    key = instances.choose_key(table, index_name)
    return InstanceRequest(
        capture_instance=enabled.capture_instance,
        columns=columns,
        refuses_truncate=enabled.refuses_truncate,
        before_images=enabled.before_images,
        role_name=enabled.role_name,
        index_name=index_name,
        supports_net_changes=enabled.supports_net_changes and instances.decide_net_changes(table, key, None),
    )


def _release_steps(
    connection: Connection, source: SourceDefinition, chosen: Sequence[definitions.EnabledTable]
) -> list[Executable]:
    """All `chosen` are instances of one table, which may have been dropped in the meantime."""
    source_id = chosen[0].source_id
    table = find_by_id(connection, source_id)
    steps = membership.lock_steps(table)
    for enabled in chosen:
        steps += [membership.unregister_step(enabled.member_id), definitions.forget_step(enabled.member_id)]
        steps += allowance_steps(connection, enabled)
    if membership.count_members(connection, source_id) == len(chosen):
        identities = membership.earlier_identities(connection, source_id)
        steps += membership.leave_steps(source, table, identities, source_id)
    steps += last_table_steps(connection)
    return steps + [membership.announce_disabled(enabled.member_id) for enabled in chosen]


def _choose_instances(
    connection: Connection, table_name: str, capture_instance: str | None
) -> Sequence[definitions.EnabledTable]:
    enabled = definitions.list_enabled(connection)
    if capture_instance is not None:
        named = [other for other in enabled if other.capture_instance == capture_instance]
        if not named:
            raise InstanceUnknown(capture_instance)
        return named
    table = find_table(connection, table_name)
    matching = [other for other in enabled if other.source_id == table.source_id]
    if not matching:
        raise InstanceUnknown(f"of table {table.qualified_name}")
    return matching
