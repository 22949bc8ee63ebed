"""The triggers of a tracked SQLite table.

They run in any program that writes to the file: with SQLite's built-in functions and tables of the main schema only,
and without statements that a unique key could stop, since a program's `insert or fail` also applies to every statement
within a trigger.
"""

from __future__ import annotations

from rowtide.databases.sqlite.clock import CLOCK_TABLE
from rowtide.databases.sqlite.quoting import quote
from rowtide.tracking.options import TrackingOptions
from rowtide.tracking.sqlite.stamps import Stamps
from rowtide.tracking.sqlite.subject import CONTEXT, Subject
from rowtide.tracking.sqlite.system_tables import TOMBSTONES

_KINDS = ("insert", "update", "key", "delete", "insert_displaces", "update_displaces")


def trigger_statements(subject: Subject, stamps: Stamps) -> dict[str, str]:
    """Return the statements that create a table's triggers, by trigger name."""
    bodies = _stamping(subject, stamps)
    if TrackingOptions.DELETE in subject.options:
        bodies |= _burying(subject, stamps)
    return {
        name: f"create trigger {quote(name)} {event} begin {'; '.join(statements)}; end"
        for name, event, statements in (
            (_name(subject.name, kind), event, statements) for kind, (event, statements) in bodies.items()
        )
    }


def trigger_names(table: str) -> tuple[str, ...]:
    """Return the names of all triggers that tracking may create on a table."""
    return tuple(_name(table, kind) for kind in _KINDS)


def update_trigger_name(table: str) -> str:
    """Return the name of the trigger that stamps updates, whose text lists the table's columns."""
    return _name(table, "update")


def _name(table: str, kind: str) -> str:
    return f"__sysTracking_{table}_{kind}"


def _stamping(subject: Subject, stamps: Stamps) -> dict[str, tuple[str, list[str]]]:
    """Return the triggers that stamp rows: when each fires, and its statements.

    A row with a changed key counts as deleted and inserted.
    """
    bodies = {}
    if TrackingOptions.INSERT in subject.options:
        bodies["insert"] = (f"after insert on {subject.quoted}", stamps.of_insert())
    if TrackingOptions.UPDATE in subject.options:
        columns = ", ".join(subject.written_columns)
        bodies["update"] = (f"after update of {columns} on {subject.quoted}", stamps.of_update())
    buried = [_burial(subject, stamps)] if TrackingOptions.DELETE in subject.options else []
    keys = f"after update of {', '.join(subject.key_names)} on {subject.quoted} when {subject.key_differs()}"
    bodies["key"] = (keys, [*buried, *stamps.of_key()])
    return bodies


def _burying(subject: Subject, stamps: Stamps) -> dict[str, tuple[str, list[str]]]:
    """Return the triggers that write tombstones.

    A row that REPLACE deletes fires no trigger, unless the program enables recursive triggers. Therefore every row that
    a new row could displace gets a tombstone first; it counts only while no row has the key.
    """
    table = subject.quoted
    displaced = subject.displacement.condition
    columns = ", ".join(subject.displacement.displacing_columns)
    others = f"{displaced} and not ({subject.same_row('r', 'old')})"
    return {
        "delete": (f"after delete on {table}", [_burial(subject, stamps), *stamps.forgetting()]),
        "insert_displaces": (
            f"before insert on {table} when exists (select 1 from {table} r where {displaced})",
            [_displacement(subject, stamps, displaced)],
        ),
        "update_displaces": (
            f"before update of {columns} on {table} when exists (select 1 from {table} r where {others})",
            [_displacement(subject, stamps, others)],
        ),
    }


def _burial(subject: Subject, stamps: Stamps) -> str:
    """Return the statement that writes the tombstone of `old`."""
    return _tombstones(subject, stamps, "old", "__sysContext", CLOCK_TABLE)


def _displacement(subject: Subject, stamps: Stamps, condition: str) -> str:
    """Return the statement that writes tombstones for rows that `new` displaces.

    They carry no context: the writer of `new` need not know of them.
    """
    source = f"{subject.quoted} r cross join {CLOCK_TABLE} where {condition}"
    return _tombstones(subject, stamps, "r", "null", source)


def _tombstones(subject: Subject, stamps: Stamps, row: str, context: str, source: str) -> str:
    return (
        f"insert into {TOMBSTONES} "
        f"(__sysTN, __sysDeleteTxBsn, __sysInsertTxBsn, __sysRK, __sysDeletedTime, {CONTEXT}) "
        f"select {subject.literal}, __sysBsn, {stamps.insert_bsn(row)}, {subject.packed_key(row)}, julianday('now'), "
        f"{context} from {source}"
    )
