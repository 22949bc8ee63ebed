"""`ChangeTracking`: SQL Server Compact's SqlCeChangeTracking for the databases of rowtide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from rowtide.core.anchors import Anchor
from rowtide.core.formats import removing
from rowtide.core.options import member_of, takes
from rowtide.databases.urls import DatabaseUrl, find_kind_of_driver, parse_url
from rowtide.tracking.changes import EnumerationRequest, OwnTransaction, TrackedChanges
from rowtide.tracking.errors import NoTransaction, NotTracked, TableToTrackNotFound, UnknownConnection
from rowtide.tracking.options import PurgeType, TrackedTable, TrackingOptions, TrackingRequest

if TYPE_CHECKING:
    import sqlite3

    import psycopg

    from rowtide.tracking.postgres.tracking import PostgresTracking
    from rowtide.tracking.sqlite.tracking import SqliteTracking

    Connection = sqlite3.Connection | psycopg.Connection
    TrackedDatabase: TypeAlias = SqliteTracking | PostgresTracking


class TrackingEnabling:
    """What is tracked of a database."""

    _database: TrackedDatabase

    @takes(TrackingRequest)
    def enable_tracking(self, asked: TrackingRequest) -> TrackedTable:
        """Track a table from now on, whichever program writes to it (SQL Server Compact: EnableTracking).

        Raises `NothingToTrack`, `IndexNotOffered`,
        `StorageNotOffered`, `TableToTrackNotFound`, `TrackingKeyMissing`, `TrackedAlready`, `LockNotObtained`.
        """
        _named(asked.table)
        return self._database.enable_tracking(asked, asked.on_progress)

    def disable_tracking(self, table: str) -> None:
        """Stop tracking a table; remove columns, triggers and tombstones (SQL Server Compact: DisableTracking).

        Raises `NotTracked`.
        """
        with removing():
            self._database.disable_tracking(_named(table))

    def resume_tracking(self, table: str) -> TrackedTable:
        """Track a table again after its tracking was lost; earlier anchors are refused for it. Raises as enabling."""
        return self._database.resume_tracking(_named(table))


class TrackingRehearsal(TrackingEnabling):
    """The same calls without effect; `statements` has what they would run."""

    def __init__(self, connection: Connection) -> None:
        self.statements: list[str] = []
        self._database = _load_part(connection).rehearse_tracking(connection, self.statements)


class ChangeTracking(TrackingEnabling):
    """Change tracking of a connection's database (SQL Server Compact: SqlCeChangeTracking).

    It works on connections of its own to the same database, and uses the given one only for `transaction`. For an
    in-memory database, it uses the given connection for everything.
    """

    def __init__(self, connection: Connection) -> None:
        """Choose the database by the driver of the connection. Raises `UnknownConnection`."""
        self._connection = connection
        self._database = _load_part(connection).open_tracking(connection)

    def rehearsal(self) -> TrackingRehearsal:
        """Return an object that enables, disables and resumes without effect, and has the statements."""
        return TrackingRehearsal(self._connection)

    def list_tracked(self) -> tuple[TrackedTable, ...]:
        """Return the tracked tables, by name."""
        return self._database.list_tracked()

    def get_tracked(self, table: str) -> TrackedTable:
        """Return how a table is tracked. Raises `NotTracked`."""
        return self._database.get_tracked(_named(table))

    def get_tracking_options(self, table: str) -> TrackingOptions | None:
        """Return what is tracked of a table; None if it is not tracked (SQL Server Compact: GetTrackingOptions)."""
        try:
            return self.get_tracked(table).options
        except NotTracked:
            return None

    def changes(
        self,
        tables: Sequence[str] | str,
        since: Anchor | str | None = None,
        *,
        exclude_context: UUID | None = None,
        whole: Sequence[str] = (),
        as_texts: bool = False,
    ) -> AbstractContextManager[TrackedChanges]:
        """Return the net changes of some tables since an anchor, in one snapshot, with the next anchor.

        Without an anchor, and for the tables in `whole`, all rows are returned as inserts: a full copy. List parents
        before their children: inserts and updates come in this order, after the deletes in reverse order.
        `exclude_context` omits rows whose last change has that context. `as_texts` returns each value as the
        database's text form: PostgreSQL's output, a SQLite literal; this also works for values that Python's types
        cannot hold. Use it in a `with` statement: the snapshot is held until its end.

        Raises `NotTracked`, `InvalidAnchor`, `UnknownAnchor`, `AnchorTooOld`, `TrackingLost`.
        """
        asked, anchor = _all_named(tables), None if since is None else Anchor.of(since)
        return self._database.changes(EnumerationRequest(asked, anchor, exclude_context, _all_named(whole), as_texts))

    def changed_since(self, table: str, key: Sequence[object], anchor: Anchor | str) -> bool:
        """Return whether a row was inserted, updated or deleted after an anchor: writing it would then be a conflict.

        Raises `NotTracked`, `UnknownAnchor`, `AnchorTooOld`, `TrackingLost`, `InvalidTombstoneKey`.
        """
        return self._database.changed_since(_named(table), key, Anchor.of(anchor))

    def transaction(
        self, context: UUID | None = None, *, seen: Anchor | str | None = None
    ) -> AbstractContextManager[OwnTransaction]:
        """Write in one transaction of the given connection, committed at the end.

        (SQL Server Compact: SqlCeTransaction.) Its changes carry `context` (SQL Server Compact: TrackingContext), so
        that the writer can exclude them from its own enumeration. With `seen`, the writer's last anchor, a row that
        others changed after that anchor gets no context, because excluding it would exclude their change too. The
        writer then stores the transaction's anchor in place of its last one.

        Raises `TransactionOpen`, `UnknownAnchor`.
        """
        return self._database.transaction(context, None if seen is None else Anchor.of(seen))

    @property
    def current_transaction_bsn(self) -> int:
        """The BSN of the open `transaction` (SQL Server Compact: CurrentTransactionBsn). Raises `NoTransaction`."""
        bsn = self._database.transaction_bsn
        if bsn is None:
            raise NoTransaction
        return bsn

    def get_last_committed_csn(self) -> int:
        """Return a CSN up to which everything is committed (SQL Server Compact: GetLastCommittedCsn).

        Takes an anchor.
        """
        return self._database.get_last_committed_csn()

    def pack_tombstone_key(self, table: str, key: Sequence[object]) -> str:
        """Return a key in tombstones' form, `__sysRK` (SQL Server Compact: PackTombstoneKey).

        Raises `NotTracked`, `InvalidTombstoneKey`.
        """
        return self._database.pack_tombstone_key(table, key)

    def unpack_tombstone_key(self, table: str, packed: str) -> tuple[object, ...]:
        """Return the values of a packed key (SQL Server Compact: UnpackTombstoneKey). Raises as packing."""
        return self._database.unpack_tombstone_key(table, packed)

    def purge_tombstone_table_data(self, table: str | None, purge_type: PurgeType, value: int) -> int:
        """Remove old tombstones of a table, or of all (SQL Server Compact: PurgeTombstoneTableData); return how many.

        Anchors older than the removed tombstones are then refused. Raises `NotTracked`, `NothingTracked`.
        """
        named, unit = None if table is None else _named(table), member_of(PurgeType, purge_type, "purge_type")
        return self._database.purge_tombstone_table_data(named, unit, value)

    def purge_transaction_sequence_data(self, purge_type: PurgeType, value: int) -> int:
        """Remove old transactions from the commit sequence (SQL Server Compact: PurgeTransactionSequenceData).

        Returns how many; those with tombstones stay. Raises `NothingTracked`.
        """
        unit = member_of(PurgeType, purge_type, "purge_type")
        return self._database.purge_transaction_sequence_data(unit, value)


def _load_part(connection: Connection) -> ModuleType:
    drivers = [each.__module__.partition(".")[0] for each in type(connection).__mro__]
    kind = next(filter(None, map(find_kind_of_driver, drivers)), None)
    if kind is None:
        raise UnknownConnection(drivers[0])
    part: ModuleType = kind.load_part("rowtide.tracking", "tracking")
    return part


def _named(table: str) -> str:
    if not isinstance(table, str):
        raise TableToTrackNotFound(repr(table))
    return table


def _all_named(tables: Sequence[str] | str) -> tuple[str, ...]:
    named = (tables,) if isinstance(tables, str) or not isinstance(tables, Iterable) else tables
    return tuple(map(_named, named))


@contextmanager
def open_tracking(url: str | DatabaseUrl) -> Iterator[ChangeTracking]:
    """Yield tracking on its own connection, which is closed at the end. Raises as `connect`."""
    with closing(connect(url)) as connection:
        yield ChangeTracking(connection)


def connect(url: str | DatabaseUrl) -> Connection:
    """Open a connection for `ChangeTracking`.

    Raises `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`, and connection errors.
    """
    parsed = parse_url(url)
    connection: Connection = parsed.kind.load_part("rowtide.databases", "connect").open_url(parsed)
    return connection
