"""Partitions attached to a tracked table after it was enabled: tracked if no anchor can have seen their rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sqlalchemy import Connection, Engine, text

from rowtide.core.formats import StoreFormat
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.alterations import Committing, execute_all
from rowtide.databases.postgres.clock import unseen
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.databases.source_table import TablePartition
from rowtide.tracking.options import TrackedTable, TrackingOptions
from rowtide.tracking.postgres.subjects import CHANGE_BSN, PostgresSubject, subject_of
from rowtide.tracking.postgres.system_tables import TRACKED_OBJECTS, get_tracked, has_tracked_objects, read_as_made
from rowtide.tracking.postgres.trigger_text import PREFIX, truncate_trigger
from rowtide.tracking.postgres.verification import find_damage, put_as_it_is


def attach_partitions(connection: Connection, engine: Engine) -> None:
    """Track the new partitions of all tracked tables whose rows no anchor has seen.

    Found on one connection, and tracked, if there are any, on others. PostgreSQL clones row triggers to partitions;
    this adds those for truncates. Before that, a truncate removes only rows that no anchor has seen. Raises
    `LockNotObtained`.
    """
    is_tracking = has_tracked_objects(connection, StoreFormat.require_writable)
    names = connection.execute(text(_GROWN)).scalars().all() if is_tracking else []
    connection.commit()
    for name in names:
        Committing(engine).run(name, partial(_attach, name=name))


def _attach(connection: Connection, *, name: str) -> None:
    clock.stop_anchors(connection)
    tracked = get_tracked(connection, name)
    if find_damage(connection, tracked) is not None:
        return  # the enumeration says what that means
    subject = subject_of(connection, tracked)
    new = _find_new(connection, subject)
    for leaf in new:
        # From now on no other session writes it.
        execute_all(connection, [f"lock table {quote_qualified(leaf.schema, leaf.name)} in share row exclusive mode"])
    if find_known(connection, tracked):
        return  # as above
    for leaf in new:
        execute_all(connection, truncate_trigger(subject, quote_qualified(leaf.schema, leaf.name)))
    put_as_it_is(connection, tracked, subject)


def find_known(connection: Connection, tracked: TrackedTable) -> tuple[TablePartition, ...]:
    """Return the new partitions that cannot be tracked: an anchor may have seen their rows, or triggers are missing."""
    subject = subject_of(connection, tracked)
    new = _find_new(connection, subject)
    return tuple(leaf for leaf in new if not _is_unknown(connection, subject, leaf))


def _find_new(connection: Connection, subject: PostgresSubject) -> Sequence[TablePartition]:
    known = read_as_made(connection, subject.name).parts
    return [leaf for leaf in subject.table.row_holders if leaf.source_id not in known]


def _is_unknown(connection: Connection, subject: PostgresSubject, leaf: TablePartition) -> bool:
    """Whether no anchor has seen a partition's rows, and its triggers exist."""
    relation = quote_qualified(leaf.schema, leaf.name)
    parameters = {"table": subject.table.source_id, "leaf": leaf.source_id, "prefix": f"{PREFIX}%"}
    if connection.execute(text(_LACKS_TRIGGERS), parameters).scalar():
        return False
    last = clock.find_last(connection)
    if last is None:
        return True
    # Where inserts are not tracked, rows have no stamps before they are updated.
    without = "false" if TrackingOptions.INSERT in subject.options else "true"
    known = f"select exists (select from {relation} where not coalesce({unseen(quote(CHANGE_BSN), last)}, {without}))"
    return not connection.execute(statement(known)).scalar()


_GROWN = f"""
select o."__sysTN" from {TRACKED_OBJECTS} o join pg_class c on c.oid = o."__sysTableId" and c.relkind = 'p'
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
