"""The manifest's entries and their JSON.

An entry's `token` is the number of the `LeaseTaken` entry under which its writer holds the log lease; its `lake_token`
that of the lake lease, None if the entry's reader needs none.

Also the exchange by which two processes of one agent send each other entries once these are durable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from datetime import datetime
from typing import Annotated, Any, Literal

from rowtide.core.formats import StoredFormat
from rowtide.core.json_records import JsonOf, Tagged
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import LoggedTable
from rowtide.core.values import frozen
from rowtide.log import membership

LeaseName = Literal["log", "lake"]

_EVENTS = {
    "enabled": membership.Enabled,
    "disabled": membership.Disabled,
    "reshaped": membership.Reshaped,
    "altered": membership.Altered,
    "heartbeat": membership.Heartbeat,
    "traced": membership.Traced,
    "changes_omitted": membership.ChangesOmitted,
}
EventJson = Annotated[membership.Event, Tagged("event", _EVENTS)]


@frozen
class StoredSource:
    """The log that this store holds; another source begins another epoch."""

    system_identifier: str
    timeline: int
    slot: str
    publication: str
    publication_id: int


@frozen
class Segment:
    """An immutable file of log records: whole transactions, or one part of one.

    `first` and `last` are inclusive; `tables` are the table_ids in it, `NO_TABLE` among them. `bytes` is the file's
    size, `raw_bytes` the size of its records in memory.
    """

    path: str
    first: CommitLsn
    last: CommitLsn
    rows: int
    bytes: int
    raw_bytes: int
    created_at: datetime
    tables: tuple[int, ...]


@frozen
class Difference:
    """What the gap before an epoch changed in the tables of some members, as one transaction: the epoch's first.

    `lsn` is below the epoch's position; without segments the tables had not changed.
    """

    lsn: CommitLsn
    members: tuple[str, ...]
    segments: tuple[Segment, ...]


@frozen
class Opened:
    """An epoch begins at a position: the store's first entry, or a reinitialization with its reason.

    `format` is the store's, and only in its first entry. `control_row` is the last mark before. With a `difference`,
    its members have no gap.
    """

    kind: Literal["opened"] = field(default="opened", kw_only=True)
    epoch: int
    position: Position
    source: StoredSource
    reason: str | None
    format: StoredFormat | None = None
    control_row: membership.ControlRow | None = None
    difference: Difference | None = None


@frozen
class FormatRaised:
    """The store is of this format from here on: a migration of the store is this one entry."""

    kind: Literal["format_raised"] = field(default="format_raised", kw_only=True)
    format: StoredFormat


@frozen
class TableGiven:
    """A table's shape gets the next `table_id`, before any segment uses it."""

    kind: Literal["table_given"] = field(default="table_given", kw_only=True)
    token: int
    version: LoggedTable


@frozen
class RangeAppended:
    """Every transaction in [`from_position`, `position`) is durable in these segments. Only the log reader writes it.

    Without segments it is a keepalive, or holds heartbeats. Everything committed at `as_of`, by the source's clock, is
    below `position`; None if the log did not carry a time. `control_row` is the mark or heartbeat of the latest
    transaction that was read up to here; None if there was none.
    """

    kind: Literal["range_appended"] = field(default="range_appended", kw_only=True)
    token: int
    from_position: Position
    position: Position
    segments: tuple[Segment, ...]
    events: tuple[EventJson, ...]
    transactions: int
    as_of: datetime | None = None
    control_row: membership.ControlRow | None = None


@frozen
class PartStored:
    """A part of a transaction is durable whose commit is not stored yet, the `number`-th from 0; 0 begins again.

    Consumers may begin with it, but must be able to undo that until a range names the part: the transaction may be read
    again in other parts, or be skipped.
    """

    kind: Literal["part_stored"] = field(default="part_stored", kw_only=True)
    token: int
    number: int
    segment: Segment


@frozen
class LeaseTaken:
    """A lease changes hands; this entry's number is the new holder's token."""

    kind: Literal["lease_taken"] = field(default="lease_taken", kw_only=True)
    lease: LeaseName
    holder: str
    taken_at: datetime


@frozen
class TimelineFollowed:
    """The server was promoted to another timeline, whose history contains everything below the store's position."""

    kind: Literal["timeline_followed"] = field(default="timeline_followed", kw_only=True)
    token: int
    timeline: int


@frozen
class TransactionSkipped:
    """A transaction that cannot be read is skipped: a gap, and the position after it.

    Everything before the transaction is durable: the writer of this entry has read up to it.
    """

    kind: Literal["transaction_skipped"] = field(default="transaction_skipped", kw_only=True)
    token: int
    lsn: CommitLsn
    reason: str


@frozen
class SegmentsMerged:
    """One segment replaces several of the same rows."""

    kind: Literal["segments_merged"] = field(default="segments_merged", kw_only=True)
    token: int
    replaced: tuple[str, ...]
    segment: Segment
    merged_at: datetime


@frozen
class ReaderAdvanced:
    """A consumer of the log needs nothing below the position; its first such entry registers it.

    `cycle` is the consumer's count of finished work, by which it recognises a target that was restored to an earlier
    state. Everything committed at `as_of`, by the source's clock, is below the position. `idle_from`: the log has
    nothing for the consumer in [`idle_from`, `position`), so a target anywhere in that range has everything below the
    position; None if it is not recorded.
    """

    kind: Literal["reader_advanced"] = field(default="reader_advanced", kw_only=True)
    reader: str
    position: Position
    cycle: int = 0
    as_of: datetime | None = None
    idle_from: Position | None = None
    lake_token: int | None = None


@frozen
class ReaderLeft:
    """A consumer of the log is removed: nothing is kept for it. An unknown consumer is ignored."""

    kind: Literal["reader_left"] = field(default="reader_left", kw_only=True)
    reader: str


@frozen
class TransactionOmitted:
    """A consumer of the log cannot hold a change of a member's table, and omits that table's part of the
    transaction.

    Written before the consumer continues, so that it decides the same when it reads the transaction again.
    """

    kind: Literal["transaction_omitted"] = field(default="transaction_omitted", kw_only=True)
    reader: str
    member_id: str
    lsn: CommitLsn
    reason: str
    lake_token: int | None = None


@frozen
class SegmentsTruncated:
    """Segments below the position, and below the slowest reader, are removed from the store."""

    kind: Literal["segments_truncated"] = field(default="segments_truncated", kw_only=True)
    token: int
    position: Position
    truncated_at: datetime


@frozen
class FilesDeleted:
    """Files that were pending deletion are deleted, and no longer listed."""

    kind: Literal["files_deleted"] = field(default="files_deleted", kw_only=True)
    token: int
    paths: tuple[str, ...]


@frozen
class Moved:
    """The log store and its lake are being moved: the copy has all entries before this one, and nothing follows.

    Until the move `is_recorded` in the database, a process that takes a lease cancels the move, and resumes here.
    """

    kind: Literal["moved"] = field(default="moved", kw_only=True)
    token: int
    lake: str
    log_store: str
    moved_at: datetime
    is_recorded: bool


Entry = (
    Opened
    | FormatRaised
    | TableGiven
    | RangeAppended
    | PartStored
    | LeaseTaken
    | SegmentsMerged
    | ReaderAdvanced
    | ReaderLeft
    | TimelineFollowed
    | TransactionSkipped
    | TransactionOmitted
    | SegmentsTruncated
    | FilesDeleted
    | Moved
)

_ENTRY, _NEWER_ENTRY = JsonOf[Entry](Entry, is_exact=True), JsonOf[Entry](Entry)


def encode_entry(entry: Entry) -> bytes:
    """Return the entry's JSON."""
    return _ENTRY.encode(entry).encode()


def decode_entry(found: Any, *, is_newer: bool = False) -> Entry:
    """Decode an entry from its JSON; an entry of a newer format may have unknown fields. Raises `JsonInvalid`."""
    return (_NEWER_ENTRY if is_newer else _ENTRY).decode_loaded(found)


_MOST_KEPT = 1000


@frozen
class EntryWritten:
    """An entry that is durable, by its number, and its file's content."""

    number: int
    content: bytes


@frozen
class EntryExchange:
    """One process's side of the exchange: `send` passes an entry to the other one. One thread receives entries, another
    applies them.
    """

    send: Callable[[EntryWritten], None]
    _heard: dict[int, bytes] = field(default_factory=dict)

    def hear(self, entry: EntryWritten) -> None:
        """Note an entry of the other process; the oldest are dropped if no thread takes them."""
        while len(self._heard) >= _MOST_KEPT:
            self._heard.pop(next(iter(self._heard)), None)
        self._heard[entry.number] = entry.content

    def take(self, number: int) -> bytes | None:
        """Remove and return a received entry; drop those before it."""
        for earlier in [known for known in list(self._heard) if known < number]:
            self._heard.pop(earlier, None)
        return self._heard.pop(number, None)

    @property
    def is_empty(self) -> bool:
        """Whether no received entry is left."""
        return not self._heard
