"""Filters whose columns were renamed: the same conditions with the new names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rowtide.databases.filters.tokens import FilterUnreadable
from rowtide.merge.articles import Article, JoinFilter
from rowtide.merge.partitions.expressions import Column, rename_columns
from rowtide.merge.partitions.filters import parent_name, scope_of


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
        condition = _renamed(condition, {own.table: own}, {Column(own.table, old): new for old, new in renamed.items()})
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
        Column(table, old): new
        for table, each in tables.items()
        if each.nickname == altered.nickname
        for old, new in renamed.items()
    }
    return replace(join, condition=_renamed(join.condition, tables, names))


def _renamed(condition: str, tables: Mapping[str, Article], names: Mapping[Column, str]) -> str:
    try:
        return rename_columns(condition, scope_of(*tables.items()), names) if names else condition
    except FilterUnreadable:
        return condition
