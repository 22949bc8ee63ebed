"""The triggers of a tracked SQLite table.

They run in any program that writes to the file: SQLite's own functions only, no table outside the main schema, and no
statement that a unique key could stop, since a program's `insert or fail` makes `or fail` of every statement within.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.databases.sqlite.catalogue import Column, UniqueKey, UniqueTerm
from rowtide.databases.sqlite.clock import CLOCK_TABLE
from rowtide.databases.sqlite.quoting import quote
from rowtide.tracking.options import TrackingOptions
from rowtide.tracking.sqlite.stamps import Stamps
from rowtide.tracking.sqlite.subject import CONTEXT, Subject
from rowtide.tracking.sqlite.system_tables import TOMBSTONES

_KINDS = ("insert", "update", "key", "delete", "insert_displaces", "update_displaces")


def trigger_statements(subject: Subject, stamps: Stamps) -> dict[str, str]:
    """Return the statements that make a table's triggers, by their names."""
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
    """Return the names of all triggers that a table may have of tracking."""
    return tuple(_name(table, kind) for kind in _KINDS)


def update_trigger_name(table: str) -> str:
    """Return the name of the trigger that stamps updates: the one whose text lists the table's columns."""
    return _name(table, "update")


def _name(table: str, kind: str) -> str:
    return f"__sysTracking_{table}_{kind}"


def _stamping(subject: Subject, stamps: Stamps) -> dict[str, tuple[str, list[str]]]:
    """Return what stamps rows: when a trigger fires, and its statements.

    A row with a new key is deleted and inserted anew, for all who go by keys.
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
    """Return what writes tombstones.

    A row that another one displaces by REPLACE is deleted without a trigger, unless the program turned recursive
    triggers on. So whatever a new row could displace gets a tombstone before; it counts only while no row has the key.
    """
    table = subject.quoted
    displaced = _displaced(subject, subject.table.unique_keys)
    columns = ", ".join(_displacing_columns(subject))
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
    """Return the statement that writes tombstones of rows that `new` displaces.

    They carry no context: whoever wrote `new` need not know of them.
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


def _displaced(subject: Subject, keys: Sequence[UniqueKey]) -> str:
    """Return the condition that a row `r` cannot be beside `new`."""
    return "(" + " or ".join(_collides(subject, key) for key in keys) + ")"


def _collides(subject: Subject, key: UniqueKey) -> str:
    """Return the condition that `r` and `new` agree in a unique key. Names in expressions are those of `r`."""
    same = [
        f"{'r.' if term.is_column else ''}{term.expression} collate {term.collation} = {_of_new(subject, term)}"
        for term in key.terms
    ]
    limits = [] if key.where is None else [f"({key.where})", f"(select {key.where} from {_new_row(subject)})"]
    return " and ".join([*same, *limits])


def _of_new(subject: Subject, term: UniqueTerm) -> str:
    if not term.is_column:
        return f"(select {term.expression} from {_new_row(subject)})"
    column = next((column for column in subject.user_columns if quote(column.name) == term.expression), None)
    return f"new.{term.expression}" if column is None else _new_value(column)


def _new_row(subject: Subject) -> str:
    values = (f"{_new_value(column)} as {quote(column.name)}" for column in subject.user_columns)
    return f"(select {', '.join(values)})"


def _new_value(column: Column) -> str:
    """Return a value of `new`; REPLACE puts the default in the place of a null where there can be none."""
    name = f"new.{quote(column.name)}"
    return name if column.is_nullable or column.default is None else f"coalesce({name}, {column.default})"


def _displacing_columns(subject: Subject) -> Sequence[str]:
    """Return the columns by whose update a row can displace others, quoted."""
    keys = subject.table.unique_keys
    if not all(key.is_of_columns for key in keys):
        return subject.written_columns
    named = (term.expression for key in keys for term in key.terms)
    return tuple(dict.fromkeys([*named, *subject.rowid_names]))
