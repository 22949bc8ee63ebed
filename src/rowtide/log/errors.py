"""The numbered errors of the log layer: 21xx reading a database's log, 22xx the log store."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Remedy, Retryable, RowtideError
from rowtide.core.lsn import Position
from rowtide.core.redaction import Said


class LogStoreNotWritable(RowtideError, number=2201):
    """The log store's root cannot be created, or files cannot be created in it."""

    fact = 'the log store "{root}" cannot be written: {reason}'
    hint = "Name a directory that this user can write, on a disk that survives a restart."
    root: str
    reason: str


class LogStoreWriteFailed(Retryable, number=2203):
    """A file of the log store was not made durable; it may or may not exist."""

    fact = 'the log store could not write "{path}": {reason}'
    hint = """Nothing was confirmed to the source. Check that the storage is reachable and not full; the write is
        retried."""
    path: str
    reason: str


class LogStoreReadFailed(Retryable, number=2204):
    """A file of the log store cannot be read, or is gone."""

    fact = 'the log store could not read "{path}": {reason}'
    hint = "Check that the storage is reachable and that this user may read the file; the read is retried."
    path: str
    reason: str


class SegmentCorrupt(DataLoss, number=2205):
    """A segment is not a Parquet file of log records, or its rows do not have their tables' columns."""

    fact = 'the segment "{path}" is damaged: {reason}'
    hint = "Restore the file from a copy of the log store, or reinitialize: its changes exist nowhere else."
    path: str
    reason: Said


class ManifestMissing(NotFound, number=2211):
    """The log store has no manifest: it is lost, not mounted, or was never made."""

    fact = 'the log store at "{url}" has no manifest'
    hint = """Check the path, which each machine that runs rowtide has to reach. If the log store is lost, `rowtide cdc
        reinitialize` starts another one, or without captured tables `rowtide replication restart-log`; both report
        first what is missing then."""
    url: str


class ManifestCorrupt(DataLoss, number=2212):
    """A manifest file is missing, unreadable or contradicts those before it."""

    fact = 'the manifest file "{path}" is damaged: {reason}'
    hint = "Restore the file from a copy of the log store; never delete or renumber manifest files."
    path: str
    reason: str


class ManifestConflict(Retryable, number=2213):
    """A range does not begin at the manifest's position: another process moved it."""

    fact = "a range from {from_position} cannot follow the log store's position {position}"
    hint = "Another log reader moved it; reading continues from the manifest's position."
    from_position: Position
    position: Position


class LeaseLost(RowtideError, number=2214):
    """Another process took the lease that a writer relies on."""

    fact = "the {lease} lease is held by {holder}"
    hint = "Only the holder writes: stop it first if this process is to write."
    remedy = Remedy.REGAIN
    lease: str
    holder: str


class IllegalEntry(RowtideError, number=2215):
    """An entry contradicts the manifest's state; it was not written."""

    fact = 'manifest entry {entry} of kind "{kind}" is not legal: {problem}'
    hint = "Nothing was written. Report this with the manifest directory."
    entry: int
    kind: str
    problem: str


class DatabaseNotEnabled(NotFound, number=22901):
    """enable-db has not run (SQL Server: 22901)."""

    fact = "database {database} is not enabled for change data capture"
    hint = "Run `rowtide cdc enable-db --lake PATH` first. Publications alone are served by `rowtide replication run`."
    database: str


class SchemaTaken(AlreadyExists, number=22906):
    """A schema of the name that rowtide needs exists and is not rowtide's (SQL Server: 22906)."""

    fact = "the database has a schema {schema} that rowtide did not make, or that was restored without its rows"
    hint = "Rename or drop it, then enable again."
    schema: str


class LogStillRead(Denied, number=4110):
    """Publications read the log too, and would miss the changes that it loses."""

    fact = "the log is read for articles of publications too: {articles}"
    hint = """After a gap, `rowtide cdc reinitialize --difference` keeps subscriptions to captured tables. Otherwise
        drop the publications first with `rowtide replication drop-publication PUBLICATION`."""
    articles: str


class SlotMissing(DataLoss, number=2102):
    """The replication slot was dropped: WAL after the log store's position may have been removed."""

    fact = 'replication slot "{slot}" does not exist'
    hint = """It was dropped. `rowtide cdc reinitialize --difference` creates it again, and captures what changed since
        as one transaction; instances without key or snapshot begin again after the gap. Without captured tables, run
        `rowtide replication restart-log`. Run neither on a base backup of a server that is still in use, which would
        lose its log store."""
    slot: str


class SlotInvalidated(DataLoss, number=2104):
    """The server invalidated the slot: it removed WAL that the slot needs, or nothing read the slot for too long."""

    fact = 'replication slot "{slot}" was invalidated: {cause}'
    hint = """Change that setting of the server, then run `rowtide cdc reinitialize --difference`, which captures what
        changed since as one transaction, or, without captured tables, `rowtide replication restart-log`."""
    slot: str
    cause: str


class SlotAdvanced(DataLoss, number=2105):
    """The slot was advanced, or dropped and created again, by others: the changes between are lost."""

    fact = 'replication slot "{slot}" is at {confirmed}, past the recorded position {position}'
    hint = """It was advanced or created again. Run `rowtide cdc reinitialize --difference`, which captures what changed
        between as one transaction, or, without captured tables, `rowtide replication restart-log`."""
    slot: str
    confirmed: str
    position: str


class PublicationAltered(DataLoss, number=2106):
    """The publication is not the one that was recorded: changes may be missing from the stream."""

    fact = 'publication "{publication}" was altered by others: {change}'
    hint = """Changes since may be missing. Disable the tables concerned, or run `rowtide cdc reinitialize`; without
        captured tables, `rowtide replication restart-log`."""
    publication: str
    change: str


WAY_AFTER_PROMOTION = (
    "`rowtide cdc reinitialize --difference` captures what differs here, and takes back what a failover lost; without "
    "snapshots of the captured tables, `rowtide adopt` continues after a gap"
)
"""On another timeline of the same server: the tables are those that were captured."""


class HistoryDiverged(DataLoss, number=2107):
    """The server is another system, or its timeline forks below the log store's position."""

    fact = "the server's history is not the one that was read: {difference}; the recorded position is {position}"
    hint = """If this server took over permanently, {way}; on a copy of a server still in use, `rowtide cdc disable-db`
        removes what was copied and leaves the original unchanged."""
    difference: str
    position: str
    way: str = "`rowtide adopt` continues here, and what was captured before stays queryable"


class LeaseHeld(RowtideError, number=2108):
    """Another process holds the lease."""

    fact = "the {lease} lease is held by {holder}"
    hint = "One process at a time holds it: stop that one first."
    remedy = Remedy.REGAIN
    lease: str
    holder: str


class SettingNotPinned(RowtideError, number=2109):
    """A session setting that fixes the text form of values did not take."""

    fact = "session setting {name} is {actual}, not {wanted}"
    hint = "A connection pooler between rowtide and the server may change it: connect to the server directly."
    name: str
    actual: str
    wanted: str


class StreamEnded(Retryable, number=2110):
    """The replication connection ended."""

    fact = "the replication stream ended: {reason}"
    hint = "It is opened again automatically; nothing is lost."
    reason: str


class SlotInUse(Retryable, number=2111):
    """Another connection streams from the slot."""

    fact = 'replication slot "{slot}" is in use: {reason}'
    hint = """It is retried. A broken connection holds it for up to wal_sender_timeout, or, if that is 0, until `select
        pg_terminate_backend(PID)`. Log readers of this role that lost their lease are ended."""
    slot: str
    reason: str


class TransactionUnreadable(Exception):
    """A transaction blocks all after it until it is skipped: `lsn` is that of its commit."""

    lsn: str
    reason: str

    @property
    def subject(self) -> str:
        """The table of the change that cannot be read."""
        raise NotImplementedError


class ChangeUnreadable(TransactionUnreadable, RowtideError, number=2121):
    """The server cannot send a change, and its table cannot be omitted: its transaction blocks all after it."""

    fact = "a change of {table} cannot be read, in the transaction that commits at LSN {lsn}: {reason}"
    hint = """Only its table would lack the transaction if each captured table had had its own publication when it was
        written. `rowtide cdc skip-transaction {lsn}` continues without that transaction, and records the gap."""
    table: str
    lsn: str
    reason: str

    @property
    def subject(self) -> str:
        return self.table


class AnnouncementUnreadable(TransactionUnreadable, RowtideError, number=2150):
    """A row of `rowtide.control` that rowtide did not write: only the table's owner can insert one."""

    fact = "an announcement of kind {kind} cannot be read, in the transaction that commits at LSN {lsn}: {reason}"
    hint = """A role with the rights of its owner wrote into rowtide.control, or a later version of rowtide did.
        `rowtide cdc skip-transaction {lsn}` continues without that transaction, and records the gap."""
    kind: str
    lsn: str
    reason: str

    @property
    def subject(self) -> str:
        return "rowtide.control"


class ChangeLeftOut(DataLoss, number=2154):
    """A row cannot be sent, a reader of the log cannot hold it, or its columns are unclear: its table lacks it."""

    fact = "{table} lacks changes of the transaction that commits at LSN {lsn}: {reason}"
    hint = """All other tables continue. Ranges of its change rows with {lsn} are refused; if Spark's memory was not
        enough, later rows of that size are captured with more (SPARK_DRIVER_MEMORY=8g). A subscription delivers nothing
        more of the table: drop the article and add it again, and its rows are copied."""
    table: str
    lsn: str
    reason: str


class TransactionReadable(Invalid, number=2122):
    """Only a transaction that cannot be read can be skipped."""

    fact = "the transaction at LSN {lsn} does not stop the log reader, which is at {position}"
    hint = "Skip the transaction that `rowtide cdc run` names when it stops."
    lsn: str
    position: str


class LogStoreTaken(AlreadyExists, number=2112):
    """The log store belongs to another source."""

    fact = "the log store at {url} belongs to another source ({found}, not {wanted})"
    hint = "Give this database a folder of its own: --lake or --log-store."
    url: str
    found: str
    wanted: str


class DatabaseCopied(RowtideError, number=2140):
    """The metadata was copied: slot, log store and lake belong to the database that it was copied from."""

    fact = """database {database} has the metadata of {original}, of which it is a copy: slot, log store and the lake
        {lake} are the original's"""
    hint = """`rowtide cdc disable-db` removes what was copied and leaves the original unchanged; if this database took
        the original's place permanently, `rowtide adopt` continues here."""
    database: str
    original: str
    lake: str


class LogStoreMoved(RowtideError, number=2141):
    """Another database has adopted the log store that this database created."""

    fact = "the log store at {url} belongs to slot {slot} of system {system_identifier}, not to this database"
    hint = """`rowtide cdc disable-db` removes what this database itself has and leaves the log store unchanged; if this
        database is to take it over, `rowtide adopt` continues here."""
    url: str
    slot: str
    system_identifier: str


class LogStoreNewer(Invalid, number=2216):
    """The log store begins with an entry that no build up to this one writes."""

    fact = "the log store at {url} begins with an entry {kind}: a newer version of rowtide wrote it"
    hint = "Nothing was changed. Use a version of rowtide that knows this format."
    url: str
    kind: str


class LogStoreRelocated(RowtideError, number=2145):
    """The log store was moved to another place, with its lake or without."""

    fact = "the log store was moved to {log_store}: nothing is written or read at the old place"
    hint = """Agents continue at the new place by themselves. If the database still names the old one, run the `rowtide
        lake copy FROM TO --switch` that moved it again."""
    remedy = Remedy.REGAIN
    log_store: str


class ServerPromoted(RowtideError, number=2142):
    """The server is on another timeline than the one that was read, and cannot continue from there by itself."""

    fact = "the server is on timeline {timeline}, the log was read on timeline {recorded}: {blocker}"
    hint = """If this server took over permanently, {way}; on a copy of a server still in use, `rowtide cdc disable-db`
        removes what was copied and leaves the original unchanged."""
    timeline: int
    recorded: int
    blocker: str
    way: str = WAY_AFTER_PROMOTION


class MarkUnverified(RowtideError, number=7245):
    """A transaction says that rowtide delivered it, without the subscription's secret."""

    fact = "transaction {lsn} has a mark of delivery that no subscription of this database has made"
    hint = """It counts as one of this database's own. A role emitted the logical message rowtide.origin, or the log
        reader's role may not read rowtide_subscriber."MSorigins"."""
    lsn: str


class HeartbeatRefused(RowtideError, number=2123):
    """The server refused a heartbeat; reading continues without heartbeats."""

    fact = "the server refuses heartbeats: {reason}"
    hint = """Reading continues, and heartbeats are retried; while captured tables are idle, the maximum LSN and its
        time do not advance."""
    reason: Said
