"""What becomes of a row that was changed concurrently, decided at the hub. Pure.

What is decided counts as a change of the hub's that includes both: no node meets the conflict again, and whoever lost
is given the result as any other change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from rowtide.merge.articles import Article
from rowtide.merge.versions.changes import Known, Row, RowChange, TombstoneType, Write
from rowtide.merge.versions.comparison import Presence, concurrent_columns
from rowtide.merge.versions.lineage import encode_columns


class Winner(Enum):
    """Whose version a conflict leaves; the publisher is the hub."""

    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"


@dataclass(frozen=True, slots=True)
class Contest:
    """A conflict at the hub: what the subscriber sent, and what the hub has; a row of None is deleted.

    `priority` is the subscription's: 0 for clients.
    """

    article: Article
    sent: RowChange
    known: Known
    publisher_row: Row | None
    priority: float

    @property
    def subscriber_row(self) -> Row | None:
        return self.sent.row


@dataclass(frozen=True, slots=True)
class Custom:
    """A row that is neither's stands; the loser is kept as with any other resolution."""

    winner: Winner
    row: Row


Verdict = Winner | Custom
Resolver = Callable[[Contest], Verdict]


def winner_of(verdict: Verdict) -> Winner:
    """Return whose version is not kept as the loser's."""
    return verdict.winner if isinstance(verdict, Custom) else verdict


def resolve(contest: Contest, verdict: Verdict) -> Write:
    """Return what stands, as a change of the hub's; what either has changed since they parted is new in it.

    The whole row is the winner's, where columns are tracked too.
    """
    is_sent = winner_of(verdict) is Winner.SUBSCRIBER
    row = contest.subscriber_row if is_sent else contest.publisher_row
    renewed: frozenset[int] = frozenset()
    if isinstance(verdict, Custom):
        row, renewed = verdict.row, frozenset(range(len(verdict.row)))
    tombstone = contest.sent.tombstone if is_sent else None
    priority = contest.priority or None if is_sent else contest.known.priority
    return decide(contest.sent, contest.known, row, priority=priority, tombstone=tombstone, renewed=renewed)


def decide(
    sent: RowChange,
    known: Known,
    row: Row | None,
    *,
    priority: float | None = None,
    tombstone: TombstoneType | None = None,
    renewed: frozenset[int] = frozenset(),
) -> Write:
    """Return a row as the hub's own change, on top of both versions; columns `renewed` have neither's value."""
    version, base = sent.version, known.version
    columns = None
    if base.columns is not None or version.columns is not None:
        columns = encode_columns({**(version.columns or {}), **(base.columns or {})})
    return Write(
        rowguid=sent.rowguid,
        row=row,
        is_live=base.presence is Presence.LIVE,
        lineage=base.lineage.joined(version.lineage).encode(),
        last=None,
        columns=columns,
        origin=None,
        own_columns=concurrent_columns(version, base) | renewed if columns is not None else frozenset(),
        tombstone=tombstone or TombstoneType.USER,
        priority=priority,
    )


def combine(sent: RowChange, known: Known, publisher_row: Row, columns: frozenset[int]) -> Write:
    """Return the hub's row with the sender's values of some columns."""
    assert sent.row is not None
    pairs = enumerate(zip(sent.row, publisher_row, strict=True))
    row = tuple(theirs if place in columns else ours for place, (theirs, ours) in pairs)
    return decide(sent, known, row, priority=known.priority)
