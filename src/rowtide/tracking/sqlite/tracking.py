"""Change tracking of a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from uuid import UUID

from rowtide.core.anchors import Anchor
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.connect import IN_MEMORY, open_file, path_of, rehearsal, write_transaction
from rowtide.databases.sqlite.errors import translated
from rowtide.tracking.changes import Changes, EnumerationRequest, OwnTransaction
from rowtide.tracking.errors import TransactionOpen
from rowtide.tracking.options import PurgeType, TrackedTable, TrackingRequest
from rowtide.tracking.sqlite import enabling, enumeration, purge, queries, system_tables
from rowtide.tracking.sqlite.system_tables import require_tracking


class SqliteTracking:
    """See `ChangeTracking`; also raises `FileBusy` if another program keeps the file locked."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.transaction_bsn: int | None = None
        self._connection = connection

    def enable_tracking(self, asked: TrackingRequest, on_progress: Callable[[str], None]) -> TrackedTable:
        on_progress(f"Enabling {asked.table} ...")
        with self._altering() as own:
            return enabling.enable(own, asked)

    def disable_tracking(self, table: str) -> None:
        with self._altering() as own:
            enabling.disable(own, table)

    def resume_tracking(self, table: str) -> TrackedTable:
        with self._altering() as own:
            return enabling.resume(own, table)

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
            return purge.purge_tombstones(own, table, purge_type, value)

    def purge_transaction_sequence_data(self, purge_type: PurgeType, value: int) -> int:
        with self._own() as own:
            return purge.purge_transactions(own, purge_type, value)

    @contextmanager
    def changes(self, request: EnumerationRequest) -> Iterator[Changes]:
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
    """The same, of which enabling, disabling and resuming take no effect."""

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
