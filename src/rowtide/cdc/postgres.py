"""CDC's statements on PostgreSQL: what enabling and disabling do, in the log's order."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy import Connection, Executable

from rowtide.cdc.definitions import EnabledTable, Instance, forget_step, list_enabled, read_captured_types, record_steps
from rowtide.cdc.errors import InstanceUnknown
from rowtide.cdc.instances import InstanceRequest, as_member, define_instance, require_room
from rowtide.databases.postgres.catalogue import TableNotFound, find_table, read_table
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.databases.source_table import SourceTable
from rowtide.log.catalogue import SourceDefinition
from rowtide.log.postgres import membership

REFUSE_TRUNCATE_FUNCTION = statement("""
create function cdc.refuse_truncate() returns trigger language plpgsql as $$
begin
    raise exception using
        errcode = 'feature_not_supported',
        message = format('RT-4711: table %I.%I is enabled for change data capture and cannot be truncated',
            tg_table_schema, tg_table_name),
        hint = format('Delete its rows, or disable capture instance %s first.', tg_argv[0]);
end $$
""")
"""What the triggers of instances that refuse truncates call."""


def plan_enable_table(
    connection: Connection, source: SourceDefinition, table_name: str, request: InstanceRequest
) -> tuple[Instance, list[Executable]]:
    """Return the new instance and the steps that enable it. Raises `TableNotFound`, and errors of `cdc.instances`."""
    table = find_table(connection, table_name)
    instance = define_instance(table, request, str(uuid.uuid4()))
    require_room(instance, list_enabled(connection))
    member = as_member(instance)
    is_published = membership.is_published(connection, source, table.source_id)
    steps = [
        *membership.lock_steps(table),
        *membership.join_steps(source, table, member, request.before_images, is_published=is_published),
        *record_steps(instance),
        *_refusal_steps(table, instance),
        membership.announce_enabled(member),
    ]
    return instance, steps


def plan_disable_table(
    connection: Connection, source: SourceDefinition, table_name: str, capture_instance: str | None
) -> list[Executable]:
    """Return the steps that disable one instance of a table, or all (None). Raises `InstanceUnknown`."""
    return _release_steps(connection, source, _choose_instances(connection, table_name, capture_instance))


def plan_release_table(connection: Connection, source: SourceDefinition, source_id: int) -> list[Executable]:
    """Return the steps that disable every instance of the table with this oid."""
    matching = [enabled for enabled in list_enabled(connection) if enabled.source_id == source_id]
    return _release_steps(connection, source, matching)


def plan_announce_again(connection: Connection, source: SourceDefinition, enabled: EnabledTable) -> list[Executable]:
    """Return the steps that announce an instance in a new log; a table that is gone loses its instances.

    An instance whose columns are as they were keeps its member id, and so its change table; else it starts anew.
    """
    table = _table_if_it_exists(connection, enabled.source_id)
    if table is None:
        return _release_steps(connection, source, [enabled])
    recorded = read_captured_types(connection, enabled.member_id)
    present = {column.name: column.type_text for column in table.columns}
    columns = tuple(name for name in recorded if name in present)
    is_same = all(present.get(name) == type_text for name, type_text in recorded.items())
    member_id = enabled.member_id if is_same else str(uuid.uuid4())
    request = InstanceRequest(
        enabled.capture_instance, columns, enabled.refuses_truncate, before_images=enabled.before_images
    )
    instance = define_instance(table, request, member_id)
    is_published = membership.is_published(connection, source, table.source_id)
    return [
        *membership.lock_steps(table),
        membership.unregister_step(enabled.member_id),
        forget_step(enabled.member_id),
        *_allowance_steps(table, enabled),
        *membership.join_steps(source, table, as_member(instance), request.before_images, is_published=is_published),
        *record_steps(instance),
        *_refusal_steps(table, instance),
        membership.announce_enabled(as_member(instance)),
    ]


def _release_steps(
    connection: Connection, source: SourceDefinition, chosen: Sequence[EnabledTable]
) -> list[Executable]:
    """All `chosen` are instances of one table, which may have been dropped meanwhile."""
    source_id = chosen[0].source_id
    table = _table_if_it_exists(connection, source_id)
    members = membership.count_members(connection, source_id)
    identity = membership.earlier_identity(connection, source_id)
    steps = membership.lock_steps(table) if table is not None else []
    for index, enabled in enumerate(chosen, 1):
        steps += membership.leave_steps(source, table, enabled.member_id, is_last=index == members, identity=identity)
        steps.append(forget_step(enabled.member_id))
        if table is not None:
            steps += _allowance_steps(table, enabled)
    return steps + [membership.announce_disabled(enabled.member_id) for enabled in chosen]


def _refusal_steps(table: SourceTable, instance: Instance) -> list[Executable]:
    """Refuse truncates of the table, in the name of one instance (SQL Server: 4711)."""
    if not instance.refuses_truncate:
        return []
    argument = instance.capture_instance.replace("'", "''")
    return [
        statement(
            f"create trigger {quote(_trigger_name(instance.member_id))} before truncate on "
            f"{quote_qualified(table.schema, table.name)} for each statement "
            f"execute function cdc.refuse_truncate('{argument}')"
        )
    ]


def _allowance_steps(table: SourceTable, enabled: EnabledTable) -> list[Executable]:
    if not enabled.refuses_truncate:
        return []
    name = quote(_trigger_name(enabled.member_id))
    return [statement(f"drop trigger if exists {name} on {quote_qualified(table.schema, table.name)}")]


def _trigger_name(member_id: str) -> str:
    return f"rowtide_refuse_truncate_{member_id[:8]}"


def _choose_instances(connection: Connection, table_name: str, capture_instance: str | None) -> Sequence[EnabledTable]:
    enabled = list_enabled(connection)
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


def _table_if_it_exists(connection: Connection, source_id: int) -> SourceTable | None:
    try:
        return read_table(connection, source_id)
    except TableNotFound:
        return None
