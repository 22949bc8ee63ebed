"""Rows that enter or leave a subscriber's partition when the hub's rows change (SQL Server: partition mappings).

The hub stores which rows each subscriber with filtered articles has (partition membership). Membership is evaluated in
the snapshot of a generation, for three kinds of rows: those changed, those that join to a changed parent, and those
that the subscriber has because of a changed parent. The decisions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Self

from rowtide.core.values import frozen
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.partitions.belonging import FROM, ROW, FilterDialect, belongs, parents, quoted, read_parents
from rowtide.merge.partitions.filters import ArticleGroup, BoundJoin, FilterLevel, RowFilter
from rowtide.merge.versions.apply import OF_OTHERS, RecursionStep, applied_rows, join_applied

STAYED = -2
"""The generation of rows that have left a subscriber's partition, and stay there without realignment."""
SqlValue = str | int | float | bytes | None


@frozen
class PartitionMembership:
    """A subscriber has, or may have, a row since a generation of the hub.

    `parent` is the parent's row; None without one.
    """

    generation: int
    parent: str | None
    is_leaving: bool


@frozen
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
    membership: PartitionMembership | None
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
            else PartitionMembership(int(generation), _text(member_parent), _is(is_leaving)),
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


class CandidateAction(Enum):
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


def choose_action(candidate: Candidate, since: int, *, realigns: bool = True) -> CandidateAction:
    """Return what to send to a subscriber that has everything up to a generation.

    `realigns`: rows that leave the partition are removed from the subscriber.
    """
    membership = candidate.membership
    if candidate.is_of_others:
        return CandidateAction.SEND if candidate.is_live and candidate.belongs else CandidateAction.LEAVE
    if not candidate.is_live:
        is_news = candidate.is_asked or (candidate.is_changed and not candidate.is_own)
        return CandidateAction.BURY if membership is not None and is_news else CandidateAction.NOTHING
    if not candidate.belongs:
        leaving = CandidateAction.LEAVE if realigns else CandidateAction.STAY
        return leaving if membership is not None or candidate.is_asked else CandidateAction.NOTHING
    is_new = membership is None or membership.generation > since or membership.is_leaving
    is_news = candidate.is_asked or (candidate.is_changed and not candidate.is_own)
    return CandidateAction.SEND if is_new or is_news else CandidateAction.NOTHING


@dataclass(slots=True)
class CandidateMemberships:
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

    def add(self, candidate: Candidate, move: CandidateAction) -> None:
        """Add a candidate with what is sent for it."""
        membership = candidate.membership
        if move is CandidateAction.STAY:
            if membership is not None:
                self.staying.append(candidate.rowguid)
        elif move is CandidateAction.LEAVE:
            self.leaving.append(candidate.rowguid)
        elif move is CandidateAction.BURY or (membership is not None and not candidate.is_live and candidate.is_own):
            self.buried.append(candidate.rowguid)
        elif candidate.is_live and candidate.belongs:
            if self.is_circular and candidate.parents:
                self.following[candidate.rowguid] = candidate
            else:
                self._link(candidate, candidate.parents[0] if candidate.parents else None)

    def link(self, chosen: Mapping[str, str]) -> None:
        """Set the parents of the rows that follow others of their circle."""
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


@frozen
class Names:
    """The database's table names and rowguid syntax; `window` builds the condition that a stamp is after a generation.

    `of_table` is the condition on a table's number beside a window. `is_beside` is set if the log is applied to a
    temporary table, whose rows are all users' changes.
    """

    dialect: FilterDialect
    mappings: str
    literal: Callable[[str], str]
    window: Callable[[str], str]
    of_table: str
    is_beside: bool = field(kw_only=True)


def candidates(row_filter: RowFilter, destination: int, asked: Sequence[str], names: Names) -> str:
    """Return the query of an article's candidates, by rowguid; see `Candidate.read` for its columns."""
    nickname, tables = row_filter.article.nickname, names.dialect.tables
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
    found = ", ".join(_found(row_filter, group, destination, names) for group in row_filter.groups)
    # As its index has it; see `definitions`.
    leaving = f"tablenick = {nickname} and is_leaving and replnickname + 0 = {destination}"
    sources = [
        f"select rowguid from {_name(row_filter.groups[-1])} where tablenick = {nickname}",
        f"select rowguid from {names.mappings} where {leaving}",
        *(f"select {names.literal(rowguid)}" for rowguid in asked),
    ]
    table = names.dialect.table_of(row_filter.article)
    return (
        f"with recursive {found} select k.{ROWGUID}, {is_live} as is_live, {is_changed} as is_changed, "
        f"{is_own} as is_own, "
        f"coalesce({belongs(row_filter, names.dialect)}, false) as belongs, "
        f"{parents(row_filter, names.dialect)} as parents, m.generation, m.parent as member_parent, m.is_leaving, "
        f"{is_asked} as is_asked "
        f"from ({' union '.join(sources)}) k "
        f"{tables.join(table, ROW, f'{ROW}.{ROWGUID} = k.{ROWGUID}')}"
        f"{tables.join_metadata(nickname, 'k')}"
        f"{join_applied(nickname, is_beside=names.is_beside)}"
        f"{tables.join(names.mappings, 'm', of_subscriber)}order by k.{ROWGUID}"
    )


def _found(row_filter: RowFilter, group: ArticleGroup, destination: int, names: Names) -> str:
    """Return the definition of the rows of a group that were changed, or follow such rows."""
    columns, tables = "tablenick, rowguid", names.dialect.tables
    sources = [_changed(level.article, names) for level in group.levels]
    steps: list[RecursionStep] = []
    for level in group.levels:
        for join in level.joins:
            if group.has(join.parent):
                steps += _steps(level, join, destination, names)
            else:
                found = _name(row_filter.find(join.parent)[0])
                to_child = _steps(level, join, destination, names)
                sources += [f"select {step.found} from {found} {FROM} {step.rest}" for step in to_child]
    first = " union ".join(sources)
    if not steps:
        return f"{_name(group)} ({columns}) as ({first})"
    return tables.recursive(_name(group), columns, f"select * from ({first}) f", FROM, steps)


def _steps(level: FilterLevel, join: BoundJoin, destination: int, names: Names) -> Sequence[RecursionStep]:
    """Return the steps from rows of a parent to those that follow them: by the join, and by what is stored."""
    child, tables, dialect = level.article, names.dialect.tables, names.dialect
    name, of_parent = quoted(join.name), f"{FROM}.tablenick = {join.parent.nickname}"
    found = tables.join(dialect.table_of(join.parent), name, f"{name}.{ROWGUID} = {FROM}.rowguid")
    # As its index has it; see `definitions`.
    by_parent = f"m.parent = {FROM}.rowguid and m.tablenick = {child.nickname} and m.replnickname + 0 = {destination}"
    stored = tables.join(names.mappings, "m", by_parent)
    return (
        RecursionStep(
            f"{child.nickname}, {quoted(child.table)}.{ROWGUID}",
            f"{found}, {dialect.named(child)} where {of_parent} and {join.condition}",
        ),
        RecursionStep(f"{child.nickname}, m.rowguid", f"{stored}where {of_parent} and m.rowguid is not null"),
    )


def _name(group: ArticleGroup) -> str:
    return f"rowtide_found_{group.levels[0].article.nickname}"


def _changed(article: Article, names: Names) -> str:
    tables, nickname = names.dialect.tables, article.nickname
    changed = " union ".join(
        f"select rowguid from {table} where {names.of_table} = {nickname} and {names.window('stamp')}"
        for table in (tables.contents, tables.tombstone)
    )
    return f"select {nickname}, rowguid from ({changed}{applied_rows(nickname) if names.is_beside else ''}) c"
