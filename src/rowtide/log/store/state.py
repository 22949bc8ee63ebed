"""The manifest's state: what the log store contains, as the result of replaying its entries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rowtide.core.formats import StoredFormat
from rowtide.core.json_records import JsonOf
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import LoggedTable
from rowtide.core.values import frozen
from rowtide.log.membership import ControlRow, Event, Member
from rowtide.log.store.entries import EventJson, LeaseName, Segment, StoredSource


@frozen
class Lease:
    """The right to write, and its holder; `token` is the number of the entry that gave it."""

    holder: str
    token: int
    taken_at: datetime


@frozen
class Reader:
    """The progress of a consumer of the log: it needs nothing below `position`. The other fields: `ReaderAdvanced`."""

    position: Position
    cycle: int
    as_of: datetime | None = None
    idle_from: Position | None = None


@frozen
class LogGap:
    """Transactions in [`after`, `before`) are not in the store: ranges that overlap it are refused.

    The gap of a new epoch lies between two epochs; that of a skipped transaction is one LSN wide, inside one epoch.
    `bridged` are the members for which a transaction at `before` has what the gap changed.
    """

    after: Position
    before: Position
    reason: str
    bridged: tuple[str, ...] = ()


@frozen
class Incomplete:
    """A member lacks changes of the transaction at `lsn`: one of them could not be sent, or, with `is_unclear`, its
    columns could not be determined.
    """

    member_id: str
    lsn: CommitLsn
    reason: str
    is_unclear: bool = False


@frozen
class OmittedByReader:
    """Like `Incomplete`, but for one consumer of the log, which could not hold a row that the store has."""

    reader: str
    member_id: str
    lsn: CommitLsn
    reason: str


@frozen
class PendingDeletion:
    """A file that the state no longer lists; it is kept for `DELETE_GRACE` for processes that still read it."""

    path: str
    since: datetime


@frozen
class NewPlace:
    """Where a log store was moved, and whether its database knows."""

    log_store: str
    is_recorded: bool


@frozen
class ManifestState:
    """The log store's content.

    `version` is the last entry's number. The store holds [`low`, `position`), except gaps. Segments are ordered by
    `first`, parts of one transaction as they were written; `events` are those that are not truncated, `members` the
    current ones, `incomplete` what they lack, in log order, `omitted_by_readers` what one reader lacks of them.
    Everything committed at `as_of`, by the source's clock, is below `position`. Mappings are never changed in place.

    `control_row` is the mark or heartbeat of the latest transaction that was read, None if that is not known.
    `new_place`: the log store was moved there, or is being moved. `parts` are those of the transaction that is being
    read, whose commit is not stored yet.
    """

    format: StoredFormat
    version: int
    source: StoredSource
    epoch: int
    low: Position
    position: Position
    segments: tuple[Segment, ...]
    tables: Mapping[int, LoggedTable]
    members: tuple[Member, ...]
    events: tuple[EventJson, ...]
    readers: Mapping[str, Reader]
    leases: Mapping[LeaseName, Lease]
    pending_deletions: tuple[PendingDeletion, ...]
    gaps: tuple[LogGap, ...]
    as_of: datetime | None = None
    incomplete: tuple[Incomplete, ...] = ()
    omitted_by_readers: tuple[OmittedByReader, ...] = ()
    control_row: ControlRow | None = None
    new_place: NewPlace | None = None
    parts: tuple[Segment, ...] = ()

    @property
    def next_table_id(self) -> int:
        """The number that the next table version gets."""
        return max(self.tables, default=0) + 1

    def lacking(self, *readers: str) -> tuple[Incomplete, ...]:
        """Return what members lack, in log order: changes missing for all consumers of the log, and those that one of
        them omitted.
        """
        omitted = [
            Incomplete(one.member_id, one.lsn, one.reason) for one in self.omitted_by_readers if one.reader in readers
        ]
        return tuple(sorted((*self.incomplete, *omitted), key=lambda one: one.lsn))

    def list_omitted_by(self, reader: str) -> tuple[OmittedByReader, ...]:
        """Return what a consumer of the log has omitted, in the order in which it did."""
        return tuple(one for one in self.omitted_by_readers if one.reader == reader)

    def slowest_reader(self) -> Position | None:
        """Return the position below which no reader needs anything, None without readers."""
        return min((reader.position for reader in self.readers.values()), default=None)


def skipped_between(state: ManifestState, from_: Position, to: Position) -> tuple[LogGap, ...]:
    """Return the gaps of transactions that were skipped with a `commit_lsn` in [from_, to), in log order."""
    return tuple(gap for gap in state.gaps if gap.after.epoch == gap.before.epoch and from_ <= gap.after < to)


def next_gap(state: ManifestState, from_: Position) -> LogGap | None:
    """Return the gap behind the epoch of a position, None in the log's present epoch."""
    return next((gap for gap in state.gaps if gap.after.epoch == from_.epoch < gap.before.epoch), None)


def segments_between(state: ManifestState, from_: Position, to: Position) -> tuple[Segment, ...]:
    """Return the segments that can hold a `commit_lsn` in [from_, to)."""
    return tuple(segment for segment in state.segments if not from_.covers(segment.last) and to.covers(segment.first))


def bounded_end(state: ManifestState, from_: Position, max_rows: int) -> Position:
    """Return the end of about `max_rows` rows from a position on: whole transactions; the store's position if there
    are fewer.
    """
    rows, last = 0, None
    for segment in segments_between(state, from_, state.position):
        rows += segment.rows
        if last is not None and rows > max_rows and segment.first > last:
            return Position(last.value + 1)
        last = segment.last
    return state.position


def events_between(state: ManifestState, from_: Position, to: Position) -> tuple[Event, ...]:
    """Return the events with a `commit_lsn` in [from_, to), in log order."""
    return tuple(event for event in state.events if not from_.covers(event.commit_lsn) and to.covers(event.commit_lsn))


_STATE = JsonOf[ManifestState](ManifestState, is_exact=True)
_NEWER_STATE = JsonOf[ManifestState](ManifestState)


def encode_state(state: ManifestState) -> bytes:
    """Return the state's JSON, a checkpoint."""
    return _STATE.encode(state).encode()


def decode_state(found: Any, *, is_newer: bool = False) -> ManifestState:
    """Read a checkpoint from what its JSON has, as `decode_entry` does. Raises `JsonInvalid`."""
    return (_NEWER_STATE if is_newer else _STATE).decode_loaded(found)
