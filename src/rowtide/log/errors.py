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


@numbered
class LogStoreNotWritable(RowtideError):
    """The log store's root cannot be made, or files cannot be made in it."""

    number = 2201
    fact = 'the log store "{root}" cannot be written: {reason}'
    hint = "Name a directory that this user can write, on a disk that survives a restart."
    root: str
    reason: str


@numbered
class LogStoreSchemeUnsupported(Invalid):
    """The log store's address is of a kind that rowtide cannot make durable."""

    number = 2202
    fact = 'the log store "{url}" is on "{scheme}", which is not supported'
    hint = "Give a directory, as a path or as file:///path."
    url: str
    scheme: str


@numbered
class LogStoreWriteFailed(Retryable):
    """A file of the log store was not made durable; it may or may not be there."""

    number = 2203
    fact = 'the log store could not write "{path}": {reason}'
    hint = "Nothing was confirmed to the source. Free space or mend the disk; the write is tried again."
    path: str
    reason: str


@numbered
class LogStoreReadFailed(Retryable):
    """A file of the log store is there and cannot be read."""

    number = 2204
    fact = 'the log store could not read "{path}": {reason}'
    hint = "Mend the disk or the file's permissions; the read is tried again."
    path: str
    reason: str


@numbered
class SegmentCorrupt(DataLoss):
    """A segment is no Parquet file of log records."""

    number = 2205
    fact = 'the segment "{path}" is damaged: {reason}'
    hint = "Restore the file from a copy of the log store, or reinitialize: its changes are nowhere else."
    path: str
    reason: str


@numbered
class ManifestMissing(NotFound):
    """The log store has no manifest: nothing ever enabled it."""

    number = 2211
    fact = 'the log store at "{url}" has no manifest'
    hint = "Check the path, or run `rowtide cdc enable-db`."
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
    """A range does not begin where the manifest's position is: somebody else moved it."""

    number = 2213
    fact = "a range from {from_position} cannot follow the log store's position {position}"
    hint = "Another log reader moved it; read on from the manifest's position."
    from_position: Position
    position: Position


@numbered
class LeaseLost(RowtideError):
    """The lease that a writer relies on was taken by another."""

    number = 2214
    fact = "the {lease} lease is held by {holder}"
    hint = "Only its holder writes; stop that one first if this one should."
    lease: str
    holder: str


@numbered
class IllegalEntry(RowtideError):
    """An entry contradicts the manifest's state; it was not written."""

    number = 2215
    fact = 'manifest entry {entry} of kind "{kind}" is not legal: {problem}'
    hint = "Nothing was written; report it with the manifest directory."
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
    """A schema of our name belongs to somebody else (SQL Server: 22906)."""

    number = 22906
    fact = "the database has a schema {schema} that rowtide did not make"
    hint = "Rename or drop it, then enable again."
    schema: str


@numbered
class LogStillRead(Denied):
    """The log is read for publications too: they would miss what it loses."""

    number = 4110
    fact = "the log is read for articles of publications too: {articles}"
    hint = "Drop the publications first with `rowtide replication drop-publication`."
    articles: str


@numbered
class SlotMissing(DataLoss):
    """The replication slot was dropped: the log after our position may be gone."""

    number = 2102
    fact = 'replication slot "{slot}" does not exist'
    hint = (
        "It was dropped by somebody: what committed since is lost. `rowtide cdc reinitialize` makes it anew; where "
        "nothing is captured, `rowtide replication restart-log`. Do neither on a base backup of a server that lives "
        "on: it would lose its log store."
    )
    slot: str


@numbered
class SlotInvalidated(DataLoss):
    """The server gave up the slot's log."""

    number = 2104
    fact = 'replication slot "{slot}" was invalidated (wal_status={wal_status})'
    hint = (
        "Raise max_slot_wal_keep_size, then run `rowtide cdc reinitialize`, or, where nothing is captured, "
        "`rowtide replication restart-log`."
    )
    slot: str
    wal_status: str


@numbered
class SlotAdvanced(DataLoss):
    """The slot was advanced by others, or dropped and made anew: what lies between is lost."""

    number = 2105
    fact = 'replication slot "{slot}" stands at {confirmed}, beyond our position {position}'
    hint = (
        "Somebody advanced or re-created it; changes between are lost. Run `rowtide cdc reinitialize`, or, where "
        "nothing is captured, `rowtide replication restart-log`."
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
        "Changes may be missing since. Disable the tables concerned, or run `rowtide cdc reinitialize`; where nothing "
        "is captured, `rowtide replication restart-log`."
    )
    publication: str
    change: str


@numbered
class HistoryDiverged(DataLoss):
    """The server is another system, or its history forks below our position."""

    number = 2107
    fact = "the server's history is not the one that was read: {difference}; our position is {position}"
    hint = (
        "If this server took over for good, `rowtide adopt` goes on here, and what was captured stays queryable until "
        "then; on a copy of a server that lives on, `rowtide cdc disable-db` removes what was copied and leaves the "
        "original alone."
    )
    difference: str
    position: str


@numbered
class LeaseHeld(RowtideError):
    """Somebody else runs."""

    number = 2108
    fact = "the {lease} lease is held by {holder}"
    hint = "One process at a time: stop that one first."
    remedy = Remedy.REGAIN
    lease: str
    holder: str


@numbered
class SettingNotPinned(RowtideError):
    """A session setting that fixes the text form of values did not take."""

    number = 2109
    fact = "session setting {name} is {actual}, not {wanted}"
    hint = "Something between rowtide and the server (a pooler?) changes it: connect to the server itself."
    name: str
    actual: str
    wanted: str


@numbered
class StreamEnded(Retryable):
    """The replication connection ended."""

    number = 2110
    fact = "the replication stream ended: {reason}"
    hint = "It is opened anew by itself; nothing is lost."
    reason: str


@numbered
class SlotInUse(Retryable):
    """Another connection streams from the slot."""

    number = 2111
    fact = 'replication slot "{slot}" is in use: {reason}'
    hint = "A connection that broke may hold it for up to wal_sender_timeout; it is tried again."
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
        "Its table alone would lack the transaction if each captured table had had a publication of its own when it "
        "was written. `rowtide cdc skip-transaction {lsn}` goes on without that transaction, and records the gap."
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
        "Somebody with the rights of its owner wrote into rowtide.control, or a later version of rowtide did. "
        "`rowtide cdc skip-transaction {lsn}` goes on without that transaction, and records the gap."
    )
    kind: str
    lsn: str
    reason: str

    @property
    def subject(self) -> str:
        return "rowtide.control"


@numbered
class ChangeLeftOut(DataLoss):
    """A row cannot be sent, or not be held by a reader of the log, or its columns are unclear: its table lacks it."""

    number = 2154
    fact = "{table} lacks changes of the transaction that commits at LSN {lsn}: {reason}"
    hint = (
        "All other tables go on. Ranges of its change rows that contain {lsn} are refused; if Spark's memory was not "
        "enough, later rows of that size are captured with more (SPARK_DRIVER_MEMORY=8g). A subscription delivers "
        "nothing more of the table: drop the article and add it again, and its rows are copied."
    )
    table: str
    lsn: str
    reason: str


@numbered
class ControlTableMissing(Denied):
    """An earlier version of rowtide enabled the database, and this role may not complete it."""

    number = 2151
    fact = "table rowtide.control is missing, and this role may not make it: {reason}"
    hint = (
        "An earlier version of rowtide enabled this database. Run `rowtide cdc enable-db` (or any other command that "
        "changes something) once as the role that did."
    )
    reason: str


@numbered
class TransactionReadable(Invalid):
    """Only what cannot be read is skipped."""

    number = 2122
    fact = "the transaction at LSN {lsn} does not stop the log reader, which stands at {position}"
    hint = "Skip the one that `rowtide cdc run` names when it stops."
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
    """The metadata came with a copy: slot, log store and lake belong to the database that it was copied from."""

    number = 2140
    fact = (
        "database {database} has the metadata of {original}, of which it is a copy: slot, log store and the lake "
        "{lake} are the original's"
    )
    hint = (
        "`rowtide cdc disable-db` removes what was copied and leaves the original alone; if this database took the "
        "original's place for good, `rowtide adopt` goes on here."
    )
    database: str
    original: str
    lake: str


@numbered
class LogStoreMoved(RowtideError):
    """The log store that this database made belongs to another by now, which has adopted it."""

    number = 2141
    fact = "the log store at {url} belongs to slot {slot} of system {system_identifier}, not to this database"
    hint = (
        "`rowtide cdc disable-db` removes what this database has of its own and leaves that one alone; if this "
        "database is to take its place, `rowtide adopt` goes on here."
    )
    url: str
    slot: str
    system_identifier: str


@numbered
class ServerPromoted(RowtideError):
    """The server is on another timeline than the one that was read, and cannot continue from there by itself."""

    number = 2142
    fact = "the server is on timeline {timeline}, the log was read on timeline {recorded}: {blocker}"
    hint = (
        "If this server took over for good, `rowtide adopt` goes on here; on a copy of a server that lives on, "
        "`rowtide cdc disable-db` removes what was copied and leaves the original alone."
    )
    timeline: int
    recorded: int
    blocker: str


@numbered
class HeartbeatRefused(RowtideError):
    """The server took no heartbeat; reading goes on without."""

    number = 2123
    fact = "the server takes no heartbeats: {reason}"
    hint = (
        "Reading goes on, and heartbeats are tried again; while captured tables are idle, LSN and time of what is "
        "published stand still."
    )
    reason: str
