"""Find the tables that can be tracked, and those that are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sqlalchemy import Connection, text

from rowtide.databases.postgres import clock
from rowtide.databases.postgres.catalogue import find_table, read_table, read_tables, running_through
from rowtide.databases.postgres.errors import TableNotFound
from rowtide.databases.postgres.operators import read_operators
from rowtide.databases.postgres.planned_code import find_planned
from rowtide.databases.postgres.rowguid import ROWGUID, rowguid_key
from rowtide.databases.postgres.values import is_of_server
from rowtide.databases.source_table import SourceColumn, SourceTable, TableKind
from rowtide.tracking.errors import TableToTrackNotFound, TrackedPlanCallsCode, TrackingKeyMissing
from rowtide.tracking.options import TrackedTable, TrackingKeyType
from rowtide.tracking.postgres.subject import Subject
from rowtide.tracking.postgres.system_tables import list_tracked, read_as_made

_TRACKABLE = (TableKind.ORDINARY, TableKind.PARTITIONED)
_KEY_WORDS = {TrackingKeyType.PRIMARY_KEY: "primary key", TrackingKeyType.ROWGUID: f"unique column {ROWGUID}, not null"}
_KEYS: Mapping[TrackingKeyType, Callable[[SourceTable], tuple[SourceColumn, ...]]] = {
    TrackingKeyType.PRIMARY_KEY: lambda table: table.key_columns,
    TrackingKeyType.ROWGUID: rowguid_key,
}


def find_trackable(connection: Connection, name: str) -> SourceTable:
    """Return a table that can be tracked, by the name that a user gives. Raises `TableToTrackNotFound`."""
    try:
        table = find_table(connection, name)
    except TableNotFound as error:
        raise TableToTrackNotFound(name) from error
    if not is_trackable(table):
        raise TableToTrackNotFound(name)
    return table


def is_trackable(table: SourceTable) -> bool:
    """Whether a table's kind can be tracked; partitions are tracked with their root.

    An unlogged table is emptied by a crash. With inheritance, rows of one table appear in another.
    """
    has_place_of_its_own = table.schema != clock.SCHEMA and not table.ancestors and not table.has_relatives
    return table.kind in _TRACKABLE and has_place_of_its_own


def find_tracked(connection: Connection, table: SourceTable) -> TrackedTable | None:
    """Return how a table is tracked; None if it is not."""
    return next((tracked for tracked in list_tracked(connection) if tracked.name == table.qualified_name), None)


def find_present(connection: Connection, tracked: TrackedTable) -> tuple[int, SourceTable | None]:
    """Return the table's oid when it was enabled, and the present table; None if it was dropped.

    A renamed table keeps its oid; in a database restored from a dump, the table is found by name.
    """
    source_id = read_as_made(connection, tracked.name).source_id
    by_id = next(iter(read_tables(connection, [source_id])), None)
    if by_id is not None and by_id.qualified_name == tracked.name:
        return source_id, by_id
    try:
        return source_id, find_table(connection, tracked.name)
    except TableNotFound:
        return source_id, by_id


def subject_of(connection: Connection, tracked: TrackedTable) -> Subject:
    """Return a tracked table as it is now. Raises `TableNotFound`, `TrackingKeyMissing`."""
    table = read_table(connection, read_as_made(connection, tracked.name).source_id)
    return with_operators(connection, with_key(table, tracked))


def with_operators(connection: Connection, subject: Subject) -> Subject:
    """Return a table with the operators of its key's columns of users' types, by which rows are found.

    The parts of a composite, range or array may be domains, whose checks run when a text is read; an implicit cast can
    make an operator ambiguous: their columns get no operator.
    """
    if all(is_of_server(column.value_type_text) for column in subject.key):
        return subject
    named = {"source_id": subject.table.source_id, "names": [column.name for column in subject.key]}
    whole = set(connection.execute(text(_WHOLE_VALUES), named).scalars())
    operators = read_operators(running_through(connection), subject.quoted)
    return replace(subject, equals={name: found.equal for name, found in operators.items() if name in whole})


def require_own_plans(connection: Connection, subjects: Iterable[Subject]) -> None:
    """Raise `TrackedPlanCallsCode` for tables that cannot be read without running code of less privileged roles."""
    names = {subject.quoted: subject.name for subject in subjects}
    for quoted, functions in find_planned(running_through(connection), names).items():
        raise TrackedPlanCallsCode(names[quoted], functions[0])


def with_key(table: SourceTable, tracked: TrackedTable) -> Subject:
    """Return a table with the key by which it is, or will be, tracked. Raises `TrackingKeyMissing`."""
    key = _KEYS[tracked.key_type](table)
    if not key:
        raise TrackingKeyMissing(table.qualified_name, _KEY_WORDS[tracked.key_type])
    return Subject(table, key, tracked.options, tracked.storage)


_WHOLE_VALUES = """
with recursive types (column_name, type_id) as (
    select a.attname, a.atttypid from pg_attribute a where a.attrelid = :source_id and a.attname = any(:names)
    union all
    select types.column_name, t.typbasetype from types join pg_type t on t.oid = types.type_id where t.typtype = 'd')
select types.column_name::text from types join pg_type t on t.oid = types.type_id
where t.typtype in ('b', 'e') and t.typelem = 0 and not exists (
    select from pg_cast k where k.castsource = t.oid and k.castcontext = 'i' and k.castmethod <> 'b')
"""
