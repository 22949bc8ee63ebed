"""Change tracking of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection

from rowtide.core.anchors import Anchor
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.alterations import Alterations, Committing, rehearsing
from rowtide.databases.postgres.clock import AnchorSnapshot
from rowtide.databases.postgres.connect import open_engine_beside
from rowtide.databases.postgres.errors import translated
from rowtide.tracking.changes import Changes, EnumerationRequest, OwnTransaction
from rowtide.tracking.errors import TransactionOpen
from rowtide.tracking.options import PurgeType, TrackedTable, TrackingRequest
from rowtide.tracking.postgres import enabling, enumeration, purge, queries, system_tables


class PostgresTracking:
    """See `ChangeTracking`; also raises connection errors."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.transaction_bsn: int | None = None
        self._connection = connection
        self._engine = open_engine_beside(connection)

    def enable_tracking(self, asked: TrackingRequest, on_progress: Callable[[str], None]) -> TrackedTable:
        with self._altering(on_progress) as alterations:
            return enabling.enable(alterations, asked)

    def disable_tracking(self, table: str) -> None:
        with self._altering() as alterations:
            enabling.disable(alterations, table)

    def resume_tracking(self, table: str) -> TrackedTable:
        with self._altering() as alterations:
            return enabling.resume(alterations, table)

    def list_tracked(self) -> tuple[TrackedTable, ...]:
        with self._reading() as own:
            return system_tables.list_tracked(own)

    def get_tracked(self, table: str) -> TrackedTable:
        with self._reading() as own:
            return system_tables.get_tracked(own, table)

    def changed_since(self, table: str, key: Sequence[object], anchor: Anchor) -> bool:
        with self._reading() as own:
            packed = queries.pack_texts(own, table, key)
            query = enumeration.find_touched(own, table, packed, anchor, self.transaction_bsn)
        with translated():
            row = self._connection.execute(query.encode()).fetchone()
        return row is not None and bool(row[0])

    @contextmanager
    def transaction(self, context: UUID | None, seen: Anchor | None) -> Iterator[OwnTransaction]:
        with self._reading() as own:
            system_tables.require_tracking(own)
            taken = None if seen is None else clock.find_anchor_snapshot(own, seen)
        with _own_transaction(self._connection, context, taken) as transaction:
            self.transaction_bsn = transaction.bsn
            try:
                yield transaction
            finally:
                self.transaction_bsn = None

    def get_last_committed_csn(self) -> int:
        with self.changes(EnumerationRequest(())) as changes:
            return changes.anchor.csn

    def pack_tombstone_key(self, table: str, key: Sequence[object]) -> str:
        with self._reading() as own:
            return queries.pack_key(own, table, key)

    def unpack_tombstone_key(self, table: str, packed: str) -> tuple[object, ...]:
        with self._reading() as own:
            return queries.unpack_key(own, table, packed)

    def purge_tombstone_table_data(self, table: str | None, purge_type: PurgeType, value: int) -> int:
        with translated():
            return purge.purge_tombstones(self._engine, table, purge_type, value)

    def purge_transaction_sequence_data(self, purge_type: PurgeType, value: int) -> int:
        with translated():
            return purge.purge_transactions(self._engine, purge_type, value)

    @contextmanager
    def changes(self, request: EnumerationRequest) -> Iterator[Changes]:
        with ExitStack() as stack:
            # What fails in the caller's own statements, while it applies the changes, stays what it is.
            with translated():
                changes = stack.enter_context(enumeration.enumerate_changes(self._engine, request))
            yield changes

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with translated(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _altering(self, on_progress: Callable[[str], None] = lambda _message: None) -> Iterator[Alterations]:
        yield Committing(self._engine, on_progress)


class RehearsedPostgresTracking(PostgresTracking):
    """The same, of which enabling, disabling and resuming take no effect."""

    def __init__(self, connection: psycopg.Connection, statements: list[str]) -> None:
        super().__init__(connection)
        self._statements = statements

    @contextmanager
    def _altering(self, _on_progress: Callable[[str], None] = lambda _message: None) -> Iterator[Alterations]:
        with rehearsing(self._engine, self._statements) as alterations:
            yield alterations


def open_tracking(connection: psycopg.Connection) -> PostgresTracking:
    """Return the tracking of a connection's database; each kind of database has this function."""
    return PostgresTracking(connection)


def rehearse_tracking(connection: psycopg.Connection, statements: list[str]) -> RehearsedPostgresTracking:
    """Return tracking without effect, which adds what it would run to `statements`; each kind has this function."""
    return RehearsedPostgresTracking(connection, statements)


@contextmanager
def _own_transaction(
    connection: psycopg.Connection, context: UUID | None, seen: AnchorSnapshot | None
) -> Iterator[OwnTransaction]:
    """Write in one transaction, committed at the end. Raises `TransactionOpen`."""
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        raise TransactionOpen
    with connection.transaction():
        row = connection.execute(f"select {clock.BSN}".encode()).fetchone()
        assert row is not None
        if context is not None:
            connection.execute(clock.context_setting(context, seen).encode())
        renewed = None
        if seen is not None:
            renewed, insertion = clock.renewal(seen)
            connection.execute(insertion.encode())
        yield OwnTransaction(int(row[0]), renewed)
