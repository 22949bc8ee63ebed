"""Rows that enter or leave a subscriber's partition when the hub's rows change (SQL Server: partition mappings).

The hub stores which rows each subscriber with filtered articles has (partition membership). Membership is evaluated in
the snapshot of a generation, for three kinds of rows: those changed, those that join to a changed parent, and those
that the subscriber has because of a changed parent. The decisions are pure; `descent` has the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Self

from rowtide.merge.partitions.belonging import read_parents
from rowtide.merge.versions.apply import OF_OTHERS

STAYED = -2
"""The generation of rows that have left a subscriber's partition, and stay there without realignment."""
SqlValue = str | int | float | bytes | None


@dataclass(frozen=True, slots=True)
class Membership:
    """A subscriber has, or may have, a row since a generation of the hub.

    `parent` is the parent's row; None without one.
    """

    generation: int
    parent: str | None
    is_leaving: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row that may have entered or left a partition, or changed in it.

    `is_changed`: since the last synchronisation; `is_own`: by the subscriber itself; `is_asked`: to be sent again.
    `parents` are the rows by which it belongs if it does not by itself: one of them, or all in a circle of articles.
    """

    rowguid: str
    is_live: bool
    is_changed: bool
    is_own: bool
    belongs: bool
    parents: tuple[str, ...]
    membership: Membership | None
    is_asked: bool

    @property
    def is_of_others(self) -> bool:
        """Whether the subscriber does not have the row, and wrote to it."""
        return self.membership is not None and self.membership.generation == OF_OTHERS

    @classmethod
    def read(cls, row: Sequence[SqlValue]) -> Self:
        """Read a row of the query `candidates`; booleans may be bool or int, as the database returns them."""
        # As `CANDIDATE_COLUMNS` after the rowguid.
        generation, member_parent, is_leaving = row[6:9]
        return cls(
            rowguid=str(row[0]),
            is_live=_is(row[1]),
            is_changed=_is(row[2]),
            is_own=_is(row[3]),
            belongs=_is(row[4]),
            parents=read_parents(_text(row[5])),
            membership=None
            if generation is None or int(generation) == STAYED
            else Membership(int(generation), _text(member_parent), _is(is_leaving)),
            is_asked=_is(row[9]),
        )


CANDIDATE_COLUMNS = (
    "is_live",
    "is_changed",
    "is_own",
    "belongs",
    "parents",
    "generation",
    "member_parent",
    "is_leaving",
    "is_asked",
)
"""Names of the query's columns after the rowguid."""


class Move(Enum):
    """What to send for a candidate."""

    NOTHING = auto()
    SEND = auto()
    """The row as it is."""
    LEAVE = auto()
    """That it no longer belongs to the subscriber's partition."""
    BURY = auto()
    """Its tombstone."""
    STAY = auto()
    """Nothing, though it no longer belongs to the partition: the subscriber keeps it, and gets no change of it."""


def judge(candidate: Candidate, since: int, *, realigns: bool = True) -> Move:
    """Return what to send to a subscriber that has everything up to a generation.

    `realigns`: rows that leave the partition are removed from the subscriber.
    """
    membership = candidate.membership
    if candidate.is_of_others:
        return Move.SEND if candidate.is_live and candidate.belongs else Move.LEAVE
    if not candidate.is_live:
        is_news = candidate.is_asked or (candidate.is_changed and not candidate.is_own)
        return Move.BURY if membership is not None and is_news else Move.NOTHING
    if not candidate.belongs:
        leaving = Move.LEAVE if realigns else Move.STAY
        return leaving if membership is not None or candidate.is_asked else Move.NOTHING
    is_new = membership is None or membership.generation > since or membership.is_leaving
    is_news = candidate.is_asked or (candidate.is_changed and not candidate.is_own)
    return Move.SEND if is_new or is_news else Move.NOTHING


@dataclass(slots=True)
class Marks:
    """Partition membership to store for an article's candidates; `entering` and `relinked` have the parents' rowguids.

    Rows in `leaving` and `buried` remain members until the subscriber has confirmed them. `following` are rows whose
    parents are known once all candidates are: those that follow rows of the same circle of articles. Rows in `staying`
    are those that the subscriber keeps.
    """

    is_circular: bool = False
    entering: list[tuple[str, str | None]] = field(default_factory=list)
    relinked: list[tuple[str, str | None]] = field(default_factory=list)
    leaving: list[str] = field(default_factory=list)
    buried: list[str] = field(default_factory=list)
    staying: list[str] = field(default_factory=list)
    following: dict[str, Candidate] = field(default_factory=dict)

    @property
    def is_any(self) -> bool:
        """Whether there is anything to store before sending."""
        return bool(self.entering or self.relinked or self.leaving)

    def add(self, candidate: Candidate, move: Move) -> None:
        """Add a candidate with what is sent for it."""
        membership = candidate.membership
        if move is Move.STAY:
            if membership is not None:
                self.staying.append(candidate.rowguid)
        elif move is Move.LEAVE:
            self.leaving.append(candidate.rowguid)
        elif move is Move.BURY or (membership is not None and not candidate.is_live and candidate.is_own):
            self.buried.append(candidate.rowguid)
        elif candidate.is_live and candidate.belongs:
            if self.is_circular and candidate.parents:
                self.following[candidate.rowguid] = candidate
            else:
                self._link(candidate, candidate.parents[0] if candidate.parents else None)

    def link(self, chosen: Mapping[str, str]) -> None:
        """Take the parents of the rows that follow others of their circle."""
        for rowguid, candidate in self.following.items():
            self._link(candidate, chosen[rowguid])
        self.following.clear()

    def _link(self, candidate: Candidate, parent: str | None) -> None:
        membership = candidate.membership
        if membership is None:
            self.entering.append((candidate.rowguid, parent))
        elif membership.is_leaving or membership.parent != parent:
            self.relinked.append((candidate.rowguid, parent))


def _is(value: SqlValue) -> bool:
    return value in (1, "t")


def _text(value: SqlValue) -> str | None:
    return None if value is None else str(value)
