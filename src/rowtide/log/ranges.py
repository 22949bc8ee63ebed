"""Ranges of the log: cuts of its messages are decoded, in order, and made durable, each with what it announces."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
from rowtide.log.announcements import ControlRow, later_row
from rowtide.log.batches import Cut, TransactionPart, Whole
from rowtide.log.membership import Event, stamp
from rowtide.log.source import Decoded, Keepalive, LogSource, Undecodable
from rowtide.log.store.entries import PartStored, RangeAppended, Segment, TableGiven, TransactionSkipped
from rowtide.log.store.maintenance import maintain
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import write_segment
from rowtide.storage.store import Store


@frozen
class DecodedCut:
    """A cut as log records. `end` is the log position behind it, None for a part of a transaction.

    `error` names the transaction after it, which cannot be decoded.
    """

    decoded: Decoded
    end: int | None
    is_whole: bool
    error: RowtideError | None = None


class CutDecoder:
    """Decodes cuts, in order, and verifies the source after each: in a thread of its own, as the source's session."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._stopped: BaseException | None = None

    def decode(self, cut: Cut) -> DecodedCut:
        """Decode a cut. After one that fails none is decoded: its error is raised again."""
        if self._stopped is not None:
            raise self._stopped
        try:
            found = self._decode(cut)
            if found.end is not None:
                # Only now: this sees whatever was altered before these messages were decoded.
                self._source.verify()
        except BaseException as error:
            self._stopped = error
            raise
        self._stopped = found.error
        return found

    def _decode(self, cut: Cut) -> DecodedCut:
        try:
            decoded = self._source.decode(cut.messages)
        except Undecodable as stopped:
            before = cut.messages[: stopped.whole]
            if not before:
                raise stopped.error from stopped
            end = self._source.commit_end(before[-1])
            return DecodedCut(self._source.decode(before), end, is_whole=True, error=stopped.error)
        return DecodedCut(
            decoded, None if isinstance(cut, TransactionPart) else cut.end, is_whole=isinstance(cut, Whole)
        )


class RangeWriter:
    """Makes decoded cuts durable, in order: segments, then one manifest entry for whole transactions.

    Each part of a large transaction has an entry, too, so that its delivery does not wait for the last.
    """

    def __init__(self, store: Store, manifest: Manifest, token: int) -> None:
        self._store = store
        self._manifest = manifest
        self._token = token
        self._parts: list[Segment] = []
        self._events: list[Event] = []
        self._control_row: ControlRow | None = None
        self._is_complete = True

    def write(self, decoding: Future[DecodedCut]) -> Position | None:
        """Make a cut durable; return the position below which the server may remove its log, None for a part.

        After a failed cut nothing more is written: the ranges queued after it would cover what it lacks.
        """
        if not self._is_complete:
            return None
        # Until the cut is durable: whatever is raised on the way leaves it so.
        self._is_complete = False
        cut = decoding.result()
        position = self._write(cut)
        if cut.error is not None:
            raise cut.error
        self._is_complete = True
        return position

    def _write(self, cut: DecodedCut) -> Position | None:
        decoded = cut.decoded
        for version in decoded.new_tables:
            self._manifest.append(TableGiven(token=self._token, version=version))
        self._events += decoded.events
        self._control_row = later_row(self._control_row, decoded.control_row)
        if decoded.records.num_rows:
            segment = write_segment(self._store, decoded.records, pending=not cut.is_whole)
            if cut.end is None:
                self._announce_part(segment)
            self._parts.append(segment)
        if cut.end is None:
            return None
        return self._append_range(cut.end, decoded.transactions, decoded.as_of)

    def _announce_part(self, segment: Segment) -> None:
        """Let consumers begin with a transaction while the rest of it is read."""
        failpoint("part_entry.before")
        self._manifest.append(PartStored(token=self._token, number=len(self._parts), segment=segment))
        failpoint("part_entry.after")

    def advance(self, keepalive: Keepalive, verifying: Future[None]) -> Position:
        """Record that no member's change lies below a log position, once the source is verified."""
        verifying.result()
        return self._append_range(keepalive.position, 0, keepalive.as_of)

    def skip(self, lsn: CommitLsn, reason: str) -> None:
        """Record that the next transaction, which cannot be read, is skipped. Parts of it that were stored are
        discarded.
        """
        self._forget()
        failpoint("transaction_skipped.before")
        self._manifest.append(TransactionSkipped(token=self._token, lsn=lsn, reason=reason))
        failpoint("transaction_skipped.after")

    def maintain(self) -> None:
        """Merge small segments, truncate below the slowest reader."""
        maintain(self._store, self._manifest, self._token)

    def _append_range(self, end: int, transactions: int, as_of: datetime | None) -> Position:
        # Of what the entry is made from, nobody but the holder of the lease writes anything.
        state = self._manifest.state
        position = Position.of(state.epoch, end)
        if position <= state.position:
            return state.position
        now = datetime.now(UTC)
        entry = RangeAppended(
            token=self._token,
            from_position=state.position,
            position=position,
            segments=tuple(self._parts),
            events=tuple(stamp(event, now) for event in self._events),
            transactions=transactions,
            as_of=as_of,
            control_row=later_row(state.control_row, self._control_row),
        )
        self._manifest.append(entry)
        self._forget()
        return position

    def _forget(self) -> None:
        self._parts, self._events, self._control_row = [], [], None
