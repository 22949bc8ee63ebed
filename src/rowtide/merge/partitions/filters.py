"""Row filters and join filters of articles, as conditions in the hub's SQL. Pure.

Only the hub's database evaluates a filter, as SQL written from the parsed expression. The values of `host_name()` and
`suser_name()` are literals in it, from the subscription: where the agent runs, and under which user, does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rowtide.databases.filters.tokens import FilterUnreadable
from rowtide.merge.articles import ROWGUID, Article, JoinFilter, Partition, Publication
from rowtide.merge.errors import FilterRefused, PartitionValueMissing, StoredFilterRefused
from rowtide.merge.partitions.expressions import (
    Expression,
    Scope,
    ScopeTable,
    SubscriberValue,
    as_sql,
    functions_of,
    read_expression,
)
from rowtide.merge.versions.apply import Tables

ROW = "rowtide_row"
"""Alias of the evaluated row in queries; no table or column of a filter may have this name."""
_PARENTS = "rowtide_parents"
_OPTIONS = {SubscriberValue.HOST_NAME: "--host-name", SubscriberValue.SUSER_NAME: "--login"}


@dataclass(frozen=True, slots=True)
class BoundJoin:
    """A join filter bound to a partition: a row belongs if a row of the parent that belongs satisfies `condition`."""

    parent: Article
    condition: str
    parent_condition: str | None


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The rows of an article in a partition: those of its own condition, and those of each join."""

    article: Article
    condition: str | None
    joins: tuple[BoundJoin, ...]


def read_filter(article: Article) -> Expression | None:
    """Return the row filter of an article; None if it has none. Raises `FilterRefused`."""
    return None if article.subset_filter is None else _read(article, article.subset_filter, article)


def read_join(child: Article, parent: Article, condition: str) -> Expression:
    """Return a join filter between a child and its parent. Raises `FilterRefused`."""
    return _read(child, condition, child, parent)


def functions_in(article: Article) -> frozenset[SubscriberValue]:
    """Return the subscriber values that an article's row filter uses. Raises `StoredFilterRefused`."""
    with _stored():
        found = read_filter(article)
    return frozenset() if found is None else functions_of(found)


def require_values(publication: Publication, articles: Iterable[Article], given: Partition) -> Partition:
    """Return the given values that the row filters use. Raises `PartitionValueMissing`."""
    asked = {function for article in articles for function in functions_in(article)}
    for function, option in _OPTIONS.items():
        if function in asked and getattr(given, function.value) is None:
            raise PartitionValueMissing(publication.name, function.value, option)
    return Partition(
        given.host_name if SubscriberValue.HOST_NAME in asked else None,
        given.suser_name if SubscriberValue.SUSER_NAME in asked else None,
    )


def bind_articles(articles: Sequence[Article], partition: Partition | None) -> dict[int, RowFilter]:
    """Return a partition's filters, by article nickname; unfiltered articles are left out."""
    bound = {article.nickname: bind_article(article, articles, partition or Partition()) for article in articles}
    return {nickname: each for nickname, each in bound.items() if each is not None}


def bind_article(article: Article, articles: Sequence[Article], partition: Partition) -> RowFilter | None:
    """Return a partition's filter of an article; None if subscribers have all rows. Raises `StoredFilterRefused`."""
    if not article.is_filtered:
        return None
    parents = {each.name: each for each in articles}
    with _stored():
        return RowFilter(
            article,
            _bind_own(article, partition),
            tuple(_bind_join(article, join, parents[join.parent], partition) for join in article.filtering_joins),
        )


def bind(expression: Expression, partition: Partition) -> str:
    """Return a filter as SQL, with a partition's values as literals."""
    given = {
        SubscriberValue.HOST_NAME: partition.host_name or "",
        SubscriberValue.SUSER_NAME: partition.suser_name or "",
    }
    return as_sql(expression, given)


def belongs(row_filter: RowFilter, table_of: Callable[[Article], str]) -> str:
    """Return the condition that row `ROW` belongs to the partition; null or false for a row that does not exist."""
    article = row_filter.article
    terms = [] if row_filter.condition is None else [row_filter.condition]
    terms += [f"exists (select 1 from {_fitting(join, table_of)})" for join in row_filter.joins]
    return f"exists (select 1 {_of_row(article, table_of)} and ({' or '.join(terms)}))"


def parent(row_filter: RowFilter, table_of: Callable[[Article], str]) -> str:
    """Return the expression of the rowguid of the parent by which row `ROW` belongs to the partition; null if none."""
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
    """Return the query of the rowguids of rows that join to any of some parents, given as a query of rowguids."""
    child, other = _name(row_filter.article), _name(join.parent)
    found = tables.join(table_of(join.parent), other, f"{other}.{ROWGUID} = {_PARENTS}.{ROWGUID}")
    return (
        f"select {child}.{ROWGUID} from ({parents}) {_PARENTS} {found}, {table_of(row_filter.article)} as {child} "
        f"where {join.condition}"
    )


def _read(article: Article, condition: str, *articles: Article) -> Expression:
    tables = (ScopeTable(each.table, (*(column.name for column in each.columns), ROWGUID)) for each in articles)
    try:
        return read_expression(condition, Scope(tuple(tables)))
    except FilterUnreadable as error:
        reason = f"at character {error.place}, {error.reason}"
        raise FilterRefused(article.qualified_name, condition, reason) from None


@contextmanager
def _stored() -> Iterator[None]:
    """Parse stored filters; an earlier version accepted some that are refused now."""
    try:
        yield
    except FilterRefused as error:
        raise StoredFilterRefused(error.article, error.condition, error.reason) from None


def _bind_own(article: Article, partition: Partition) -> str | None:
    expression = read_filter(article)
    return None if expression is None else bind(expression, partition)


def _bind_join(article: Article, join: JoinFilter, other: Article, partition: Partition) -> BoundJoin:
    condition = bind(read_join(article, other, join.condition), Partition())
    return BoundJoin(other, condition, _bind_own(other, partition))


def _of_row(article: Article, table_of: Callable[[Article], str]) -> str:
    """Return a condition in a subquery in which the filter's names can only mean its own table."""
    return f"from {table_of(article)} as {_name(article)} where {_name(article)}.{ROWGUID} = {ROW}.{ROWGUID}"


def _fitting(join: BoundJoin, table_of: Callable[[Article], str]) -> str:
    """Return the condition on the parent, in a scope in which its columns are the innermost."""
    condition = join.condition
    if join.parent_condition is not None:
        condition += f" and {join.parent_condition}"
    return f"{table_of(join.parent)} as {_name(join.parent)} where {condition}"


def _name(article: Article) -> str:
    return '"' + article.table.replace('"', '""') + '"'
