"""`ChangeTracking`: what SQL Server Compact's SqlCeChangeTracking is, for the databases of rowtide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from uuid import UUID

from rowtide.core.anchors import Anchor
from rowtide.databases.kinds import find_kind_of_driver
from rowtide.tracking.changes import Changes, OwnTransaction, Request
from rowtide.tracking.errors import NoTransaction, NotTracked, TableToTrackNotFound, UnknownConnection
from rowtide.tracking.options import (
    Enabling,
    PurgeType,
    StampIndex,
    Storage,
    TrackedTable,
    TrackingKeyType,
    TrackingOptions,
)

if TYPE_CHECKING:
    import sqlite3

    import psycopg

    from rowtide.tracking.postgres.tracking import Tracking as PostgresTracking
    from rowtide.tracking.sqlite.tracking import Tracking as SqliteTracking

    Connection = sqlite3.Connection | psycopg.Connection
    TrackedDatabase = SqliteTracking | PostgresTracking


class ChangeTracking:
    """Change tracking of the database that a connection is to (SQL Server Compact: SqlCeChangeTracking).

    Its own work is done on connections of its own, to the same database; on the given one it only opens
    `transaction`. Where the database is in memory alone, there is only the given one.
    """

    def __init__(self, connection: Connection) -> None:
        """Speak to the database as its driver's connections want it. Raises `UnknownConnection`."""
        driver = type(connection).__module__.partition(".")[0]
        kind = find_kind_of_driver(driver)
        if kind is None:
            raise UnknownConnection(driver)
        self._database: TrackedDatabase = kind.load_part("rowtide.tracking", "tracking").Tracking(connection)

    def enable_tracking(
        self,
        table: str,
        key_type: TrackingKeyType = TrackingKeyType.PRIMARY_KEY,
        options: TrackingOptions = TrackingOptions.ALL,
        *,
        storage: Storage = Storage.ROW,
        index: StampIndex | None = None,
        on_progress: Callable[[str], None] = lambda _message: None,
    ) -> TrackedTable:
        """Track a table from now on, whatever program writes to it (SQL Server Compact: EnableTracking).

        `index` None is the database's own: page ranges on PostgreSQL. Raises `NothingToTrack`, `IndexNotOffered`,
        `StorageNotOffered`, `TableToTrackNotFound`, `TrackingKeyMissing`, `TrackedAlready`, `LockNotObtained`.
        """
        return self._database.enable_tracking(Enabling(_named(table), key_type, options, storage, index), on_progress)

    def disable_tracking(self, table: str) -> None:
        """End it, and remove columns, triggers and tombstones (SQL Server Compact: DisableTracking).

        Raises `NotTracked`.
        """
        self._database.disable_tracking(_named(table))

    def resume_tracking(self, table: str) -> TrackedTable:
        """Track a table again whose tracking was lost; anchors from before are refused for it. Raises as enabling."""
        return self._database.resume_tracking(_named(table))

    def rehearsal(self) -> AbstractContextManager[list[str]]:
        """Let enabling, disabling, resuming and upgrading run without effect; yield the statements that they run."""
        return self._database.rehearsal()

    def list_tracked(self) -> tuple[TrackedTable, ...]:
        """Return the tracked tables, by name."""
        return self._database.list_tracked()

    def get_tracked(self, table: str) -> TrackedTable:
        """Return how a table is tracked. Raises `NotTracked`."""
        return self._database.get_tracked(_named(table))

    def get_tracking_options(self, table: str) -> TrackingOptions | None:
        """Return what is tracked of a table, None if it is not (SQL Server Compact: GetTrackingOptions)."""
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
    ) -> AbstractContextManager[Changes]:
        """Return the net changes of some tables since an anchor, in one snapshot, and the next anchor.

        Without an anchor, and for the tables in `whole`, all rows are inserts: a full copy to begin with. Name
        parents before their children: inserts and updates come in this order, deletes before them in the other.
        `exclude_context` leaves out what was changed last with that context. `as_texts` gives each value as the text
        that the database writes for it: PostgreSQL its output, SQLite a literal; none is too large for Python then, or
        not a day of its calendar. Open it with `with`: the snapshot is held until its end.

        Raises `NotTracked`, `InvalidAnchor`, `UnknownAnchor`, `AnchorTooOld`, `TrackingLost`.
        """
        asked, anchor = _all_named(tables), None if since is None else Anchor.of(since)
        return self._database.changes(Request(asked, anchor, exclude_context, _all_named(whole), as_texts))

    def changed_since(self, table: str, key: Sequence[object], anchor: Anchor | str) -> bool:
        """Say whether a row was inserted, updated or deleted after an anchor: whether writing it would be a conflict.

        Raises `NotTracked`, `UnknownAnchor`, `AnchorTooOld`, `TrackingLost`, `InvalidTombstoneKey`.
        """
        return self._database.changed_since(_named(table), key, Anchor.of(anchor))

    def transaction(
        self, context: UUID | None = None, *, seen: Anchor | str | None = None
    ) -> AbstractContextManager[OwnTransaction]:
        """Write in one transaction of the given connection, committed at the end.

        SQL Server Compact's is SqlCeTransaction.

        What it changes carries `context` (SQL Server Compact: TrackingContext), so that whoever wrote it can leave it
        out of its own enumeration. With `seen`, the writer's last anchor, a row that others changed after it carries
        none: their change would be left out too. From then on the writer keeps the transaction's anchor instead.

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
        """Return a CSN up to which all is committed (SQL Server Compact: GetLastCommittedCsn); takes an anchor."""
        return self._database.get_last_committed_csn()

    def pack_tombstone_key(self, table: str, key: Sequence[object]) -> str:
        """Return a key as tombstones have it, in `__sysRK` (SQL Server Compact: PackTombstoneKey).

        Raises `NotTracked`, `InvalidTombstoneKey`.
        """
        return self._database.pack_tombstone_key(table, key)

    def unpack_tombstone_key(self, table: str, packed: str) -> tuple[object, ...]:
        """Return the values of a packed key (SQL Server Compact: UnpackTombstoneKey). Raises as packing."""
        return self._database.unpack_tombstone_key(table, packed)

    def purge_tombstone_table_data(self, table: str | None, purge_type: PurgeType, value: int) -> int:
        """Remove old tombstones of a table, or of all (SQL Server Compact: PurgeTombstoneTableData); return how many.

        Anchors from before what was removed are refused from then on. Raises `NotTracked`.
        """
        named = None if table is None else _named(table)
        return self._database.purge_tombstone_table_data(named, purge_type, value)

    def purge_transaction_sequence_data(self, purge_type: PurgeType, value: int) -> int:
        """Remove old transactions from the commit sequence (SQL Server Compact: PurgeTransactionSequenceData)."""
        return self._database.purge_transaction_sequence_data(purge_type, value)

    def upgrade_public_tracking(self) -> tuple[str, ...]:
        """Bring tables that another version of rowtide tracked to this version's form; anchors stay valid.

        Return their names (SQL Server Compact: UpgradePublicTracking). Raises `TrackingOutdated` where they are newer.
        """
        return self._database.upgrade_public_tracking()


def _named(table: str) -> str:
    if not isinstance(table, str):
        raise TableToTrackNotFound(repr(table))
    return table


def _all_named(tables: Sequence[str] | str) -> tuple[str, ...]:
    named = (tables,) if isinstance(tables, str) or not isinstance(tables, Iterable) else tables
    return tuple(map(_named, named))
