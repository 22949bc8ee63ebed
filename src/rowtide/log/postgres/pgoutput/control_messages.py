"""One pass over a batch's messages that are not rows of members' tables: Relation, Truncate, and announcements."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.log.errors import AnnouncementUnreadable
from rowtide.log.log_source import Undecodable
from rowtide.log.membership import Alteration, Altered, ChangesOmitted, ControlRow, Disabled, Enabled, Event, later_row
from rowtide.log.origin_marks import MESSAGE_PREFIX, Secrets, verify_mark
from rowtide.log.postgres.pgoutput import announcements
from rowtide.log.postgres.pgoutput.announcements import Announced
from rowtide.log.postgres.pgoutput.inferring import KnownTables, Present, Unclear, infer_alteration
from rowtide.log.postgres.pgoutput.messages import (
    Bools,
    Frames,
    Ints,
    Relation,
    TruncateStatement,
    parse_inserted,
    parse_message,
    parse_relation,
    parse_truncation,
)
from rowtide.log.postgres.pgoutput.relations import BatchTransactions, LayoutChange, Relations

_IS_CONTROL = np.zeros(256, np.bool_)
_IS_CONTROL[list(b"RT")] = True
_ROWS = list(b"IUD")
_OID_BYTES = 4
_MARK_HEAD = f"{MESSAGE_PREFIX}\0".encode()
_MESSAGE_HEAD_BYTES = 10
"""Of a logical message, before its prefix."""


@frozen(order=True)
class LogOrder:
    """Where an event happened: message of the batch, and ordinal."""

    message: int
    seqval: int = 0


PlacedEvent = tuple[LogOrder, Event]


@dataclass(slots=True)
class Control:
    """What the batch's control messages contain, in log order; truncations and records with their message numbers.

    `last_row` is the mark or heartbeat of the latest transaction. `unverified` are the commit LSNs of transactions with
    a mark of delivery that is not verified.
    """

    layouts: list[LayoutChange]
    truncations: list[tuple[int, TruncateStatement]] = field(default_factory=list)
    records: list[tuple[int, Announced]] = field(default_factory=list)
    events: list[PlacedEvent] = field(default_factory=list)
    last_row: ControlRow | None = None
    unverified: list[CommitLsn] = field(default_factory=list)

    def changes_per_message(self, is_row: Ints) -> Ints:
        """Return how many ordinals each message takes: a row one, a truncation one per table."""
        changes = is_row.copy()
        for message, truncation in self.truncations:
            changes[message] = len(truncation.oids)
        return changes

    def numbered_events(self, first_ordinals: Ints) -> list[PlacedEvent]:
        """Return the events; those that alter a table with their place among the changes of their transaction.

        A row of `rowtide.control` has an ordinal of its own; any other message has that of the change after it.
        """
        return [
            (order, replace(event, seqval=int(first_ordinals[order.message])) if isinstance(event, Altered) else event)
            for order, event in self.events
        ]


def read_control(
    frames: Frames, transactions: BatchTransactions, relations: Relations, present: Present | None, secrets: Secrets
) -> Control:
    """Process each control message in log order, and update `relations` and the transactions' marks.

    `present` are tables as the catalogue has them; what no event trigger recorded is inferred from them.
    Raises `DecodeError`, `Undecodable`, `TableWanted`, `SecretWanted`.
    """
    control = Control(relations.carried_layouts())
    reader = _ControlReader(frames, transactions, relations, control, present, secrets)
    for message in np.flatnonzero(_find_control(frames, relations)).tolist():
        reader.read(message)
    reader.end()
    return control


def _find_control(frames: Frames, relations: Relations) -> Bools:
    """Flag the messages that the pass processes: the rare kinds, inserts into any table that is the control table at
    some point, and logical messages with a mark of delivery.
    """
    chosen: Bools = _IS_CONTROL[frames.kinds]
    for message in frames.of_kind("M").tolist():
        chosen[message] = _is_mark(frames, message)
    described = frames.of_kind("R")
    heads = frames.starts[described] + 1 + _OID_BYTES
    # The control table may be described in this batch for the first time, or be dropped and created again: its inserts
    # are chosen by every oid that it has here, and `find_control` decides at each message.
    oids = set(relations.control_ids)
    for message, head in zip(described.tolist(), heads.tolist(), strict=True):
        if frames.buffer.startswith(announcements.HEAD, head):
            oids.add(int(frames.uint32_at(frames.starts[message] + 1)))
    if oids:
        inserts = frames.of_kind("I")
        of_control = np.isin(frames.uint32_at(frames.starts[inserts] + 1), list(oids))
        chosen[inserts[of_control]] = True
    return chosen


def _is_mark(frames: Frames, message: int) -> bool:
    return frames.buffer.startswith(_MARK_HEAD, int(frames.starts[message]) + _MESSAGE_HEAD_BYTES)


@frozen
class _ControlReader:
    frames: Frames
    transactions: BatchTransactions
    relations: Relations
    control: Control
    present: Present | None
    secrets: Secrets
    unclear_from: dict[int, int] = field(default_factory=dict)

    def read(self, message: int) -> None:
        match chr(self.frames.kinds[message]):
            case "R":
                self._read_relation(message)
            case "T":
                truncation = parse_truncation(self.frames, message)
                self.control.truncations.append((message, truncation))
            case "I":
                self._read_announcement(message)
            case _:
                self._read_mark(message)

    def _read_relation(self, message: int) -> None:
        """Process it even in a transaction that is dropped: the server describes a table only once per connection."""
        relation = parse_relation(self.frames, message)
        # If the position covers the transaction, the alteration was recorded when the transaction was first read.
        if self.present is not None and not self.transactions.drops(message):
            self._infer(relation, message, self.present)
        self.control.layouts.extend(self.relations.describe(relation, message))

    def _infer(self, relation: Relation, message: int, present: Present) -> None:
        relations = self.relations
        known = KnownTables(
            present,
            relations.types_of(relation.oid),
            is_same=relations.is_as_described(relation),
            announces_ddl=relations.announces_ddl,
        )
        found = infer_alteration(relation, relations.members, known)
        self._end_unclear(relation.oid, message)
        match found:
            case Unclear():
                self.relations.unclear[relation.oid] = found
                self.unclear_from[relation.oid] = message
            case Alteration():
                altered = Altered(CommitLsn(self.transactions.lsn_of(message)), found)
                self.control.events.append((LogOrder(message), altered))
                self.control.layouts.extend(self._follow(altered, message))

    def end(self) -> None:
        """Report the tables that are still unclear at the end of the batch."""
        for oid in self.relations.unclear:
            self._omit(oid, len(self.frames))

    def _end_unclear(self, oid: int, message: int) -> None:
        if oid in self.relations.unclear:
            self._omit(oid, message)
            del self.relations.unclear[oid]

    def _omit(self, oid: int, end: int) -> None:
        """Omit, for the members of an unclear table, the transactions with rows of it up to a message."""
        unclear, begin = self.relations.unclear[oid], self.unclear_from.get(oid, 0)
        rows = np.flatnonzero(np.isin(self.frames.kinds, _ROWS))
        rows = rows[(rows >= begin) & (rows < end) & ~self.transactions.is_dropped[self.transactions.number[rows]]]
        rows = rows[self.frames.uint32_at(self.frames.starts[rows] + 1) == oid]
        _, firsts = np.unique(self.transactions.number[rows], return_index=True)
        for message in rows[firsts].tolist():
            lsn = CommitLsn(self.transactions.lsn_of(message))
            for member_id in unclear.member_ids:
                self.control.events.append(
                    (LogOrder(message), ChangesOmitted(lsn, member_id, unclear.reason, is_unclear=True))
                )

    def _read_mark(self, message: int) -> None:
        logical = parse_message(self.frames, message)
        # The server sends a message that is not transactional immediately, even if its transaction is rolled back
        # later. So it marks nothing.
        if self.transactions.drops(message) or not logical.transactional:
            return
        origin = verify_mark(logical.content, self.secrets)
        if origin is None:
            self.control.unverified.append(CommitLsn(self.transactions.lsn_of(message)))
        else:
            self.transactions.marks[int(self.transactions.number[message])] = origin

    def _read_announcement(self, message: int) -> None:
        """Process an announcement that is not durable yet."""
        if self.transactions.drops(message):
            return
        found = None
        try:
            found = self._parse_row(message)
            if found is None:
                return
            lsn, time = CommitLsn(self.transactions.lsn_of(message)), self.transactions.time_of(message)
            event = announcements.read_event(found, lsn, time)
        except ValueError as error:
            raise self._unreadable(message, found, error) from error
        if isinstance(event, Altered) and self.transactions.is_marked(message):
            event = replace(event, is_delivered=True)
        self.control.last_row = later_row(self.control.last_row, found.row)
        if found.has_record:
            self.control.records.append((message, found))
        if event is not None:
            self.control.events.append((LogOrder(message), event))
            self.control.layouts.extend(self._follow(event, message))

    def _parse_row(self, message: int) -> Announced | None:
        oid = int(self.frames.uint32_at(self.frames.starts[message] + 1))
        relation = self.relations.find_control(oid)
        if relation is None:
            return None
        return announcements.of_row(parse_inserted(self.frames, message, relation), self.transactions.xid_of(message))

    def _follow(self, event: Event, message: int) -> list[LayoutChange]:
        match event:
            case Enabled():
                self._end_unclear(event.member.source_id, message)
                return self.relations.enable(event.member, message)
            case Disabled():
                return self.relations.disable(event.member_id, message)
            case Altered():
                self._end_unclear(event.alteration.source_id, message)
                return self.relations.alter(event.alteration, message)
        return []

    def _unreadable(self, message: int, found: Announced | None, error: ValueError) -> Undecodable:
        """Name the transaction in the error: those before it can be read, and this one can be skipped."""
        lsn = str(CommitLsn(self.transactions.lsn_of(message)))
        # The cause's message could quote the content.
        reason = str(error) if type(error) is ValueError else "its content is not as agreed"
        unreadable = AnnouncementUnreadable(found.kind if found is not None else "unknown", lsn, reason)
        return self._stopped(message, unreadable)

    def _stopped(self, message: int, error: RowtideError) -> Undecodable:
        """Stop before the transaction of a message."""
        number = self.transactions.number
        commits = self.frames.of_kind("C")
        before = commits[number[commits] < number[message]]
        return Undecodable(error, int(before[-1]) + 1 if len(before) else 0)
