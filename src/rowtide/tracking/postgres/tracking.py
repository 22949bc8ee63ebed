"""Change tracking of a PostgreSQL database: enabled, disabled, resumed, asked for its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, text

from rowtide.core.anchors import Anchor
from rowtide.core.formats import StoreFormat
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.alterations import (
    Alterations,
    Committing,
    build_index,
    execute_all,
    read_validity,
    rehearsing,
)
from rowtide.databases.postgres.catalogue import read_table
from rowtide.databases.postgres.clock import AnchorSnapshot
from rowtide.databases.postgres.connect import open_engine_beside
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.databases.postgres.rowguid import ROWGUID, is_made_here, make_rowguid, rowguid_key
from rowtide.databases.source_table import SourceTable, TableKind
from rowtide.tracking.changes import EnumerationRequest, OwnTransaction, TrackedChanges
from rowtide.tracking.errors import (
    NothingToTrack,
    StorageNotOffered,
    TableToTrackNotFound,
    TrackedAlready,
    TransactionOpen,
)
from rowtide.tracking.options import PurgeType, StampIndex, Storage, TrackedTable, TrackingKeyType, TrackingRequest
from rowtide.tracking.postgres import enumeration, queries, system_tables
from rowtide.tracking.postgres.stamps import find_blocker, stamps_of
from rowtide.tracking.postgres.system_tables import get_tracked, has_tracked_objects, list_tracked, remove_tracked
from rowtide.tracking.postgres.tracked_tables import (
    CHANGE_BSN,
    PostgresSubject,
    find_present,
    find_trackable,
    find_tracked,
    with_key,
)
from rowtide.tracking.postgres.triggers import PREFIX
from rowtide.tracking.postgres.verification import put_as_it_is, require_sound

MAKER = "rowtide change tracking"
"""Comment on a column `rowguid` that tracking added, and drops again."""

DEFAULT_INDEX = StampIndex.BRIN
_INDEX_FORMS = {
    # BRIN: unlike a btree, it does not prevent HOT updates.
    StampIndex.BRIN: "using brin ({}) with (autosummarize = on)",
    # All rows of a transaction have one stamp: deduplicating a full page would cost an update more than the index
    # itself.
    StampIndex.BTREE: "({0}) with (deduplicate_items = off) where {0} is not null",
}


def enable(alterations: Alterations, asked: TrackingRequest) -> TrackedTable:
    """Track a table from now on; a repeat completes an interrupted call.

    Raises `NothingToTrack`, `StorageNotOffered`, `TableToTrackNotFound`, `TrackingKeyMissing`, `TrackedAlready`,
    `TrackingLost`, `LockNotObtained`.
    """
    if not asked.options:
        raise NothingToTrack(asked.table)
    # A column that is missing is filled in transactions of its own: the one that makes the triggers holds back writers.
    lacking = alterations.run(asked.table, partial(_find_lacking_rowguid, asked=asked))
    if lacking is not None:
        make_rowguid(alterations, lacking.table, MAKER)
    tracked, subject = alterations.run(asked.table, partial(_begin, asked=asked, has_new_key=lacking is not None))
    _build_stamp_index(alterations, tracked, subject)
    return tracked


def disable(alterations: Alterations, name: str) -> None:
    """Stop tracking a table, and remove tracking's objects; with the last table, all of them.

    So is what was made before formats had numbers. Raises `NotTracked`, `LockNotObtained`.
    """
    alterations.run(name, partial(_end, name=name))


def resume(alterations: Alterations, name: str) -> TrackedTable:
    """Track a table again after its tracking was lost; earlier anchors are refused for it. Raises as `enable`."""
    tracked, subject = alterations.run(name, partial(_begin_again, name=name))
    _build_stamp_index(alterations, tracked, subject)
    return tracked


def stamp_index_of(subject: PostgresSubject) -> tuple[str, str]:
    """Return the schema and name of the index on a table's stamps."""
    return stamps_of(subject).holder[0], f"__sysChanges_{subject.table.source_id}"


def can_be_given_rowguid(connection: Connection, table: SourceTable) -> bool:
    """Whether enabling a table with a rowguid key would add the column."""
    is_theirs = any(column.name == ROWGUID for column in table.columns) and not is_made_here(connection, table, MAKER)
    # The unique indexes of a partitioned table have its partition key too.
    return not (is_theirs or table.kind is TableKind.PARTITIONED)


def _find_lacking_rowguid(connection: Connection, *, asked: TrackingRequest) -> PostgresSubject | None:
    """Return the table if its key is a column that must be added first."""
    has_tracked_objects(connection, StoreFormat.require_writable)
    table = find_trackable(connection, asked.table)
    if asked.key_type is not TrackingKeyType.ROWGUID or find_tracked(connection, table) is not None:
        return None
    if rowguid_key(table) or not can_be_given_rowguid(connection, table):
        return None
    return PostgresSubject(table, (), asked.options, asked.storage)


def _begin(
    connection: Connection, *, asked: TrackingRequest, has_new_key: bool
) -> tuple[TrackedTable, PostgresSubject]:
    execute_all(connection, system_tables.CREATIONS)
    table = find_trackable(connection, asked.table)
    found = find_tracked(connection, table)
    if found is not None:
        require_sound(connection, found)
        return found, _unfinished(connection, with_key(table, found))
    # An anchor taken before this transaction ends would be accepted for the table, although changes after it
    # were written without triggers.
    index = asked.index or DEFAULT_INDEX
    csn = clock.stop_anchors(connection)
    tracked = TrackedTable(table.qualified_name, asked.key_type, asked.options, asked.storage, index, csn)
    if has_new_key:
        key = tuple(column for column in table.columns if column.name == ROWGUID)
        subject = PostgresSubject(table, key, tracked.options, tracked.storage)
    else:
        subject = with_key(table, tracked)
    _set_up(connection, tracked, subject)
    return tracked, subject


def _unfinished(connection: Connection, subject: PostgresSubject) -> PostgresSubject:
    """Return a tracked table whose index was not built before an interruption. Raises `TrackedAlready` for others."""
    if read_validity(connection, stamp_index_of(subject)):
        raise TrackedAlready(subject.name)
    return subject


def _begin_again(connection: Connection, *, name: str) -> tuple[TrackedTable, PostgresSubject]:
    before = get_tracked(connection, name, StoreFormat.require_writable)
    table = _take_down(connection, before)
    if table is None:
        raise TableToTrackNotFound(before.name)
    remove_tracked(connection, before.name)
    csn = clock.stop_anchors(connection)
    tracked = replace(before, name=table.qualified_name, min_valid_csn=csn, lost_time=None)
    subject = with_key(read_table(connection, table.source_id), tracked)
    _set_up(connection, tracked, subject)
    return tracked, subject


def _end(connection: Connection, *, name: str) -> None:
    tracked = get_tracked(connection, name)
    table = _take_down(connection, tracked)
    if table is not None and is_made_here(connection, table, MAKER):
        quoted = quote_qualified(table.schema, table.name)
        connection.execute(statement(f"alter table {quoted} drop column {ROWGUID}"))
    remove_tracked(connection, tracked.name)
    if not list_tracked(connection):
        connection.execute(statement(f"drop schema {clock.SCHEMA} cascade"))


def _set_up(connection: Connection, tracked: TrackedTable, subject: PostgresSubject) -> None:
    blocker = find_blocker(subject.table, {column.name for column in subject.key})
    if subject.storage is Storage.SIDE and blocker is not None:
        raise StorageNotOffered(subject.name, subject.storage, blocker)
    stamps = stamps_of(subject)
    execute_all(connection, [*stamps.creations(), *stamps.trigger_creations()])
    put_as_it_is(connection, tracked, subject)


def _take_down(connection: Connection, tracked: TrackedTable) -> SourceTable | None:
    """Remove tracking's objects from a table, and return it; None if it was dropped."""
    source_id, table = find_present(connection, tracked)
    _remove_triggers(connection, source_id, table)
    if table is not None:
        as_tracked = replace(table, source_id=source_id)
        execute_all(connection, stamps_of(PostgresSubject(as_tracked, (), tracked.options, tracked.storage)).removals())
    return table


def _remove_triggers(connection: Connection, source_id: int, table: SourceTable | None) -> None:
    """Drop the triggers of a table and of its present and former partitions, with their functions.

    `source_id` is the table's oid when it was enabled, which is part of the functions' names.
    """
    table_id = source_id if table is None else table.source_id
    parameters = {"source_id": source_id, "table_id": table_id, "prefix": f"{PREFIX}%", "schema": clock.SCHEMA}
    for removals in (_TRIGGER_REMOVALS, _FUNCTION_REMOVALS):
        execute_all(connection, connection.execute(text(removals), parameters).scalars().all())


def _build_stamp_index(alterations: Alterations, tracked: TrackedTable, subject: PostgresSubject) -> None:
    holder, stamp = quote_qualified(*stamps_of(subject).holder), quote(CHANGE_BSN)
    definition = f"on {holder} {_INDEX_FORMS[tracked.index].format(stamp)}"
    build_index(alterations, subject.table, stamp_index_of(subject), definition)


_OWN_FUNCTIONS = """
select p.oid, p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname = :schema and p.proname like '%\\_' || :source_id
"""
# Clones of a trigger at partitions cannot be dropped by themselves: they go with it.
_TRIGGER_REMOVALS = f"""
with own as ({_OWN_FUNCTIONS})
select format('drop trigger %I on %I.%I', t.tgname, n.nspname, c.relname)
from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
where t.tgname like :prefix and t.tgparentid = 0
  and (t.tgrelid = :table_id or t.tgfoid in (select oid from own))
"""
_FUNCTION_REMOVALS = f"""
with own as ({_OWN_FUNCTIONS}) select format('drop function %I.%I()', :schema, proname) from own
"""


class PostgresTracking:
    """See `ChangeTracking`; also raises connection errors."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.transaction_bsn: int | None = None
        self._connection = connection
        self._engine = open_engine_beside(connection)

    def enable_tracking(self, asked: TrackingRequest, on_progress: Callable[[str], None]) -> TrackedTable:
        with self._altering(on_progress) as alterations:
            return enable(alterations, asked)

    def disable_tracking(self, table: str) -> None:
        with self._altering() as alterations:
            disable(alterations, table)

    def resume_tracking(self, table: str) -> TrackedTable:
        with self._altering() as alterations:
            return resume(alterations, table)

    def list_tracked(self) -> tuple[TrackedTable, ...]:
        with self._reading() as own:
            return system_tables.list_tracked(own)

    def get_tracked(self, table: str) -> TrackedTable:
        with self._reading() as own:
            return system_tables.get_tracked(own, table)

    def changed_since(self, table: str, key: Sequence[object], anchor: Anchor) -> bool:
        with self._reading() as own:
            packed = queries.pack_texts(own, table, key)
            while True:
                subject, query = enumeration.find_touched(own, table, packed, anchor, self.transaction_bsn)
                with self._connection.transaction():
                    self._connection.execute(enumeration.locking([subject]).encode())
                    if enumeration.is_safe(own, [subject]):
                        with _reading_all_rows(self._connection):
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
            return enumeration.purge_tombstones(self._engine, table, purge_type, value)

    def purge_transaction_sequence_data(self, purge_type: PurgeType, value: int) -> int:
        with translated():
            return enumeration.purge_transactions(self._engine, purge_type, value)

    @contextmanager
    def changes(self, request: EnumerationRequest) -> Iterator[TrackedChanges]:
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
    """Tracking whose enabling, disabling and resuming are rolled back."""

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
def _reading_all_rows(connection: psycopg.Connection) -> Iterator[None]:
    """Let statements that policies would hide rows from fail, within a transaction of the program's."""
    before = "pg_catalog.current_setting('row_security')"
    row = connection.execute(f"select {before}, pg_catalog.set_config('row_security', 'off', true)".encode()).fetchone()
    assert row is not None
    yield
    connection.execute("select pg_catalog.set_config('row_security', %s, true)", row[:1])


@contextmanager
def _own_transaction(
    connection: psycopg.Connection, context: UUID | None, seen: AnchorSnapshot | None
) -> Iterator[OwnTransaction]:
    """Write in one transaction, committed at the end. Raises `TransactionOpen`."""
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        raise TransactionOpen
    with connection.transaction():
        # This gives the transaction its number, which the stamps of all its changes have.
        row = connection.execute(f"select {clock.BSN}".encode()).fetchone()
        assert row is not None
        if context is not None:
            connection.execute(clock.context_setting(context, seen).encode())
        renewed = None
        if seen is not None:
            renewed, insertion = clock.renewal(seen)
            connection.execute(insertion.encode())
        yield OwnTransaction(int(row[0]), renewed)
