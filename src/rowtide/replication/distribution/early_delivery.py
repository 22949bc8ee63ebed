"""Delivers the parts of a large transaction while the rest of it is read from the log.

The parts run in an open transaction at the subscriber, which is committed only if the log store has the transaction's
commit, and names exactly these parts: else it is rolled back, and the transaction is delivered as any other. So a kill
at either side, a transaction that is read again and one that is omitted lose nothing and repeat nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.membership import ChangesOmitted, Disabled, Traced
from rowtide.log.store.entries import Segment
from rowtide.log.store.state import ManifestState, events_between, segments_between, skipped_between
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.altering_transactions import find_altering
from rowtide.replication.distribution.calls.from_log import LogCalls, find_versions
from rowtide.replication.distribution.delivery_interface import BatchUndone, CallNotStorable, Delivery
from rowtide.replication.distribution.run_context import BatchCounts
from rowtide.replication.errors.publishing import ColumnNotLogged
from rowtide.storage.store import Missing

PATIENCE_S = 10.0
"""How long a part is waited for: a log reader that has ended leaves a transaction open, with its locks."""

Undo = Callable[[], None]


@dataclass(slots=True)
class _Begun:
    """A transaction of which some parts were delivered. `undo` is None while none of them had a call."""

    calls: LogCalls
    parts: list[Segment] = field(default_factory=list)
    undo: Undo | None = None
    counts: BatchCounts = field(default_factory=BatchCounts)
    heard_at: float = field(default_factory=time.monotonic)

    @property
    def lsn(self) -> CommitLsn:
        return self.parts[0].first

    @property
    def end(self) -> Position:
        """The position behind the transaction."""
        return Position(self.lsn.value + 1)


class EarlyDelivery:
    """The open transaction of one subscription, if there is one; `open_calls` returns how its log is read now."""

    def __init__(self, delivery: Delivery, articles: Sequence[Article], open_calls: Callable[[], LogCalls]) -> None:
        self._delivery = delivery
        self._articles = articles
        self._open_calls = open_calls
        self._begun: _Begun | None = None
        self._passed_over: str | None = None

    def follow(self, state: ManifestState, position: Position) -> bool:
        """Deliver the next part that there is, for a subscriber that has everything below the position; return whether
        there was one. Raises what `Delivery` raises of a batch that is not one by one.
        """
        parts, begun = state.parts, self._begun
        if begun is not None and not _begins_with(parts, begun.parts):
            # A log reader that starts again writes the open transaction into new parts. What was delivered of the
            # former parts cannot be compared with these, so it is rolled back.
            self.undo()
            begun = None
        # By path, since a log reader that begins again writes other parts, which get another attempt.
        if not parts or parts[0].path == self._passed_over:
            return False
        begun = self._begun = begun or _Begun(self._open_calls())
        if len(parts) > len(begun.parts):
            failpoint("early_part.before")
            is_delivered = self._try(lambda: self._deliver(begun, parts[len(begun.parts)], state, position))
            failpoint("early_part.after")
            return is_delivered
        if time.monotonic() > begun.heard_at + PATIENCE_S:
            self._pass_over()
        return False

    def finish(
        self, state: ManifestState, position: Position, end: Callable[[BatchCounts, Position, LogCalls], None]
    ) -> bool:
        """Deliver the rest of a transaction that the log store has now, and let `end` commit it; return whether it was.

        If not, it is rolled back, if that was begun: it is delivered as any other.
        """
        begun = self._begun
        if begun is None:
            return False
        rest = _find_rest(state, self._articles, position, begun)
        # Nothing was sent, or it cannot be continued as it was begun: `step` delivers the range from its start.
        if begun.undo is None or rest is None:
            self.undo()
            return False

        def complete() -> None:
            for segment in rest:
                self._deliver(begun, segment, state, position)
            end(begun.counts, begun.end, begun.calls)
            self._begun = None

        return self._try(complete)

    def undo(self) -> None:
        """Roll back the open transaction, if there is one."""
        begun, self._begun = self._begun, None
        if begun is not None and begun.undo is not None:
            begun.undo()

    def _deliver(self, begun: _Begun, part: Segment, state: ManifestState, position: Position) -> None:
        # Before it is read: if it fails, the transaction is passed over by the path of its first part.
        begun.parts.append(part)
        for calls in begun.calls.read_segment(part, position, begun.end, find_versions(state, self._articles)):
            # A transaction is begun only for a part that has calls: an open one holds locks and its place in the batch.
            if not len(calls):
                continue
            if begun.undo is None:
                begun.undo = self._delivery.begin_early()
                if begun.undo is None:
                    self._pass_over()
                    return
            begun.counts.count(begun.lsn.value, len(calls))
            self._delivery.run(calls)
        if begun.undo is not None:
            # Now, while the next part is read: not when it is there.
            self._delivery.flush()
        begun.heard_at = time.monotonic()

    def _try(self, deliver: Callable[[], None]) -> bool:
        """Deliver; return false for what can be delivered in another way only, once the rest is read."""
        try:
            deliver()
        except (BatchUndone, CallNotStorable):
            assert self._begun is not None
            self._begun.undo = None  # it is rolled back
            self._pass_over()
            return False
        except (ColumnNotLogged, Missing):
            # Altered within the transaction; or the log reader has begun with it again.
            self._pass_over()
            return False
        return True

    def _pass_over(self) -> None:
        """Wait for the whole transaction, as long as it is read in these parts."""
        assert self._begun is not None
        self._passed_over = self._begun.parts[0].path
        self.undo()


def _find_rest(
    state: ManifestState, articles: Sequence[Article], position: Position, begun: _Begun
) -> Sequence[Segment] | None:
    """Return the segments that follow the delivered parts; None if these are not the next transaction of the log, or
    not all that happened in it.
    """
    end = begun.end
    segments = segments_between(state, position, end)
    is_next = all(segment.first == begun.lsn for segment in segments) and _begins_with(segments, begun.parts)
    is_altering = find_altering(state, articles, position, end) is not None
    has_more = any(
        isinstance(event, Disabled | ChangesOmitted | Traced) for event in events_between(state, position, end)
    )
    # These need the whole transaction before its first row is sent: an alteration changes the columns of rows within
    # it, an omission or a skip removes rows that may have been delivered early.
    is_plain = not (is_altering or has_more or skipped_between(state, position, end))
    return segments[len(begun.parts) :] if end <= state.position and is_next and is_plain else None


def _begins_with(segments: Sequence[Segment], parts: Sequence[Segment]) -> bool:
    return [segment.path for segment in segments[: len(parts)]] == [part.path for part in parts]
