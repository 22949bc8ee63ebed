"""Resolution of concurrent changes to a row, decided at the hub. Pure.

The result is a change of the hub's own that includes both versions: no other node meets the conflict again, and the
loser receives the result like any other change.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, TombstoneType, Write
from rowtide.merge.versions.comparison import Presence, concurrent_columns, encode_columns


class Winner(Enum):
    """The side whose version remains; the publisher is the hub."""

    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"


@frozen
class Contest:
    """A conflict at the hub: the subscriber's version and the hub's; a row of None is deleted.

    `priority` is the subscription's: 0 for clients. `is_of_keys`: they are two rows with one key.
    """

    article: Article
    sent: RowChange
    known: KnownVersion
    publisher_row: Row | None
    priority: float
    is_of_keys: bool = False

    @property
    def subscriber_row(self) -> Row | None:
        return self.sent.row


@frozen
class Custom:
    """A row that neither side had wins; the loser is recorded as with any other resolution."""

    winner: Winner
    row: Row


Verdict = Winner | Custom
Resolver = Callable[[Contest], Verdict]


def winner_of(verdict: Verdict) -> Winner:
    """Return the side whose version is not recorded as the loser."""
    return verdict.winner if isinstance(verdict, Custom) else verdict


def resolve(contest: Contest, verdict: Verdict) -> Write:
    """Return the outcome as a change of the hub's; all columns that either side changed concurrently count as changed.

    The whole row is the winner's, even with column tracking.
    """
    is_sent = winner_of(verdict) is Winner.SUBSCRIBER
    row = contest.subscriber_row if is_sent else contest.publisher_row
    renewed: frozenset[int] = frozenset()
    if isinstance(verdict, Custom):
        row = verdict.row
        renewed = indexes_unlike(row, contest.subscriber_row, contest.publisher_row)
    tombstone = contest.sent.tombstone if is_sent else None
    priority = weight_of(contest.sent, contest.priority) or None if is_sent else contest.known.priority
    return decide(contest.sent, contest.known, row, priority=priority, tombstone=tombstone, renewed=renewed)


def indexes_unlike(row: Row, *others: Row | None) -> frozenset[int]:
    """Return the positions at which a row has a value of its own: all, if one of the others is gone."""
    is_gone = None in others
    return frozenset(
        index for index, value in enumerate(row) if is_gone or value not in (other[index] for other in others if other)
    )


def weight_of(sent: RowChange, priority: float) -> float:
    """Return the weight of a subscriber's version: its own, or the subscription's if the subscriber made it."""
    return priority if sent.priority is None else sent.priority


def decide(
    sent: RowChange,
    known: KnownVersion,
    row: Row | None,
    *,
    priority: float | None = None,
    tombstone: TombstoneType | None = None,
    renewed: frozenset[int] = frozenset(),
) -> Write:
    """Return a row as the hub's own change that includes both versions; columns `renewed` have a value of neither."""
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


def combine(sent: RowChange, known: KnownVersion, publisher_row: Row, columns: frozenset[int]) -> Write:
    """Return the hub's row with the sender's values in some columns."""
    assert sent.row is not None
    pairs = enumerate(zip(sent.row, publisher_row, strict=True))
    row = tuple(theirs if place in columns else ours for place, (theirs, ours) in pairs)
    return decide(sent, known, row, priority=known.priority)


def withdrawal(rowguid: str, lineage: bytes, *, is_live: bool) -> Write:
    """Return the hub's own deletion of a row that cannot be kept."""
    return Write(
        rowguid=rowguid,
        row=None,
        is_live=is_live,
        lineage=lineage,
        last=None,
        columns=None,
        origin=None,
        tombstone=TombstoneType.SYSTEM,
    )
