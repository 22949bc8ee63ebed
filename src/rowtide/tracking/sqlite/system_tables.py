"""The objects of tracking in a SQLite file: tables of tombstones and commits, triggers, and their verification."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence, Set

from rowtide.core.errors import RowtideError
from rowtide.core.formats import FormatNewer, FormatOutdated, FormatUnnumbered, Requirement, StoreFormat, require
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.catalogue import find_table, has_table, read_triggers
from rowtide.databases.sqlite.clock import ANCHORS_TABLE, CLOCK_TABLE
from rowtide.databases.sqlite.connect import path_of
from rowtide.databases.sqlite.guarding import CHANGES, WRITING, format_creation, guard, read_format, writing
from rowtide.databases.sqlite.sql_text import quote
from rowtide.tracking.errors import NothingTracked, NotTracked, TrackedTableGone, TrackingKeyMissing, TrackingLost
from rowtide.tracking.options import StampIndex, Storage, TrackedTable, TrackingKeyType, TrackingOptions
from rowtide.tracking.sqlite.stamps import SqliteStamps, stamps_of
from rowtide.tracking.sqlite.tracked_tables import CONTEXT, SqliteSubject, subject_of

TOMBSTONES = "__sysOCSDeletedRows"
COMMIT_SEQUENCE = "__sysTxCommitSequence"
TRACKED_OBJECTS = "__sysOCSTrackedObjects"
WITH_CHANGES = frozenset((TOMBSTONES, CLOCK_TABLE, ANCHORS_TABLE))
"""The tables without whose contents changes are lost."""
FORMAT = StoreFormat("change tracking of the file")
"""The format of the tables, and of the triggers of the tracked tables."""
FORMAT_VIEW = "__sysFormat"

# The numbers of tombstones rise with their BSN, so that a window is found without an index.
_TOMBSTONE_COLUMNS = (
    "__sysId integer primary key, __sysTN text not null, __sysDeleteTxBsn integer not null, __sysInsertTxBsn integer, "
    "__sysRK text not null, __sysDeletedTime real not null, __sysTrackingContext text"
)
# One program writes at a time, so that no transaction commits out of sequence: nothing is ever in it.
_SEQUENCE_COLUMNS = "__sysTxBsn integer primary key, __sysTxCsn integer not null, __sysCommitTime real not null"
_OBJECT_COLUMNS = (
    "__sysTN text primary key collate nocase, __sysKeyType text not null, __sysOptions integer not null, "
    "__sysStorage text not null, __sysMinValidCsn integer not null, __sysLostTime text"
)
_COLUMNS = {TOMBSTONES: _TOMBSTONE_COLUMNS, COMMIT_SEQUENCE: _SEQUENCE_COLUMNS, TRACKED_OBJECTS: _OBJECT_COLUMNS}


def create_system_tables(connection: sqlite3.Connection) -> None:
    """Create the clock and the tables that do not exist, in the caller's transaction."""
    clock.create(connection)
    for table, columns in _COLUMNS.items():
        connection.execute(f"create table if not exists {table} ({columns})")
    # Tombstones are inserted by triggers, in the statements of programs.
    guard(connection, TOMBSTONES, CHANGES)
    for table in (COMMIT_SEQUENCE, TRACKED_OBJECTS):
        guard(connection, table)
    connection.execute(format_creation(FORMAT_VIEW, FORMAT))


def list_missing(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the tables that a program has dropped, but for the catalogue itself; none of a file without a format."""
    if read_format(connection, FORMAT_VIEW) is None:
        return frozenset()
    needed = WITH_CHANGES | {COMMIT_SEQUENCE, WRITING}
    return frozenset(table for table in needed if not has_table(connection, table))


def drop_system_tables(connection: sqlite3.Connection) -> None:
    """Drop all of them, in the caller's transaction."""
    for table in _COLUMNS:
        connection.execute(f"drop table {table}")
    connection.execute(f"drop view if exists {FORMAT_VIEW}")
    clock.drop(connection)


def has_tracked_objects(
    connection: sqlite3.Connection, requirement: Requirement = StoreFormat.require_readable
) -> bool:
    """Whether the catalogue exists; or did, by the tombstones that were made with it: a query says what is missing.

    Raises `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` as `requirement` does for its format.
    """
    statement = "select 1 from main.sqlite_schema where name in (?, ?)"
    if connection.execute(statement, (TRACKED_OBJECTS, TOMBSTONES)).fetchone() is None:
        return False
    require(requirement, FORMAT, path_of(connection), read_format(connection, FORMAT_VIEW))
    return True


def find_refusal(connection: sqlite3.Connection) -> RowtideError | None:
    """Return why this build does not read what is tracked; None if it does."""
    try:
        has_tracked_objects(connection)
    except (FormatNewer, FormatOutdated, FormatUnnumbered) as refusal:
        return refusal
    return None


def require_tracking(connection: sqlite3.Connection) -> None:
    """Raise `NothingTracked` if no table is tracked; as `StoreFormat.require_writable` for another format."""
    if not has_tracked_objects(connection, StoreFormat.require_writable):
        raise NothingTracked


def list_tracked(
    connection: sqlite3.Connection, requirement: Requirement = StoreFormat.require_readable
) -> tuple[TrackedTable, ...]:
    """Return all tracked tables by name. Raises as `requirement` for another format."""
    if not has_tracked_objects(connection, requirement):
        return ()
    rows = connection.execute(
        "select __sysTN, __sysKeyType, __sysOptions, __sysStorage, __sysMinValidCsn, __sysLostTime "
        f"from {TRACKED_OBJECTS} order by __sysTN"
    ).fetchall()
    return tuple(_tracked(*row) for row in rows)


def find_tracked(
    connection: sqlite3.Connection, name: str, requirement: Requirement = StoreFormat.require_readable
) -> TrackedTable | None:
    """Return a tracked table by its name, in any case; None if there is none. Raises as `requirement`."""
    tracked = list_tracked(connection, requirement)
    return next((one for one in tracked if one.name.lower() == name.lower()), None)


def get_tracked(
    connection: sqlite3.Connection, name: str, requirement: Requirement = StoreFormat.require_readable
) -> TrackedTable:
    """Return a tracked table by its name, in any case. Raises `NotTracked`; as `requirement` for another format."""
    tracked = find_tracked(connection, name, requirement)
    if tracked is None:
        raise NotTracked(name)
    return tracked


def put_tracked(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    """Write a tracked table to the catalogue, in the caller's transaction."""
    values = (
        tracked.name,
        tracked.key_type,
        tracked.options.value,
        tracked.storage,
        tracked.min_valid_csn,
        tracked.lost_time,
    )
    with writing(connection):
        connection.execute(f"insert or replace into {TRACKED_OBJECTS} values (?, ?, ?, ?, ?, ?)", values)


def remove_tracked(connection: sqlite3.Connection, name: str) -> None:
    """Remove a table with its tombstones, in the caller's transaction."""
    with writing(connection):
        connection.execute(f"delete from {TRACKED_OBJECTS} where __sysTN = ?", (name,))
        connection.execute(f"delete from {TOMBSTONES} where __sysTN = ?", (name,))


def _tracked(
    name: str, key_type: str, options: int, storage: str, min_valid_csn: int, lost_time: str | None
) -> TrackedTable:
    return TrackedTable(
        name,
        TrackingKeyType(key_type),
        TrackingOptions(options),
        Storage(storage),
        StampIndex.BTREE,
        min_valid_csn,
        lost_time,
    )


_KINDS = ("insert", "update", "key", "delete", "insert_displaces", "update_displaces")


def trigger_statements(subject: SqliteSubject, stamps: SqliteStamps) -> dict[str, str]:
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


def _stamping(subject: SqliteSubject, stamps: SqliteStamps) -> dict[str, tuple[str, list[str]]]:
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


def _burying(subject: SqliteSubject, stamps: SqliteStamps) -> dict[str, tuple[str, list[str]]]:
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


def _burial(subject: SqliteSubject, stamps: SqliteStamps) -> str:
    """Return the statement that writes the tombstone of `old`."""
    return _tombstones(subject, stamps, "old", "__sysContext", CLOCK_TABLE)


def _displacement(subject: SqliteSubject, stamps: SqliteStamps, condition: str) -> str:
    """Return the statement that writes tombstones for rows that `new` displaces.

    They carry no context: the writer of `new` need not know of them.
    """
    source = f"{subject.quoted} r cross join {CLOCK_TABLE} where {condition}"
    return _tombstones(subject, stamps, "r", "null", source)


def _tombstones(subject: SqliteSubject, stamps: SqliteStamps, row: str, context: str, source: str) -> str:
    return (
        f"insert into {TOMBSTONES} "
        f"(__sysTN, __sysDeleteTxBsn, __sysInsertTxBsn, __sysRK, __sysDeletedTime, {CONTEXT}) "
        f"select {subject.literal}, __sysBsn, {stamps.insert_bsn(row)}, {subject.packed_key(row)}, julianday('now'), "
        f"{context} from {source}"
    )


_UPDATE_OF = re.compile(r'( (?:after|before) update of )((?:"(?:[^"]|"")*"|\w+)(?:, (?:"(?:[^"]|"")*"|\w+))*)( on )')
_HOLDER = "select tbl_name from sqlite_schema where type = 'trigger' and name = :trigger"
_NAME = re.compile(r'"(?:[^"]|"")*"|\w+')


def find_loss(connection: sqlite3.Connection, tracked: TrackedTable) -> TrackingLost | None:
    """Return what of a table's tracking was altered; added or dropped columns do not count."""
    is_gone = find_table(connection, tracked.name) is None
    if tracked.lost_time is not None and not is_gone:
        return TrackingLost(tracked.name, tracked.lost_time, "it has not been resumed")
    what = _say_gone(connection, tracked) if is_gone else _find_difference(connection, tracked)
    if what is None:
        return None
    lost_time = tracked.lost_time or str(connection.execute("select datetime('now')").fetchone()[0])
    return (TrackedTableGone if is_gone else TrackingLost)(tracked.name, lost_time, what)


def _say_gone(connection: sqlite3.Connection, tracked: TrackedTable) -> str:
    renamed = find_renamed(connection, tracked)
    return "there is no such table any more" if renamed is None else f"the table is called {renamed} now"


def find_renamed(connection: sqlite3.Connection, tracked: TrackedTable) -> str | None:
    """Return the name that a tracked table has now: a table that is renamed keeps its triggers, which keep theirs."""
    found = connection.execute(_HOLDER, {"trigger": update_trigger_name(tracked.name)}).fetchone()
    return None if found is None else str(found[0])


def _find_difference(connection: sqlite3.Connection, tracked: TrackedTable) -> str | None:
    try:
        subject = subject_of(connection, tracked)
    except TrackingKeyMissing:
        return f"it has no {tracked.key_type} any more"
    stamps = stamps_of(subject, tracked)
    if not stamps.is_there(connection):
        return "the stamps of its rows are gone"
    found = read_triggers(connection, subject.name)
    for name, statement in trigger_statements(subject, stamps).items():
        if name not in found:
            return f"the trigger {name} is gone"
        if _without_columns(found[name]) != _without_columns(statement):
            return f"the trigger {name}, or a unique key that it watches, was changed"
    return None


def _without_columns(statement: str) -> str:
    return _UPDATE_OF.sub(r"\1\3", statement, count=1)


def changed_triggers(connection: sqlite3.Connection, tracked: TrackedTable) -> dict[str, str]:
    """Return the triggers that added or dropped columns make obsolete, by name, with their new text."""
    subject = subject_of(connection, tracked)
    found, wanted = read_triggers(connection, subject.name), trigger_statements(subject, stamps_of(subject, tracked))
    return {name: statement for name, statement in wanted.items() if found[name] != statement}


def repair(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    """Adapt triggers to added and dropped columns, in the caller's write transaction.

    A row whose added column is not at its default counts as changed.
    """
    subject = subject_of(connection, tracked)
    found, wanted = read_triggers(connection, subject.name), changed_triggers(connection, tracked)
    for name, statement in wanted.items():
        connection.execute(f"drop trigger {quote(name)}")
        connection.execute(statement)
    update = update_trigger_name(subject.name)
    if update in wanted:
        _stamp_columns(connection, subject, set(_columns(wanted[update])) - set(_columns(found[update])))


def _stamp_columns(connection: sqlite3.Connection, subject: SqliteSubject, added: Set[str]) -> None:
    """Stamp the rows with a value in an added column, through the trigger of updates."""
    for column in subject.user_columns:
        name = quote(column.name)
        if name in added:
            connection.execute(
                f"update {subject.quoted} set {name} = {name} where {name} is not {column.default or 'null'}"
            )


def _columns(statement: str) -> Sequence[str]:
    listed = _UPDATE_OF.search(statement)
    return [] if listed is None else _NAME.findall(listed[2])
