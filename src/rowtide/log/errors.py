"""The numbered errors of the log layer: 21xx reading a database's log, 22xx the log store."""

from __future__ import annotations

from abc import abstractmethod

from rowtide.core.errors import (
    AlreadyExists,
    DataLoss,
    Denied,
    Invalid,
    NotFound,
    Remedy,
    Retryable,
    RowtideError,
    numbered,
)
from rowtide.core.lsn import Position
from rowtide.core.row_values import Said


@numbered
class LogStoreNotWritable(RowtideError):
    """The log store's root cannot be created, or files cannot be created in it."""

    number = 2201
    fact = 'the log store "{root}" cannot be written: {reason}'
    hint = "Name a directory that this user can write, on a disk that survives a restart."
    root: str
    reason: str


@numbered
class LogStoreWriteFailed(Retryable):
    """A file of the log store was not made durable; it may or may not exist."""

    number = 2203
    fact = 'the log store could not write "{path}": {reason}'
    hint = (
        "Nothing was confirmed to the source. Check that the storage is reachable and not full; the write is retried."
    )
    path: str
    reason: str


@numbered
class LogStoreReadFailed(Retryable):
    """A file of the log store cannot be read, or is gone."""

    number = 2204
    fact = 'the log store could not read "{path}": {reason}'
    hint = "Check that the storage is reachable and that this user may read the file; the read is retried."
    path: str
    reason: str


@numbered
class SegmentCorrupt(DataLoss):
    """A segment is not a Parquet file of log records, or its rows do not have their tables' columns."""

    number = 2205
    fact = 'the segment "{path}" is damaged: {reason}'
    hint = "Restore the file from a copy of the log store, or reinitialize: its changes exist nowhere else."
    path: str
    reason: Said


@numbered
class ManifestMissing(NotFound):
    """The log store has no manifest: it is lost, not mounted, or was never made."""

    number = 2211
    fact = 'the log store at "{url}" has no manifest'
    hint = (
        "Check the path, which each machine that runs rowtide has to reach. If the log store is lost, `rowtide cdc "
        "reinitialize` starts another one, or without captured tables `rowtide replication restart-log`; both report "
        "first what is missing then."
    )
    url: str


@numbered
class ManifestCorrupt(DataLoss):
    """A manifest file is missing, unreadable or contradicts those before it."""

    number = 2212
    fact = 'the manifest file "{path}" is damaged: {reason}'
    hint = "Restore the file from a copy of the log store; never delete or renumber manifest files."
    path: str
    reason: str


@numbered
class ManifestConflict(Retryable):
    """A range does not begin at the manifest's position: another process moved it."""

    number = 2213
    fact = "a range from {from_position} cannot follow the log store's position {position}"
    hint = "Another log reader moved it; reading continues from the manifest's position."
    from_position: Position
    position: Position


@numbered
class LeaseLost(RowtideError):
    """Another process took the lease that a writer relies on."""

    number = 2214
    fact = "the {lease} lease is held by {holder}"
    hint = "Only the holder writes: stop it first if this process is to write."
    remedy = Remedy.REGAIN
    lease: str
    holder: str


@numbered
class IllegalEntry(RowtideError):
    """An entry contradicts the manifest's state; it was not written."""

    number = 2215
    fact = 'manifest entry {entry} of kind "{kind}" is not legal: {problem}'
    hint = "Nothing was written. Report this with the manifest directory."
    entry: int
    kind: str
    problem: str


@numbered
class DatabaseNotEnabled(NotFound):
    """enable-db has not run (SQL Server: 22901)."""

    number = 22901
    fact = "database {database} is not enabled for change data capture"
    hint = "Run `rowtide cdc enable-db --lake PATH` first. Publications alone are served by `rowtide replication run`."
    database: str


@numbered
class SchemaTaken(AlreadyExists):
    """A schema of the name that rowtide needs exists and is not rowtide's (SQL Server: 22906)."""

    number = 22906
    fact = "the database has a schema {schema} that rowtide did not make, or that was restored without its rows"
    hint = "Rename or drop it, then enable again."
    schema: str


@numbered
class LogStillRead(Denied):
    """Publications read the log too, and would miss the changes that it loses."""

    number = 4110
    fact = "the log is read for articles of publications too: {articles}"
    hint = (
        "After a gap, `rowtide cdc reinitialize --difference` keeps subscriptions to captured tables. Otherwise drop "
        "the publications first with `rowtide replication drop-publication PUBLICATION`."
    )
    articles: str


@numbered
class SlotMissing(DataLoss):
    """The replication slot was dropped: WAL after the log store's position may have been removed."""

    number = 2102
    fact = 'replication slot "{slot}" does not exist'
    hint = (
        "It was dropped. `rowtide cdc reinitialize --difference` creates it again, and captures what changed since as "
        "one transaction; instances without key or snapshot begin again after the gap. Without captured tables, run "
        "`rowtide replication restart-log`. Run neither on a base backup of a server that is still in use, which would "
        "lose its log store."
    )
    slot: str


@numbered
class SlotInvalidated(DataLoss):
    """The server invalidated the slot: it removed WAL that the slot needs, or nothing read the slot for too long."""

    number = 2104
    fact = 'replication slot "{slot}" was invalidated: {cause}'
    hint = (
        "Change that setting of the server, then run `rowtide cdc reinitialize --difference`, which captures what "
        "changed since as one transaction, or, without captured tables, `rowtide replication restart-log`."
    )
    slot: str
    cause: str


@numbered
class SlotAdvanced(DataLoss):
    """The slot was advanced, or dropped and created again, by others: the changes between are lost."""

    number = 2105
    fact = 'replication slot "{slot}" is at {confirmed}, past the recorded position {position}'
    hint = (
        "It was advanced or created again. Run `rowtide cdc reinitialize --difference`, which captures what changed "
        "between as one transaction, or, without captured tables, `rowtide replication restart-log`."
    )
    slot: str
    confirmed: str
    position: str


@numbered
class PublicationAltered(DataLoss):
    """The publication is not the one that was recorded: changes may be missing from the stream."""

    number = 2106
    fact = 'publication "{publication}" was altered by others: {change}'
    hint = (
        "Changes since may be missing. Disable the tables concerned, or run `rowtide cdc reinitialize`; without "
        "captured tables, `rowtide replication restart-log`."
    )
    publication: str
    change: str


WAY_AFTER_PROMOTION = (
    "`rowtide cdc reinitialize --difference` captures what differs here, and takes back what a failover lost; without "
    "snapshots of the captured tables, `rowtide adopt` continues after a gap"
)
"""On another timeline of the same server: the tables are those that were captured."""


@numbered
class HistoryDiverged(DataLoss):
    """The server is another system, or its timeline forks below the log store's position."""

    number = 2107
    fact = "the server's history is not the one that was read: {difference}; the recorded position is {position}"
    hint = (
        "If this server took over for good, {way}; on a copy of a server still in use, `rowtide cdc disable-db` "
        "removes what was copied and leaves the original unchanged."
    )
    difference: str
    position: str
    way: str = "`rowtide adopt` continues here, and what was captured before stays queryable"


@numbered
class LeaseHeld(RowtideError):
    """Another process holds the lease."""

    number = 2108
    fact = "the {lease} lease is held by {holder}"
    hint = "One process at a time holds it: stop that one first."
    remedy = Remedy.REGAIN
    lease: str
    holder: str


@numbered
class SettingNotPinned(RowtideError):
    """A session setting that fixes the text form of values did not take."""

    number = 2109
    fact = "session setting {name} is {actual}, not {wanted}"
    hint = "A connection pooler between rowtide and the server may change it: connect to the server directly."
    name: str
    actual: str
    wanted: str


@numbered
class StreamEnded(Retryable):
    """The replication connection ended."""

    number = 2110
    fact = "the replication stream ended: {reason}"
    hint = "It is opened again automatically; nothing is lost."
    reason: str


@numbered
class SlotInUse(Retryable):
    """Another connection streams from the slot."""

    number = 2111
    fact = 'replication slot "{slot}" is in use: {reason}'
    hint = (
        "It is retried. A broken connection holds it for up to wal_sender_timeout, or, if that is 0, until `select "
        "pg_terminate_backend(PID)`. Log readers of this role that lost their lease are ended."
    )
    slot: str
    reason: str


class TransactionUnreadable(Exception):
    """A transaction blocks all after it until it is skipped: `lsn` is that of its commit."""

    lsn: str
    reason: str

    @property
    @abstractmethod
    def subject(self) -> str:
        """The table of the change that cannot be read."""


@numbered
class ChangeUnreadable(TransactionUnreadable, RowtideError):
    """The server cannot send a change, and its table cannot be left out: its transaction blocks all after it."""

    number = 2121
    fact = "a change of {table} cannot be read, in the transaction that commits at LSN {lsn}: {reason}"
    hint = (
        "Only its table would lack the transaction if each captured table had had its own publication when it "
        "was written. `rowtide cdc skip-transaction {lsn}` continues without that transaction, and records the gap."
    )
    table: str
    lsn: str
    reason: str

    @property
    def subject(self) -> str:
        return self.table


@numbered
class AnnouncementUnreadable(TransactionUnreadable, RowtideError):
    """A row of `rowtide.control` that rowtide did not write: only the table's owner can insert one."""

    number = 2150
    fact = "an announcement of kind {kind} cannot be read, in the transaction that commits at LSN {lsn}: {reason}"
    hint = (
        "A role with the rights of its owner wrote into rowtide.control, or a later version of rowtide did. "
        "`rowtide cdc skip-transaction {lsn}` continues without that transaction, and records the gap."
    )
    kind: str
    lsn: str
    reason: str

    @property
    def subject(self) -> str:
        return "rowtide.control"


@numbered
class ChangeLeftOut(DataLoss):
    """A row cannot be sent, a reader of the log cannot hold it, or its columns are unclear: its table lacks it."""

    number = 2154
    fact = "{table} lacks changes of the transaction that commits at LSN {lsn}: {reason}"
    hint = (
        "All other tables continue. Ranges of its change rows with {lsn} are refused; if Spark's memory was not "
        "enough, later rows of that size are captured with more (SPARK_DRIVER_MEMORY=8g). A subscription delivers "
        "nothing more of the table: drop the article and add it again, and its rows are copied."
    )
    table: str
    lsn: str
    reason: str


@numbered
class TransactionReadable(Invalid):
    """Only a transaction that cannot be read can be skipped."""

    number = 2122
    fact = "the transaction at LSN {lsn} does not stop the log reader, which is at {position}"
    hint = "Skip the transaction that `rowtide cdc run` names when it stops."
    lsn: str
    position: str


@numbered
class LogStoreTaken(AlreadyExists):
    """The log store belongs to another source."""

    number = 2112
    fact = "the log store at {url} belongs to another source ({found}, not {wanted})"
    hint = "Give this database a folder of its own: --lake or --log-store."
    url: str
    found: str
    wanted: str


@numbered
class DatabaseCopied(RowtideError):
    """The metadata was copied: slot, log store and lake belong to the database that it was copied from."""

    number = 2140
    fact = (
        "database {database} has the metadata of {original}, of which it is a copy: slot, log store and the lake "
        "{lake} are the original's"
    )
    hint = (
        "`rowtide cdc disable-db` removes what was copied and leaves the original unchanged; if this database took the "
        "original's place for good, `rowtide adopt` continues here."
    )
    database: str
    original: str
    lake: str


@numbered
class LogStoreMoved(RowtideError):
    """Another database has adopted the log store that this database created."""

    number = 2141
    fact = "the log store at {url} belongs to slot {slot} of system {system_identifier}, not to this database"
    hint = (
        "`rowtide cdc disable-db` removes what this database itself has and leaves the log store unchanged; if this "
        "database is to take it over, `rowtide adopt` continues here."
    )
    url: str
    slot: str
    system_identifier: str


@numbered
class LogStoreNewer(Invalid):
    """The log store begins with what no build up to this one has written."""

    number = 2216
    fact = "the log store at {url} begins with an entry {kind}: a newer version of rowtide wrote it"
    hint = "Nothing was changed. Use a version of rowtide that knows this format."
    url: str
    kind: str


@numbered
class LogStoreRelocated(RowtideError):
    """The log store was moved to another place, with its lake or without."""

    number = 2145
    fact = "the log store was moved to {log_store}: nothing is written or read at the old place"
    hint = (
        "Agents go on at the new place by themselves. If the database still names the old one, run the `rowtide lake "
        "copy FROM TO --switch` that moved it again."
    )
    remedy = Remedy.REGAIN
    log_store: str


@numbered
class ServerPromoted(RowtideError):
    """The server is on another timeline than the one that was read, and cannot continue from there by itself."""

    number = 2142
    fact = "the server is on timeline {timeline}, the log was read on timeline {recorded}: {blocker}"
    hint = (
        "If this server took over for good, {way}; on a copy of a server still in use, `rowtide cdc disable-db` "
        "removes what was copied and leaves the original unchanged."
    )
    timeline: int
    recorded: int
    blocker: str
    way: str = WAY_AFTER_PROMOTION


@numbered
class MarkUnverified(RowtideError):
    """A transaction says that rowtide delivered it, without the subscription's secret."""

    number = 7245
    fact = "transaction {lsn} has a mark of delivery that no subscription of this database has made"
    hint = (
        "It counts as one of this database's own. A role emitted the logical message rowtide.origin, or the log "
        'reader\'s role may not read rowtide_subscriber."MSorigins".'
    )
    lsn: str


@numbered
class HeartbeatRefused(RowtideError):
    """The server refused a heartbeat; reading continues without heartbeats."""

    number = 2123
    fact = "the server refuses heartbeats: {reason}"
    hint = (
        "Reading continues, and heartbeats are retried; while captured tables are idle, the maximum LSN and its time "
        "do not advance."
    )
    reason: Said
