"""Conditions of the rows that belong to a partition or to a logical record.

Where no article follows itself, a condition is nested once for each level; in a circle of articles it is a recursive
query over the rows that a row follows. A subscriber has a row by a chain of parents, of which the nearest is stored.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

from rowtide.core.values import frozen
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.partitions.filters import ArticleGroup, BoundJoin, FilterLevel, RowFilter
from rowtide.merge.versions.apply import RecursionStep, Tables
from rowtide.merge.versions.checked_metadata import are_rowguids

ROW = "rowtide_row"
"""Alias of the evaluated row in queries; no table or column of a filter may have this name."""
FROM = "rowtide_from"
"""Alias of the row from which a step starts, beside tables of users'."""
_UP = "rowtide_up"
"""The rows that a row follows in a circle, with itself."""


@frozen
class FilterDialect:
    """The SQL of the hub's database: of lookups and recursive queries, and of an article's table."""

    tables: Tables
    table_of: Callable[[Article], str]

    def named(self, article: Article, name: str | None = None) -> str:
        """Return an article's table under its name in filters, or another one."""
        return f"{self.table_of(article)} as {quoted(name or article.table)}"


def belongs(row_filter: RowFilter, dialect: FilterDialect) -> str:
    """Return the condition that row `ROW` belongs to the partition; null or false for a row that does not exist."""
    return f"exists (select 1 {_of_row(row_filter, dialect)} and {_member(row_filter, row_filter.article, dialect)})"


def selecting(row_filter: RowFilter | None, where: str | None, dialect: FilterDialect) -> str:
    """Return the clause that selects rows `ROW` by a partition and a condition of their columns; either may be None."""
    terms = [] if row_filter is None else [belongs(row_filter, dialect)]
    terms += [] if where is None else [f"({where})"]
    return f"where {' and '.join(terms)}" if terms else ""


def parents(row_filter: RowFilter, dialect: FilterDialect) -> str:
    """Return the expression of the parents by which row `ROW` belongs to the partition; null if it does by itself.

    It is one rowguid, or in a circle of articles all of them, separated by commas.
    """
    group, level = row_filter.find(row_filter.article)
    found = [
        f"(select {_rowguid(join.name)} from {_fitting(row_filter, join, dialect)} limit 1)"
        for join in level.joins
        if not group.has(join.parent)
    ]
    circle = [
        f"select {_rowguid(join.name)} as rowguid from {_fitting(row_filter, join, dialect)}"
        for join in level.joins
        if group.has(join.parent)
    ]
    if circle:
        listed = dialect.tables.listing.format("rowtide_parent.rowguid")
        found.append(f"(select {listed} from ({' union all '.join(circle)}) rowtide_parent)")
    if not found:
        return "null"
    chosen = found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"
    if level.condition is not None:
        chosen = f"case when {level.condition} then null else {chosen} end"
    return f"(select {chosen} {_of_row(row_filter, dialect)})"


def members(row_filter: RowFilter, dialect: FilterDialect) -> str:
    """Return the query of the rowguids of all rows of an article in a partition, each with `parents`."""
    return (
        f"select {ROW}.{ROWGUID}, {parents(row_filter, dialect)} from {dialect.table_of(row_filter.article)} as {ROW} "
        f"where {belongs(row_filter, dialect)}"
    )


def read_parents(listed: str | None) -> tuple[str, ...]:
    """Return the rowguids that `parents` lists."""
    return () if listed is None else tuple(str(listed).split(","))


def quoted(name: str) -> str:
    """Return a name of a filter in quotes."""
    return '"' + name.replace('"', '""') + '"'


def _of_row(row_filter: RowFilter, dialect: FilterDialect) -> str:
    """Return a condition in a subquery in which the filter's names can only mean its own table."""
    article = row_filter.article
    return f"from {dialect.named(article)} where {quoted(article.table)}.{ROWGUID} = {ROW}.{ROWGUID}"


def _member(row_filter: RowFilter, article: Article, dialect: FilterDialect) -> str:
    """Return the condition that the row of an article's table, under its name, belongs to the partition."""
    group, level = row_filter.find(article)
    if level.is_whole:
        return "true"
    if not group.is_circular:
        return f"({' or '.join(_reasons(row_filter, group, level, dialect))})"
    first = f"select {article.nickname}, {quoted(article.table)}.{ROWGUID}"
    steps = [_step(of, join, dialect) for of in group.levels for join in of.joins if group.has(join.parent)]
    climbed = dialect.tables.recursive(_UP, "tablenick, rowguid", first, FROM, steps)
    ends = " or ".join(_end(row_filter, group, of, dialect) for of in group.levels)
    return f"exists (with recursive {climbed} select 1 from {_UP} where {ends})"


def _reasons(row_filter: RowFilter, group: ArticleGroup, level: FilterLevel, dialect: FilterDialect) -> Iterator[str]:
    """Yield the conditions by which a row belongs, without those of a circle."""
    if level.condition is not None:
        yield level.condition
    for join in level.joins:
        if not group.has(join.parent):
            yield f"exists (select 1 from {_fitting(row_filter, join, dialect)})"


def _step(level: FilterLevel, join: BoundJoin, dialect: FilterDialect) -> RecursionStep:
    """Return the step from a row to those that it follows by a join."""
    child, name = level.article, quoted(level.article.table)
    found = dialect.tables.join(dialect.table_of(child), name, f"{name}.{ROWGUID} = {FROM}.rowguid")
    is_found = f"{FROM}.tablenick = {child.nickname} and {name}.{ROWGUID} is not null and {join.condition}"
    return RecursionStep(
        f"{join.parent.nickname}, {quoted(join.name)}.{ROWGUID}",
        f"{found}, {dialect.named(join.parent, join.name)} where {is_found}",
    )


def _end(row_filter: RowFilter, group: ArticleGroup, level: FilterLevel, dialect: FilterDialect) -> str:
    """Return the condition that a row found by steps belongs by itself, or by a join that leaves the circle."""
    reasons = list(_reasons(row_filter, group, level, dialect)) or ["false"]
    name = quoted(level.article.table)
    found = f"{dialect.named(level.article)} where {name}.{ROWGUID} = {_UP}.rowguid"
    return (
        f"({_UP}.tablenick = {level.article.nickname} and exists (select 1 from {found} and ({' or '.join(reasons)})))"
    )


def _fitting(row_filter: RowFilter, join: BoundJoin, dialect: FilterDialect) -> str:
    """Return the parent's rows that a join finds and that belong, in a scope in which its columns are the innermost."""
    member = _member(row_filter, join.parent, dialect)
    if member != "true" and join.name != join.parent.table:
        # Its own filters call the table by its name.
        own = f"{quoted(join.parent.table)}.{ROWGUID} = {quoted(join.name)}.{ROWGUID}"
        member = f"exists (select 1 from {dialect.named(join.parent)} where {own} and {member})"
    return f"{dialect.named(join.parent, join.name)} where {join.condition} and {member}"


def _rowguid(name: str) -> str:
    return f"cast({quoted(name)}.{ROWGUID} as text)"


Subject = TypeVar("Subject", bound=Hashable)


def choose_parents(parents: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return for each row the one of its parents that is nearest to a row that has none here."""
    followers: dict[str, list[str]] = {}
    chosen: dict[str, str] = {}
    for row, listed in parents.items():
        outside = next((parent for parent in listed if parent not in parents), None)
        if outside is not None:
            chosen[row] = outside
        for parent in listed:
            followers.setdefault(parent, []).append(row)
    reached = deque(chosen)
    while reached:
        parent = reached.popleft()
        for row in followers.get(parent, ()):
            if row not in chosen:
                chosen[row] = parent
                reached.append(row)
    return chosen


class PackedRowguids:
    """The rowguids of a partition's rows in a few bytes each: as texts, those of a million rows take 200 MB."""

    def __init__(self) -> None:
        self._packed = bytearray()
        self._others: list[str] = []

    def add(self, rowguids: Sequence[str]) -> None:
        """Add rowguids; those that are none, as a program may have written them, stay texts."""
        if are_rowguids(rowguids):
            self._packed += bytes.fromhex("".join(rowguids).replace("-", ""))
        else:
            self._others += rowguids

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self._packed), _ROWGUID_BYTES):
            digits = self._packed[start : start + _ROWGUID_BYTES].hex()
            yield f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        yield from self._others


_ROWGUID_BYTES = 16
_BUCKETS = 1 << 16


class RowguidSet:
    """A set of rowguids in some 25 bytes each; a set of texts takes five times as much."""

    def __init__(self) -> None:
        self._buckets: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._others: set[str] = set()

    def add(self, rowguids: Sequence[str]) -> None:
        """Add rowguids; those that are none, as a program may have written them, stay texts."""
        if not are_rowguids(rowguids):
            self._others.update(rowguids)
            return
        for packed in _pack(rowguids):
            self._buckets[hash(packed) % _BUCKETS] += packed

    def find(self, rowguids: Sequence[str]) -> Iterator[bool]:
        """Yield of each rowguid whether it is in the set."""
        if not are_rowguids(rowguids):
            for each in rowguids:
                yield each in self._others or (are_rowguids([each]) and self._has(next(_pack([each]))))
            return
        for rowguid, packed in zip(rowguids, _pack(rowguids), strict=True):
            yield self._has(packed) or rowguid in self._others

    def _has(self, packed: bytes) -> bool:
        bucket = self._buckets.get(hash(packed) % _BUCKETS, b"")
        place = bucket.find(packed)
        while place % _ROWGUID_BYTES and place >= 0:
            place = bucket.find(packed, place + 1)
        return place >= 0


def _pack(rowguids: Sequence[str]) -> Iterator[bytes]:
    joined = bytes.fromhex("".join(rowguids).replace("-", ""))
    return (joined[start : start + _ROWGUID_BYTES] for start in range(0, len(joined), _ROWGUID_BYTES))


def link_members(
    found: Mapping[Subject, Sequence[tuple[str, Sequence[str]]]],
) -> dict[Subject, list[tuple[str, str | None]]]:
    """Return all rows of a partition, by article, each with the parent that is stored with it; None if it has none."""
    chosen = choose_parents({row: parents for rows in found.values() for row, parents in rows if parents})
    return {subject: [(row, chosen.get(row)) for row, _ in rows] for subject, rows in found.items()}
