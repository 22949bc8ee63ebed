"""Rows that enter or leave a subscriber's partition when the hub's rows change (SQL Server: partition mappings).

The hub stores which rows each subscriber with filtered articles has (partition membership). Membership is evaluated in
the snapshot of a generation, for three kinds of rows: those changed, those that join to a changed parent, and those
that the subscriber has because of a changed parent. The decisions are pure; `candidates` is the query.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Self

from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.partitions.filters import ROW, RowFilter, belongs, children, parent
from rowtide.merge.versions.apply import Tables, applied_rows, join_applied

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
    """

    rowguid: str
    is_live: bool
    is_changed: bool
    is_own: bool
    belongs: bool
    parent: str | None
    membership: Membership | None
    is_asked: bool

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
            parent=_text(row[5]),
            membership=None
            if generation is None
            else Membership(int(generation), _text(member_parent), _is(is_leaving)),
            is_asked=_is(row[9]),
        )


CANDIDATE_COLUMNS = (
    "is_live",
    "is_changed",
    "is_own",
    "belongs",
    "parent",
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


def judge(candidate: Candidate, since: int) -> Move:
    """Return what to send to a subscriber that has everything up to a generation."""
    membership = candidate.membership
    if not candidate.is_live:
        is_news = candidate.is_asked or (candidate.is_changed and not candidate.is_own)
        return Move.BURY if membership is not None and is_news else Move.NOTHING
    if not candidate.belongs:
        return Move.LEAVE if membership is not None or candidate.is_asked else Move.NOTHING
    is_new = membership is None or membership.generation > since or membership.is_leaving
    is_news = candidate.is_asked or (candidate.is_changed and not candidate.is_own)
    return Move.SEND if is_new or is_news else Move.NOTHING


@dataclass(slots=True)
class Marks:
    """Partition membership to store for an article's candidates; `entering` and `relinked` have the parents' rowguids.

    Rows in `leaving` and `buried` remain members until the subscriber has confirmed them.
    """

    entering: list[tuple[str, str | None]] = field(default_factory=list)
    relinked: list[tuple[str, str | None]] = field(default_factory=list)
    leaving: list[str] = field(default_factory=list)
    buried: list[str] = field(default_factory=list)

    @property
    def is_any(self) -> bool:
        """Whether there is anything to store before sending."""
        return bool(self.entering or self.relinked or self.leaving)

    def add(self, candidate: Candidate, move: Move) -> None:
        """Add a candidate with what is sent for it."""
        membership = candidate.membership
        if move is Move.BURY or (membership is not None and not candidate.is_live and candidate.is_own):
            self.buried.append(candidate.rowguid)
        elif move is Move.LEAVE:
            self.leaving.append(candidate.rowguid)
        elif candidate.is_live and candidate.belongs:
            if membership is None:
                self.entering.append((candidate.rowguid, candidate.parent))
            elif membership.is_leaving or membership.parent != candidate.parent:
                self.relinked.append((candidate.rowguid, candidate.parent))


@dataclass(frozen=True, slots=True)
class Names:
    """The database's table names and rowguid syntax; `window` builds the condition that a stamp is after a generation.

    `of_table` is the condition on a table's number beside a window. `is_beside` is set if the log is applied to a
    temporary table, whose rows are all users' changes.
    """

    tables: Tables
    mappings: str
    table_of: Callable[[Article], str]
    literal: Callable[[str], str]
    window: Callable[[str], str]
    of_table: str
    is_beside: bool = field(kw_only=True)


def candidates(row_filter: RowFilter, destination: int, asked: Sequence[str], names: Names) -> str:
    """Return the query of an article's candidates, by rowguid; see `Candidate.read` for its columns."""
    nickname = row_filter.article.nickname
    is_live = f"{ROW}.{ROWGUID} is not null"
    is_asked = f"k.{ROWGUID} in ({', '.join(map(names.literal, asked))})" if asked else "false"
    beside, alone = ("n.rowguid is not null or ", "n.rowguid is null and ") if names.is_beside else ("", "")
    is_changed, is_own = (
        f"{applied}case when {is_live} then coalesce({of_row}, false) else coalesce({of_tombstone}, false) end"
        for applied, of_row, of_tombstone in (
            (beside, names.window("c.stamp"), names.window("d.stamp")),
            (alone, f"c.origin = {destination}", f"d.origin = {destination}"),
        )
    )
    of_subscriber = f"m.replnickname = {destination} and m.tablenick = {nickname} and m.rowguid = k.{ROWGUID}"
    return (
        f"select k.{ROWGUID}, {is_live} as is_live, {is_changed} as is_changed, {is_own} as is_own, "
        f"coalesce({belongs(row_filter, names.table_of)}, false) as belongs, "
        f"{parent(row_filter, names.table_of)} as parent, m.generation, m.parent as member_parent, m.is_leaving, "
        f"{is_asked} as is_asked "
        f"from ({' union '.join(_sources(row_filter, destination, asked, names))}) k "
        f"{names.tables.join(names.table_of(row_filter.article), ROW, f'{ROW}.{ROWGUID} = k.{ROWGUID}')}"
        f"{names.tables.join_metadata(nickname, 'k')}"
        f"{join_applied(nickname, is_beside=names.is_beside)}"
        f"{names.tables.join(names.mappings, 'm', of_subscriber)}order by k.{ROWGUID}"
    )


def members(row_filter: RowFilter, table_of: Callable[[Article], str]) -> str:
    """Return the query of the rowguids of all rows of an article in a partition, each with its parent's."""
    return (
        f"select {ROW}.{ROWGUID}, {parent(row_filter, table_of)} from {table_of(row_filter.article)} as {ROW} "
        f"where {belongs(row_filter, table_of)}"
    )


def _sources(row_filter: RowFilter, destination: int, asked: Sequence[str], names: Names) -> list[str]:
    nickname = row_filter.article.nickname
    # As its index has it; see `definitions`.
    leaving = f"tablenick = {nickname} and is_leaving and replnickname + 0 = {destination}"
    sources = [_changed(nickname, names), f"select rowguid from {names.mappings} where {leaving}"]
    sources += [f"select {names.literal(rowguid)}" for rowguid in asked]
    for join in row_filter.joins:
        changed = _changed(join.parent.nickname, names)
        sources.append(children(row_filter, join, changed, names.tables, names.table_of))
        # As its index has it; see `definitions`.
        by_parent = f"m.parent = k.rowguid and m.tablenick = {nickname} and m.replnickname + 0 = {destination}"
        found = names.tables.join(names.mappings, "m", by_parent)
        sources.append(f"select m.rowguid from ({changed}) k {found}where m.rowguid is not null")
    return sources


def _changed(nickname: int, names: Names) -> str:
    changed = " union ".join(
        f"select rowguid from {table} where {names.of_table} = {nickname} and {names.window('stamp')}"
        for table in (names.tables.contents, names.tables.tombstone)
    )
    return changed + (applied_rows(nickname) if names.is_beside else "")


def _is(value: SqlValue) -> bool:
    return value in (1, "t")


def _text(value: SqlValue) -> str | None:
    return None if value is None else str(value)
