"""Row filters and join filters of articles, bound to a partition. Pure.

Only the hub's database evaluates a filter, as SQL written from the parsed expression. The values of `host_name()` and
`suser_name()` are literals in it, from the subscription: where the agent runs, and under which user, does not matter.
Columns that are renamed in the table are renamed in the filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

from rowtide.core.values import frozen
from rowtide.databases.filter_words import FilterUnreadable
from rowtide.merge.articles import ROWGUID, Article, JoinFilter, Partition, Publication
from rowtide.merge.errors.publishing import FilterRefused, StoredFilterRefused
from rowtide.merge.errors.subscribing import PartitionValueMissing, PartitionValueUnfit
from rowtide.merge.partitions.expressions import (
    Cast,
    ColumnExpression,
    Expression,
    NameScope,
    ScopeTable,
    SubscriberValue,
    as_sql,
    columns_of,
    functions_of,
    literal,
    parts_of,
    read_expression,
    rename_columns,
)

PARENT = "parent"
"""The name of the parent's table in a join condition if it is the child's, too, as in a table that follows itself."""
_OPTIONS = {SubscriberValue.HOST_NAME: "--host-name", SubscriberValue.SUSER_NAME: "--login"}


@frozen
class BoundJoin:
    """A join filter as SQL: a row belongs if a row of the parent that belongs satisfies `condition`.

    `name` is the parent's table in the condition.
    """

    parent: Article
    name: str
    condition: str


@frozen
class FilterLevel:
    """The filters of one article: its rows are those of its own condition, and those of each join; without any, all."""

    article: Article
    condition: str | None
    joins: tuple[BoundJoin, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all rows belong to each partition."""
        return self.condition is None and not self.joins


@frozen
class ArticleGroup:
    """An article; or articles that follow each other in a circle, and so does one that follows itself."""

    levels: tuple[FilterLevel, ...]
    is_circular: bool

    def has(self, article: Article) -> bool:
        """Whether an article is one of the circle."""
        return self.is_circular and any(level.article.nickname == article.nickname for level in self.levels)


@frozen
class RowFilter:
    """The rows of an article in a partition.

    A row belongs if a row that satisfies its own article's condition is reachable from it over joins to parents: the
    least fixed point of the filters, so that no circle of rows belongs by itself. `groups` are those of the article and
    of all that it follows, parents first; the article's own is the last. `deciding` are the positions of the article's
    columns that its filters and its children's use. `realigns`: rows that leave the partition leave its subscribers.
    """

    article: Article
    groups: tuple[ArticleGroup, ...]
    deciding: tuple[int, ...]
    realigns: bool = True

    @property
    def is_circular(self) -> bool:
        """Whether the join filters are recursive: rows may follow rows of the same article, directly or over others."""
        return self.groups[-1].is_circular

    @property
    def level(self) -> FilterLevel:
        """The article's own filters."""
        return self.find(self.article)[1]

    def find(self, article: Article) -> tuple[ArticleGroup, FilterLevel]:
        """Return the filters of the article or of one that it follows, with their group."""
        return next(
            (group, level)
            for group in self.groups
            for level in group.levels
            if level.article.nickname == article.nickname
        )


def read_filter(article: Article) -> Expression | None:
    """Return the row filter of an article; None if it has none. Raises `FilterRefused`."""
    return None if article.subset_filter is None else _read(article, article.subset_filter, (article.table, article))


def read_join(child: Article, parent: Article, condition: str) -> Expression:
    """Return a join filter between a child and its parent. Raises `FilterRefused`."""
    return _read(child, condition, (child.table, child), (parent_name(child, parent), parent))


def parent_name(child: Article, parent: Article) -> str:
    """Return what a join condition calls the parent's table: its name, or `parent` if that is the child's too."""
    return PARENT if child.table.lower() == parent.table.lower() else parent.table


def require_values(publication: Publication, articles: Iterable[Article], given: Partition) -> Partition:
    """Return the given values that the row filters use. Raises `PartitionValueMissing`, `PartitionValueUnfit`."""
    with _stored():
        filters = [expression for article in articles if (expression := read_filter(article)) is not None]
    asked = {function for expression in filters for function in functions_of(expression)}
    for function, option in _OPTIONS.items():
        if function in asked and getattr(given, function.value) is None:
            raise PartitionValueMissing(publication.name, function.value, option)
    for part in (part for expression in filters for part in parts_of(expression)):
        match part:
            case Cast(SubscriberValue() as function, type_name):
                value = str(getattr(given, function.value))
                if literal(value, type_name) is None:
                    raise PartitionValueUnfit(publication.name, function.value, value, type_name)
            case _:
                pass
    return Partition(
        given.host_name if SubscriberValue.HOST_NAME in asked else None,
        given.suser_name if SubscriberValue.SUSER_NAME in asked else None,
    )


def bind_articles(
    articles: Sequence[Article], partition: Partition | None, *, realigns: bool = True, of_each: bool = False
) -> dict[int, RowFilter]:
    """Return a partition's filters, by article nickname; unfiltered articles are omitted.

    Those `of_each` partition are evaluated by `Rows.find_partitions`. Raises `StoredFilterRefused`.
    """
    bound = None if of_each else partition or Partition()
    named = {article.name: article for article in articles}
    with _stored():
        levels = [_bind_level(article, named, bound) for article in articles]
    by_nickname = {level.article.nickname: level for level in levels}
    reach = {nickname: frozenset(_followed(by_nickname, nickname) | {nickname}) for nickname in by_nickname}
    return {
        nickname: RowFilter(
            level.article,
            tuple(_groups(nickname, by_nickname, reach)),
            _deciding(level.article, articles, named),
            realigns,
        )
        for nickname, level in by_nickname.items()
        if not level.is_whole
    }


def bind(expression: Expression, partition: Partition | None) -> str:
    """Return a filter as SQL, with a partition's values as literals; without one, as columns of `PARTITION`."""
    if partition is None:
        return as_sql(expression, None)
    given = {
        SubscriberValue.HOST_NAME: partition.host_name or "",
        SubscriberValue.SUSER_NAME: partition.suser_name or "",
    }
    return as_sql(expression, given)


def fits(articles: Iterable[Article], partition: Partition) -> bool:
    """Return whether a partition's values are of the types that filters convert them to."""
    with _stored():
        filters = [expression for article in articles if (expression := read_filter(article)) is not None]
    casts = [part for each in filters for part in parts_of(each) if isinstance(part, Cast)]
    return all(
        literal(getattr(partition, cast.operand.value) or "", cast.type_name) is not None
        for cast in casts
        if isinstance(cast.operand, SubscriberValue)
    )


def scope_of(*tables: tuple[str, Article]) -> NameScope:
    """Return the columns that a filter may name, of articles by the names that it gives their tables."""
    scope = (
        ScopeTable(
            name,
            (*(column.name for column in of.columns), ROWGUID),
            {column.name: column.type_text for column in of.columns},
        )
        for name, of in tables
    )
    return NameScope(tuple(scope))


# Cached: a gateway needs them several times for each request.
@lru_cache(maxsize=512)
def _read(article: Article, condition: str, *tables: tuple[str, Article]) -> Expression:
    try:
        return read_expression(condition, scope_of(*tables))
    except FilterUnreadable as error:
        reason = f"at character {error.position}, {error.reason}"
        raise FilterRefused(article.qualified_name, condition, reason) from None


@contextmanager
def _stored() -> Iterator[None]:
    """Parse stored filters; another version may have accepted some that this one refuses."""
    try:
        yield
    except FilterRefused as error:
        raise StoredFilterRefused(error.article, error.condition, error.reason) from None


def _bind_level(article: Article, named: Mapping[str, Article], partition: Partition | None) -> FilterLevel:
    expression = read_filter(article)
    condition = None if expression is None else bind(expression, partition)
    return FilterLevel(article, condition, tuple(_bind_join(article, join, named) for join in article.filtering_joins))


def _bind_join(article: Article, join: JoinFilter, named: Mapping[str, Article]) -> BoundJoin:
    parent = named[join.parent]
    condition = bind(read_join(article, parent, join.condition), Partition())
    return BoundJoin(parent, parent_name(article, parent), condition)


def _deciding(article: Article, articles: Sequence[Article], named: Mapping[str, Article]) -> tuple[int, ...]:
    own = read_filter(article)
    used = set() if own is None else {column.name for column in columns_of(own)}
    for child in articles:
        for join in child.filtering_joins:
            parent = named[join.parent]
            names = [child.table] * (child == article) + [parent_name(child, parent)] * (parent == article)
            joined = columns_of(read_join(child, parent, join.condition)) if names else ()
            used |= {column.name for column in joined if column.table in names}
    places = (article.index_of(name) for name in used)
    return tuple(sorted(place for place in places if place is not None))


def _groups(
    nickname: int, levels: Mapping[int, FilterLevel], reach: Mapping[int, frozenset[int]]
) -> Iterator[ArticleGroup]:
    """Yield the groups of an article and all that it follows, parents first; `reach` is each article with those."""
    # Articles in one circle reach the same articles; one that follows others reaches all that they do, and more.
    for reached in sorted({reach[each] for each in reach[nickname]}, key=len):
        members = tuple(levels[each] for each in sorted(reached) if reach[each] == reached)
        own = {level.article.nickname for level in members}
        yield ArticleGroup(members, any(join.parent.nickname in own for level in members for join in level.joins))


def _followed(levels: Mapping[int, FilterLevel], nickname: int) -> set[int]:
    """Return the articles that one follows, directly or over others; itself only in a circle."""
    found: set[int] = set()
    following = {join.parent.nickname for join in levels[nickname].joins}
    while following:
        found |= following
        following = {join.parent.nickname for each in following for join in levels[each].joins} - found
    return found


def follow_renames(
    article: Article, before: Mapping[str, Article], altered: Article, renamed: Mapping[str, str]
) -> Article:
    """Return an article whose filters call the columns of `altered` by their new names.

    `before` has the publication's articles as the filters were written for them, by name. A filter that cannot be read
    stays as it is.
    """
    own = before[article.name]
    condition = article.subset_filter
    if condition is not None and own.nickname == altered.nickname:
        condition = _renamed(
            condition, {own.table: own}, {ColumnExpression(own.table, old): new for old, new in renamed.items()}
        )
    joins = tuple(_follow_join(join, own, before, altered, renamed) for join in article.join_filters)
    return replace(article, subset_filter=condition, join_filters=joins)


def _follow_join(
    join: JoinFilter, child: Article, before: Mapping[str, Article], altered: Article, renamed: Mapping[str, str]
) -> JoinFilter:
    parent = before.get(join.parent)
    if parent is None:
        return join
    tables = {child.table: child, parent_name(child, parent): parent}
    names = {
        ColumnExpression(table, old): new
        for table, each in tables.items()
        if each.nickname == altered.nickname
        for old, new in renamed.items()
    }
    return replace(join, condition=_renamed(join.condition, tables, names))


def _renamed(condition: str, tables: Mapping[str, Article], names: Mapping[ColumnExpression, str]) -> str:
    try:
        return rename_columns(condition, scope_of(*tables.items()), names) if names else condition
    except FilterUnreadable:
        return condition
