"""Which rows of an article a subscriber has: row filters and join filters, as conditions of the hub's SQL. Pure.

A filter is judged by the hub's database alone. What `host_name()` and `suser_name()` are is written into it, for each
subscription its own values, so that it does not matter where the agent runs, and as whom.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowtide.merge.articles import ROWGUID, Article, JoinFilter, Partition
from rowtide.merge.folding import Tables

_TOKENS = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|\$\$.*?\$\$|--[^\n]*|/\*.*?\*/)|\b(host_name|suser_name|suser_sname)\s*\(\s*\)""",
    re.IGNORECASE | re.DOTALL,
)
ROW = "rowtide_row"
"""What a query calls the row that is judged; nothing that a filter names is called so."""
_PARENTS = "rowtide_parents"
_OF_SUBSCRIBER = {"host_name": "host_name", "suser_name": "suser_name", "suser_sname": "suser_name"}


@dataclass(frozen=True, slots=True)
class BoundJoin:
    """A join filter of a partition: a row belongs to it where one of the parent's that does fits `condition`."""

    parent: Article
    condition: str
    parent_condition: str | None


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A partition's rows of an article: those of its own condition, and those of any of its joins."""

    article: Article
    condition: str | None
    joins: tuple[BoundJoin, ...]


def functions_in(condition: str) -> frozenset[str]:
    """Return which functions of the subscriber a filter has: host_name, suser_name."""
    found = (match.group(2) for match in _TOKENS.finditer(condition))
    return frozenset(_OF_SUBSCRIBER[name.lower()] for name in found if name)


def bind(condition: str, partition: Partition) -> str:
    """Write a partition's values into a filter, as SQL literals."""

    def replaced(match: re.Match[str]) -> str:
        if match.group(1) is not None:
            return match.group(1)
        value = getattr(partition, _OF_SUBSCRIBER[match.group(2).lower()]) or ""
        return "'" + value.replace("'", "''") + "'"

    return _TOKENS.sub(replaced, condition)


def bind_article(article: Article, articles: Sequence[Article], partition: Partition) -> RowFilter | None:
    """Return a partition's filter of an article; None where all have all rows of it."""
    if article.subset_filter is None and not article.join_filters:
        return None
    parents = {each.name: each for each in articles}
    return RowFilter(
        article,
        None if article.subset_filter is None else bind(article.subset_filter, partition),
        tuple(_bind_join(join, parents[join.parent], partition) for join in article.join_filters),
    )


def bind_articles(articles: Sequence[Article], partition: Partition | None) -> dict[int, RowFilter]:
    """As above of all articles, by their nicknames; those that all have whole are left out."""
    bound = {article.nickname: bind_article(article, articles, partition or Partition()) for article in articles}
    return {nickname: each for nickname, each in bound.items() if each is not None}


def belongs(row_filter: RowFilter, table_of: Callable[[Article], str]) -> str:
    """Return the condition that row `ROW` belongs to the partition; of a row that is not there it is null or false."""
    article = row_filter.article
    terms = [] if row_filter.condition is None else [_whole(row_filter.condition)]
    terms += [f"exists (select 1 from {_fitting(join, table_of)})" for join in row_filter.joins]
    return f"exists (select 1 {_of_row(article, table_of)} and ({' or '.join(terms)}))"


def parent(row_filter: RowFilter, table_of: Callable[[Article], str]) -> str:
    """Return the expression of the parent's rowguid by which row `ROW` belongs to the partition; null without one."""
    article = row_filter.article
    found = [
        f"(select {_name(join.parent)}.{ROWGUID} from {_fitting(join, table_of)} limit 1)" for join in row_filter.joins
    ]
    if not found:
        return "null"
    chosen = found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"
    return f"(select {chosen} {_of_row(article, table_of)})"


def children(
    row_filter: RowFilter, join: BoundJoin, parents: str, tables: Tables, table_of: Callable[[Article], str]
) -> str:
    """Return the query of the rowguids of rows that fit a join to one of some parents, a query of rowguids."""
    child, other = _name(row_filter.article), _name(join.parent)
    found = tables.join(table_of(join.parent), other, f"{other}.{ROWGUID} = {_PARENTS}.{ROWGUID}")
    return (
        f"select {child}.{ROWGUID} from ({parents}) {_PARENTS} {found}, {table_of(row_filter.article)} as {child} "
        f"where {_whole(join.condition)}"
    )


def _bind_join(join: JoinFilter, other: Article, partition: Partition) -> BoundJoin:
    condition = None if other.subset_filter is None else bind(other.subset_filter, partition)
    return BoundJoin(other, join.condition, condition)


def _of_row(article: Article, table_of: Callable[[Article], str]) -> str:
    """Within it a filter's names are its table's, not those of the query around it."""
    return f"from {table_of(article)} as {_name(article)} where {_name(article)}.{ROWGUID} = {ROW}.{ROWGUID}"


def _fitting(join: BoundJoin, table_of: Callable[[Article], str]) -> str:
    """The parent's own condition stands where its columns are the nearest."""
    condition = _whole(join.condition)
    if join.parent_condition is not None:
        condition += f" and {_whole(join.parent_condition)}"
    return f"{table_of(join.parent)} as {_name(join.parent)} where {condition}"


def _whole(condition: str) -> str:
    """A comment at its end ends before what follows."""
    return f"({condition}\n)"


def _name(article: Article) -> str:
    return '"' + article.table.replace('"', '""') + '"'
