"""One pass over the messages that are no rows: tables described, truncated, members enabled and disabled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from rowtide.core.lsn import CommitLsn
from rowtide.log.alterations import DDL_PREFIX, decode_alteration
from rowtide.log.membership import (
    DISABLE_PREFIX,
    ENABLE_PREFIX,
    HEARTBEAT_PREFIX,
    TRACER_PREFIX,
    Altered,
    Disabled,
    Enabled,
    Event,
    Heartbeat,
    Traced,
    decode_disable,
    decode_member,
    decode_token,
)
from rowtide.log.postgres.pgoutput.frames import Frames, Ints
from rowtide.log.postgres.pgoutput.messages import (
    LogicalMessage,
    Truncation,
    parse_message,
    parse_relation,
    parse_truncation,
)
from rowtide.log.postgres.pgoutput.relations import LayoutChange, Relations
from rowtide.log.postgres.pgoutput.transactions import Transactions

_IS_CONTROL = np.zeros(256, np.bool_)
_IS_CONTROL[list(b"RTM")] = True


@dataclass(frozen=True, slots=True, order=True)
class LogOrder:
    """Where an event happened: message of the batch, and ordinal."""

    message: int
    seqval: int = 0


PlacedEvent = tuple[LogOrder, Event]
_MemberEvent = Enabled | Disabled | Altered


@dataclass(frozen=True, slots=True)
class Control:
    """What the batch's control messages said, in log order; truncations and messages with their message numbers."""

    layouts: list[LayoutChange]
    truncations: list[tuple[int, Truncation]] = field(default_factory=list)
    messages: list[tuple[int, LogicalMessage]] = field(default_factory=list)
    events: list[PlacedEvent] = field(default_factory=list)

    def changes_per_message(self, is_row: Ints) -> Ints:
        """Return how many ordinals each message takes: a row one, a truncation one per table."""
        changes = is_row.copy()
        for message, truncation in self.truncations:
            changes[message] = len(truncation.oids)
        return changes


def read_control(frames: Frames, transactions: Transactions, relations: Relations) -> Control:
    """Take each control message in turn; what it says changes `relations`. Raises `DecodeError`."""
    control = Control(relations.carried_layouts())
    reader = _Reader(frames, transactions, relations, control)
    for message in np.flatnonzero(_IS_CONTROL[frames.kinds]).tolist():
        reader.read(message)
    return control


@dataclass(frozen=True, slots=True)
class _Reader:
    frames: Frames
    transactions: Transactions
    relations: Relations
    control: Control

    def read(self, message: int) -> None:
        match chr(self.frames.kinds[message]):
            case "R":
                self._read_relation(message)
            case "T":
                truncation = parse_truncation(self.frames, message)
                self.control.truncations.append((message, truncation))
            case _:
                self._read_message(message)

    def _read_relation(self, message: int) -> None:
        """Take it inside a dropped transaction too: the server describes a table once per connection."""
        relation = parse_relation(self.frames, message)
        self.control.layouts.extend(self.relations.describe(relation, message))

    def _read_message(self, message: int) -> None:
        """Ignore a message outside any transaction: nothing orders it among commits."""
        logical = parse_message(self.frames, message)
        if not logical.transactional or self.transactions.drops(message):
            return
        if logical.prefix in (HEARTBEAT_PREFIX, TRACER_PREFIX):
            # An event alone: nothing reads their record.
            self.control.events.append((LogOrder(message), self._read_point(logical, message)))
            return
        self.control.messages.append((message, logical))
        event = self._read_event(logical, message)
        if event is not None:
            self.control.events.append((LogOrder(message), event))
            self.control.layouts.extend(self._change_members(event, message))

    def _read_point(self, logical: LogicalMessage, message: int) -> Heartbeat | Traced:
        lsn, time = CommitLsn(self.transactions.lsn_of(message)), self.transactions.time_of(message)
        if logical.prefix == HEARTBEAT_PREFIX:
            return Heartbeat(lsn, time)
        try:
            return decode_token(logical.content.decode(), lsn, time)
        except ValueError as error:
            raise self.frames.error(message, f"the content of {logical.prefix} is not as agreed") from error

    def _read_event(self, logical: LogicalMessage, message: int) -> _MemberEvent | None:
        if logical.prefix not in (ENABLE_PREFIX, DISABLE_PREFIX, DDL_PREFIX):
            return None
        lsn = CommitLsn(self.transactions.lsn_of(message))
        try:
            content = logical.content.decode()
            if logical.prefix == ENABLE_PREFIX:
                return Enabled(lsn, decode_member(content))
            if logical.prefix == DDL_PREFIX:
                return Altered(lsn, decode_alteration(content))
            return Disabled(lsn, decode_disable(content))
        except ValueError as error:  # no UTF-8, no JSON, or not the agreed fields
            problem = f"the content of {logical.prefix} is not as agreed"
            raise self.frames.error(message, problem) from error

    def _change_members(self, event: _MemberEvent, message: int) -> list[LayoutChange]:
        match event:
            case Enabled():
                return self.relations.enable(event.member, message)
            case Disabled():
                return self.relations.disable(event.member_id, message)
            case Altered():
                return self.relations.alter(event.alteration, message)
            case _:
                assert_never(event)
