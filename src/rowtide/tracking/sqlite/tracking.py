"""Change tracking of a SQLite file: enabled, disabled, resumed, asked for its changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from uuid import UUID

from rowtide.core.anchors import Anchor
from rowtide.core.formats import StoreFormat
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.connect import IN_MEMORY, open_file, path_of, rehearsal, write_transaction
from rowtide.databases.sqlite.errors import translated
from rowtide.databases.sqlite.sql_text import quote
from rowtide.tracking.changes import EnumerationRequest, OwnTransaction, TrackedChanges
from rowtide.tracking.errors import (
    IndexNotOffered,
    NothingToTrack,
    TableToTrackNotFound,
    TrackedAlready,
    TransactionOpen,
)
from rowtide.tracking.options import PurgeType, StampIndex, Storage, TrackedTable, TrackingRequest
from rowtide.tracking.sqlite import enumeration, queries, system_tables
from rowtide.tracking.sqlite.stamps import removals_of_dropped, stamps_of
from rowtide.tracking.sqlite.system_tables import (
    WITH_CHANGES,
    create_system_tables,
    drop_system_tables,
    find_loss,
    find_renamed,
    find_tracked,
    get_tracked,
    has_tracked_objects,
    list_missing,
    list_tracked,
    put_tracked,
    remove_tracked,
    require_tracking,
    trigger_names,
    trigger_statements,
)
from rowtide.tracking.sqlite.tracked_tables import SqliteSubject, get_table, subject_of

_SYSTEM = "__sys"
"""Prefixes of the names of tracking's own tables."""
DEFAULT_INDEX = StampIndex.BTREE


def enable(connection: sqlite3.Connection, asked: TrackingRequest) -> TrackedTable:
    """Track a table from now on.

    Raises `NothingToTrack`, `IndexNotOffered`, `TableToTrackNotFound`, `TrackingKeyMissing`, `TrackedAlready`,
    `TrackingLost`.
    """
    name, index = asked.table, asked.index or DEFAULT_INDEX
    if not asked.options:
        raise NothingToTrack(name)
    if index is not StampIndex.BTREE:
        raise IndexNotOffered(name, index)
    if is_system_name(name):
        raise TableToTrackNotFound(name)
    has_tracked_objects(connection, StoreFormat.require_writable)
    create_system_tables(connection)
    found = find_tracked(connection, name)
    if found is not None:
        raise find_loss(connection, found) or TrackedAlready(name)
    table = get_table(connection, name)
    csn = clock.read(connection)
    tracked = TrackedTable(table.name, asked.key_type, asked.options, asked.storage, index, csn)
    if _has_trigger(connection, tracked):
        # A program dropped tracking's own tables: its triggers make all writes fail, and the old stamps are above the
        # new clock's.
        _take_down(connection, tracked)
    _set_up(connection, tracked)
    return tracked


def disable(connection: sqlite3.Connection, name: str) -> None:
    """Stop tracking a table, and remove tracking's objects; with the last table, all of them.

    So is what was made before formats had numbers, and what is left where a program dropped some of these. Raises
    `NotTracked`.
    """
    tracked = get_tracked(connection, name)
    missing = list_missing(connection)
    if missing:
        # Triggers name them: while one is missing, SQLite refuses to alter any table.
        create_system_tables(connection)
    _take_down(connection, tracked)
    remove_tracked(connection, tracked.name)
    if not list_tracked(connection):
        drop_system_tables(connection)
        return
    for table in missing & WITH_CHANGES:
        # An empty one would hide from readers of the other tables that changes were lost.
        connection.execute(f"drop table {table}")


def resume(connection: sqlite3.Connection, name: str) -> TrackedTable:
    """Track a table again after its tracking was lost; earlier anchors are refused. Raises as `enable`."""
    before = get_tracked(connection, name, StoreFormat.require_writable)
    tracked = replace(before, min_valid_csn=clock.read(connection), lost_time=None)
    get_table(connection, tracked.name)
    _drop_triggers(connection, tracked)
    _set_up(connection, tracked)
    return tracked


def is_system_name(name: str) -> bool:
    """Whether a table of this name is, or could be, one of tracking's own."""
    return name.lower().startswith(_SYSTEM)


def _set_up(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    """Create columns and triggers, and end the epoch: later changes are tracked."""
    for statement in stamps_of(subject_of(connection, tracked), tracked).creations():
        connection.execute(statement)
    _create_triggers(connection, tracked)
    put_tracked(connection, tracked)
    clock.end_epoch(connection)


def _create_triggers(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    subject = subject_of(connection, tracked)
    for statement in trigger_statements(subject, stamps_of(subject, tracked)).values():
        connection.execute(statement)


def _take_down(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    present = find_renamed(connection, tracked)
    _drop_triggers(connection, tracked)
    if find_table(connection, tracked.name) is None:
        for statement in removals_of_dropped(tracked.name):
            connection.execute(statement)
    if present is None or (present != tracked.name and find_tracked(connection, present) is not None):
        present = tracked.name
    table = find_table(connection, present)
    if table is None or (present != tracked.name and tracked.storage is not Storage.ROW):
        return
    for statement in stamps_of(SqliteSubject(table, (), tracked.options), tracked).removals():
        connection.execute(statement)


def _has_trigger(connection: sqlite3.Connection, tracked: TrackedTable) -> bool:
    found = "select 1 from sqlite_schema where type = 'trigger' and name = ?"
    return any(connection.execute(found, (name,)).fetchone() is not None for name in trigger_names(tracked.name))


def _drop_triggers(connection: sqlite3.Connection, tracked: TrackedTable) -> None:
    # By their names: a table that was renamed has taken them along.
    for name in trigger_names(tracked.name):
        connection.execute(f"drop trigger if exists {quote(name)}")


class SqliteTracking:
    """See `ChangeTracking`; also raises `FileBusy` if another program keeps the file locked."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.transaction_bsn: int | None = None
        self._connection = connection

    def enable_tracking(self, asked: TrackingRequest, on_progress: Callable[[str], None]) -> TrackedTable:
        on_progress(f"Enabling {asked.table} ...")
        with self._altering() as own:
            return enable(own, asked)

    def disable_tracking(self, table: str) -> None:
        with self._altering() as own:
            disable(own, table)

    def resume_tracking(self, table: str) -> TrackedTable:
        with self._altering() as own:
            return resume(own, table)

    def list_tracked(self) -> tuple[TrackedTable, ...]:
        with self._own() as own:
            return system_tables.list_tracked(own)

    def get_tracked(self, table: str) -> TrackedTable:
        with self._own() as own:
            return system_tables.get_tracked(own, table)

    def changed_since(self, table: str, key: Sequence[object], anchor: Anchor) -> bool:
        packed = queries.pack_key(self._connection, table, key)
        return enumeration.changed_since(self._connection, table, packed, anchor, self.transaction_bsn)

    @contextmanager
    def transaction(self, context: UUID | None, seen: Anchor | None) -> Iterator[OwnTransaction]:
        with _own_transaction(self._connection, context, seen) as transaction:
            self.transaction_bsn = transaction.bsn
            try:
                yield transaction
            finally:
                self.transaction_bsn = None

    def get_last_committed_csn(self) -> int:
        with self._own() as own, enumeration.enumerate_changes(own, EnumerationRequest(())) as changes:
            return changes.anchor.csn

    def pack_tombstone_key(self, table: str, key: Sequence[object]) -> str:
        with self._own() as own:
            return queries.pack_key(own, table, key)

    def unpack_tombstone_key(self, table: str, packed: str) -> tuple[object, ...]:
        with self._own() as own:
            return queries.unpack_key(own, table, packed)

    def purge_tombstone_table_data(self, table: str | None, purge_type: PurgeType, value: int) -> int:
        with self._own() as own:
            return enumeration.purge_tombstones(own, table, purge_type, value)

    def purge_transaction_sequence_data(self, purge_type: PurgeType, value: int) -> int:
        with self._own() as own:
            return enumeration.purge_transactions(own, purge_type, value)

    @contextmanager
    def changes(self, request: EnumerationRequest) -> Iterator[TrackedChanges]:
        with self._opened() as own, enumeration.enumerate_changes(own, request) as changes:
            yield changes

    @contextmanager
    def _own(self) -> Iterator[sqlite3.Connection]:
        """See `_opened`; raises `FileFailed` for SQLite's errors, which no caller's code may raise within."""
        with translated(path_of(self._connection)), self._opened() as own:
            yield own

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection of tracking's own to the file; for an in-memory database, the only one."""
        path = path_of(self._connection)
        if path == IN_MEMORY:
            yield self._connection
            return
        with closing(open_file(path)) as connection:
            yield connection

    @contextmanager
    def _altering(self) -> Iterator[sqlite3.Connection]:
        with self._own() as own, write_transaction(own):
            yield own


class RehearsedSqliteTracking(SqliteTracking):
    """Tracking whose enabling, disabling and resuming are rolled back."""

    def __init__(self, connection: sqlite3.Connection, statements: list[str]) -> None:
        super().__init__(connection)
        self._statements = statements

    @contextmanager
    def _altering(self) -> Iterator[sqlite3.Connection]:
        with self._own() as own, rehearsal(own, self._statements):
            yield own


def open_tracking(connection: sqlite3.Connection) -> SqliteTracking:
    """Return the tracking of a connection's database; each kind of database has this function."""
    return SqliteTracking(connection)


def rehearse_tracking(connection: sqlite3.Connection, statements: list[str]) -> RehearsedSqliteTracking:
    """Return tracking without effect, which adds what it would run to `statements`; each kind has this function."""
    return RehearsedSqliteTracking(connection, statements)


@contextmanager
def _own_transaction(
    connection: sqlite3.Connection, context: UUID | None, seen: Anchor | None
) -> Iterator[OwnTransaction]:
    """Write in an epoch that no other transaction shares.

    Raises `TransactionOpen`, `NothingTracked`, `UnknownAnchor`, `FileBusy`.
    """
    if connection.in_transaction:
        raise TransactionOpen
    with write_transaction(connection):
        require_tracking(connection)
        bsn = clock.end_epoch(connection)
        renewed = None if seen is None else clock.renew(connection, seen)
        if context is not None:
            clock.set_context(connection, context, seen)
        yield OwnTransaction(bsn, renewed)
        clock.end_epoch(connection)
