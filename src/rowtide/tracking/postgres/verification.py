"""Verify that a tracked table still has its triggers, columns and key, and track its new partitions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from sqlalchemy import Connection, Engine, text

from rowtide.core.formats import StoreFormat
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.alterations import Committing, execute_all
from rowtide.databases.postgres.catalogue import find_by_id, find_table_id
from rowtide.databases.postgres.clock import INCARNATION, unseen
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.databases.source_table import TablePartition
from rowtide.tracking.errors import TrackedTableGone, TrackingKeyMissing, TrackingLost
from rowtide.tracking.options import TrackedTable, TrackingOptions
from rowtide.tracking.postgres import system_tables, tracked_tables, triggers
from rowtide.tracking.postgres.stamps import stamps_of


def put_as_it_is(connection: Connection, tracked: TrackedTable, subject: tracked_tables.PostgresSubject) -> None:
    """Write a table to the catalogue with its present triggers, key and partitions."""
    source_id, parts = subject.table.source_id, tuple(_parts(subject))
    signature = _read_signature_now(connection, source_id, parts)
    system_tables.put_tracked(
        connection, tracked, system_tables.AsMade(source_id, signature, _key_names(subject), parts)
    )


def _parts(subject: tracked_tables.PostgresSubject) -> set[int]:
    return {leaf.source_id for leaf in subject.table.row_holders}


def _key_names(subject: tracked_tables.PostgresSubject) -> tuple[str, ...]:
    return tuple(column.name for column in subject.key)


def _read_signature_now(connection: Connection, source_id: int, parts: Collection[int]) -> str:
    """Return the database, and the present triggers and functions of a table and some partitions, as one text."""
    return str(connection.execute(text(_SIGNATURE), {"parts": [source_id, *parts]}).scalar_one())


def look_at(connection: Connection, tracked: TrackedTable) -> tracked_tables.PostgresSubject | TrackingLost:
    """Return a tracked table as it is now, or what was altered."""
    if tracked.lost_time is not None:
        return _lost(connection, tracked, "it has not been resumed")
    made = system_tables.read_as_made(connection, tracked.name)
    found = _compare(connection, tracked, made)
    if isinstance(found, tracked_tables.PostgresSubject) and _parts(found) <= set(made.parts):
        return found
    return _lost(connection, tracked, GROWN if isinstance(found, tracked_tables.PostgresSubject) else found)


def require_sound(connection: Connection, tracked: TrackedTable) -> None:
    """Raise `TrackingLost` if a tracked table was altered, or replaced by another of its name."""
    damage = "it has not been resumed" if tracked.lost_time is not None else find_damage(connection, tracked)
    if damage is not None:
        raise _lost(connection, tracked, damage)


def _lost(connection: Connection, tracked: TrackedTable, what: str) -> TrackingLost:
    """A table of its name, or the table under another name, can be resumed."""
    source_id = system_tables.read_as_made(connection, tracked.name).source_id
    is_gone = find_by_id(connection, source_id) is None and find_table_id(connection, tracked.name) is None
    lost_time = tracked.lost_time or read_now(connection)
    if is_gone:
        return TrackedTableGone(tracked.name, lost_time, "the table was dropped")
    return TrackingLost(tracked.name, lost_time, what)


def find_damage(connection: Connection, tracked: TrackedTable) -> str | None:
    """Return what was altered, except partitions added since."""
    found = _compare(connection, tracked, system_tables.read_as_made(connection, tracked.name))
    return None if isinstance(found, tracked_tables.PostgresSubject) else found


def read_now(connection: Connection) -> str:
    """Return the server's time, in UTC, as losses have it."""
    return str(connection.execute(text(_NOW)).scalar_one())


def _compare(
    connection: Connection, tracked: TrackedTable, made: system_tables.AsMade
) -> tracked_tables.PostgresSubject | str:
    """Return a tracked table as it is now, or what was altered, except partitions added since."""
    table = find_by_id(connection, made.source_id)
    if table is None:
        return "the table was dropped"
    if table.qualified_name != tracked.name:
        return f"the table is called {table.qualified_name} now"
    try:
        subject = tracked_tables.with_operators(connection, tracked_tables.with_key(table, tracked))
    except TrackingKeyMissing:
        return f"it has no {tracked.key_type} any more"
    if not stamps_of(subject).is_there(connection):
        return "the stamps of its rows are gone"
    if not _parts(subject) >= set(made.parts):
        return "a partition was detached or dropped"
    if _key_names(subject) != made.key:
        return "a column of its key was renamed, or others are its key now"
    if _read_signature_now(connection, table.source_id, made.parts) != made.signature:
        return "a trigger was changed, disabled or dropped, or the database is a restored copy"
    return subject


GROWN = "a partition was attached that has rows of its own, or lacks triggers"
"""Description of new partitions that could not be tracked before an enumeration."""

_NOW = "select to_char(now() at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')"
_SIGNATURE = f"""
select md5({INCARNATION} || coalesce(string_agg(
    concat_ws(' ', t.tgrelid, t.tgenabled, pg_get_triggerdef(t.oid), p.prosrc), chr(10)
    order by t.tgrelid, t.tgname), ''))
from pg_trigger t join pg_proc p on p.oid = t.tgfoid
where t.tgrelid = any(cast(:parts as oid[])) and t.tgname like '\\_\\_sysTracking\\_%'
"""


def attach_partitions(connection: Connection, engine: Engine) -> None:
    """Track the new partitions of all tracked tables whose rows no anchor has seen.

    Found on one connection, and tracked, if there are any, on others. PostgreSQL clones row triggers to partitions;
    this adds those for truncates. Before that, a truncate removes only rows that no anchor has seen. Raises
    `LockNotObtained`.
    """
    is_tracking = system_tables.has_tracked_objects(connection, StoreFormat.require_writable)
    names = connection.execute(text(_GROWN)).scalars().all() if is_tracking else []
    connection.commit()
    for name in names:
        Committing(engine).run(name, partial(_attach, name=name))


def _attach(connection: Connection, *, name: str) -> None:
    clock.stop_anchors(connection)
    tracked = system_tables.get_tracked(connection, name)
    if find_damage(connection, tracked) is not None:
        return  # the enumeration says what that means
    subject = tracked_tables.subject_of(connection, tracked)
    new = _find_new(connection, subject)
    for leaf in new:
        # From now on no other session writes it.
        execute_all(connection, [f"lock table {quote_qualified(leaf.schema, leaf.name)} in share row exclusive mode"])
    if find_known(connection, tracked):
        return  # as above
    for leaf in new:
        execute_all(connection, triggers.truncate_trigger(subject, quote_qualified(leaf.schema, leaf.name)))
    put_as_it_is(connection, tracked, subject)


def find_known(connection: Connection, tracked: TrackedTable) -> tuple[TablePartition, ...]:
    """Return the new partitions that cannot be tracked: an anchor may have seen their rows, or triggers are missing."""
    subject = tracked_tables.subject_of(connection, tracked)
    new = _find_new(connection, subject)
    return tuple(leaf for leaf in new if not _is_unknown(connection, subject, leaf))


def _find_new(connection: Connection, subject: tracked_tables.PostgresSubject) -> Sequence[TablePartition]:
    known = system_tables.read_as_made(connection, subject.name).parts
    return [leaf for leaf in subject.table.row_holders if leaf.source_id not in known]


def _is_unknown(connection: Connection, subject: tracked_tables.PostgresSubject, leaf: TablePartition) -> bool:
    """Whether no anchor has seen a partition's rows, and its triggers exist."""
    relation = quote_qualified(leaf.schema, leaf.name)
    parameters = {"table": subject.table.source_id, "leaf": leaf.source_id, "prefix": f"{triggers.PREFIX}%"}
    if connection.execute(text(_LACKS_TRIGGERS), parameters).scalar():
        return False
    last = clock.find_last(connection)
    if last is None:
        return True
    # Where inserts are not tracked, rows have no stamps before they are updated.
    without = "false" if TrackingOptions.INSERT in subject.options else "true"
    is_unseen = unseen(quote(tracked_tables.CHANGE_BSN), last)
    known = f"select exists (select from {relation} where not coalesce({is_unseen}, {without}))"
    return not connection.execute(statement(known)).scalar()


_GROWN = f"""
select o."__sysTN"
from {system_tables.TRACKED_OBJECTS} o join pg_class c on c.oid = o."__sysTableId" and c.relkind = 'p'
where o."__sysLostTime" is null and exists (
    select from pg_partition_tree(c.oid) part where part.isleaf and part.relid::oid::bigint <> all(o."__sysParts"))
order by 1
"""
_LACKS_TRIGGERS = """
select exists (
    select from pg_trigger t where t.tgrelid = :table and t.tgname like :prefix and not exists (
        select from pg_trigger own
        where own.tgrelid = :leaf and own.tgname = t.tgname and own.tgenabled = t.tgenabled))
"""
