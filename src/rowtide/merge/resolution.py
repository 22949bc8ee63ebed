"""What becomes of a row that was changed apart, decided at the hub. Pure.

What is decided counts as a change of the hub's that includes both: no node meets the conflict again, and whoever lost
is given the result as any other change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum

from rowtide.merge.articles import Article
from rowtide.merge.changes import Known, Row, RowChange, TombstoneType, Write
from rowtide.merge.errors import ResolverUnknown
from rowtide.merge.lineage import Change, encode_columns
from rowtide.merge.versions import Presence, changed_apart

PUBLISHER_PRIORITY = 100.0


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


Resolver = Callable[[Contest], Winner]


def by_priority(contest: Contest) -> Winner:
    """The higher priority wins; of equal ones the change of the node with the lower nickname."""
    known = PUBLISHER_PRIORITY if contest.known.priority is None else contest.known.priority
    if contest.priority != known:
        return Winner.SUBSCRIBER if contest.priority > known else Winner.PUBLISHER
    sent, last = Change.decode(contest.sent.last), contest.known.version.last
    assert last is not None
    return Winner.SUBSCRIBER if sent.nickname < last.nickname else Winner.PUBLISHER


def find_resolver(article: Article) -> Resolver:
    """Return what decides an article's conflicts, by what was written for `--resolver`. Raises `ResolverUnknown`."""
    name, _, argument = article.resolver.partition(":")
    if name in _PLAIN and not argument:
        return _PLAIN[name]
    if name in _BY_COLUMN and article.place_of(argument) is not None:
        return _BY_COLUMN[name](article.place_of(argument) or 0)
    raise ResolverUnknown(
        article.resolver, article.name, ", ".join([*_PLAIN, *(f"{name}:COLUMN" for name in _BY_COLUMN)])
    )


def resolve(contest: Contest, winner: Winner) -> Write:
    """Return the winner's version as a change of the hub's; what either has changed since they parted is new in it.

    The whole row is the winner's, where columns are tracked too.
    """
    is_sent = winner is Winner.SUBSCRIBER
    row = contest.subscriber_row if is_sent else contest.publisher_row
    tombstone = contest.sent.tombstone if is_sent else None
    priority = contest.priority or None if is_sent else contest.known.priority
    return decide(contest.sent, contest.known, row, priority=priority, tombstone=tombstone)


def decide(
    sent: RowChange,
    known: Known,
    row: Row | None,
    *,
    priority: float | None = None,
    tombstone: TombstoneType | None = None,
) -> Write:
    """Return a row as the hub's own change, on top of both versions."""
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
        own_columns=changed_apart(version, base) if columns is not None else frozenset(),
        tombstone=tombstone or TombstoneType.USER,
        priority=priority,
    )


def combine(sent: RowChange, known: Known, publisher_row: Row, columns: frozenset[int]) -> Write:
    """Return the hub's row with the sender's values of some columns."""
    assert sent.row is not None
    pairs = enumerate(zip(sent.row, publisher_row, strict=True))
    row = tuple(theirs if place in columns else ours for place, (theirs, ours) in pairs)
    return decide(sent, known, row, priority=known.priority)


def _later_wins(place: int) -> Resolver:
    def decide_by_value(contest: Contest) -> Winner:
        rows = contest.subscriber_row, contest.publisher_row
        if rows[0] is None or rows[1] is None:
            return by_priority(contest)
        sent, known = (_ordered(row[place]) for row in rows if row is not None)
        if sent == known:
            return by_priority(contest)
        return Winner.SUBSCRIBER if sent > known else Winner.PUBLISHER

    return decide_by_value


def _ordered(text: str | None) -> tuple[int, Decimal, str]:
    """Return what a value is ordered by: numbers as such, others as texts, as times in ISO form are.

    NULL is least, and what is not a number the greatest of numbers, as PostgreSQL has it.
    """
    if text is None:
        return (0, Decimal(0), "")
    try:
        number = Decimal(text)
    except InvalidOperation:
        return (3, Decimal(0), text)
    return (2, Decimal(0), "") if number.is_nan() else (1, number, "")


def _publisher_wins(_contest: Contest) -> Winner:
    return Winner.PUBLISHER


def _subscriber_wins(_contest: Contest) -> Winner:
    return Winner.SUBSCRIBER


_PLAIN: dict[str, Resolver] = {
    "priority": by_priority,
    "publisher-wins": _publisher_wins,
    "subscriber-wins": _subscriber_wins,
}
_BY_COLUMN: dict[str, Callable[[int], Resolver]] = {"later-wins": _later_wins}
