"""The order in which a publication's articles are written, and the foreign keys between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, ArticleReference, Publication
from rowtide.merge.catalogue import list_articles, set_definition
from rowtide.merge.nodes.node_tables import TableDescription
from rowtide.merge.nodes.roles.schema import MergedTables


def order_articles(hub: MergedTables, publication: Publication) -> None:
    """Recompute the processing order and the references of all articles, in the caller's transaction."""
    articles = list_articles(hub.connection, publication.pubid)
    described = hub.tables.describe_all(articles)
    for place, article in enumerate(in_order(described)):
        references = _references(article, described)
        set_definition(
            hub.connection, publication.pubid, replace(article, processing_order=place, references=references)
        )


def _references(article: Article, described: Mapping[Article, TableDescription]) -> tuple[ArticleReference, ...]:
    """Return an article's foreign keys to articles, with those that it references."""
    parents = {each.qualified_name: each for each in described}
    found = []
    for each in described[article].references:
        parent = parents.get(each.referenced_table)
        if parent is not None:
            columns, referenced = _as_published(article, each.columns), _as_published(parent, each.referenced_columns)
            if None not in (columns, referenced):
                found.append(ArticleReference(columns or (), parent.nickname, referenced or ()))
    return tuple(found)


def _as_published(article: Article, columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return columns as an article names them, None if not all are there; on SQLite upper case and lower are one."""
    names = {column.name.lower(): column.name for column in article.columns}
    names |= {column.name: column.name for column in article.columns}
    found = [names.get(name, names.get(name.lower())) for name in columns]
    return tuple(name for name in found if name is not None) if None not in found else None


def in_order(described: Mapping[Article, TableDescription]) -> Sequence[Article]:
    """Return articles with referenced tables first, then filter parents; articles in a cycle by name."""
    referenced = {article: _referenced(article, described) for article in described}
    parents = {article: referenced[article] | _joined(article, referenced) for article in described}
    waiting = sorted(described, key=lambda article: article.name)
    ordered: list[Article] = []
    while waiting:
        # The one that depends on the fewest that wait depends on none, or is in a circle that depends on nothing else.
        following = min(waiting, key=lambda article: len(_ancestors(article, parents) & set(waiting) - {article}))
        ordered.append(following)
        waiting.remove(following)
    return ordered


def _referenced(article: Article, described: Mapping[Article, TableDescription]) -> set[Article]:
    names = {reference.referenced_table for reference in described[article].references}
    return {each for each in described if each.qualified_name in names and each != article}


def _joined(article: Article, referenced: Mapping[Article, set[Article]]) -> set[Article]:
    """Return the parents of an article's join filters, without those that reference it: foreign keys order first."""
    names = {join.parent for join in article.join_filters}
    found = {each for each in referenced if each.name in names and each != article}
    return {each for each in found if article not in _ancestors(each, referenced)}


@frozen
class Circle:
    """Articles that have to be filled together, if they are a cycle of references; else one article."""

    articles: tuple[Article, ...]
    is_cycle: bool


def find_cycles(described: Mapping[Article, TableDescription]) -> Sequence[Circle]:
    """Return articles with referenced tables first, cycles of references together."""
    parents = {article: _referenced(article, described) for article in described}
    ancestors = {article: _ancestors(article, parents) for article in described}
    found: dict[frozenset[Article], Circle] = {}
    for article in in_order(described):
        circle = frozenset({article, *(each for each in ancestors[article] if article in ancestors[each])})
        named = {reference.referenced_table for reference in described[article].references}
        is_cycle = len(circle) > 1 or article.qualified_name in named
        # At the place of its last article: all that it refers to comes before.
        found.pop(circle, None)
        found[circle] = Circle(tuple(circle), is_cycle)
    return tuple(found.values())


def _ancestors(article: Article, parents: Mapping[Article, set[Article]]) -> set[Article]:
    found: set[Article] = set()
    following = set(parents[article])
    while following:
        found |= following
        following = {parent for each in following for parent in parents[each]} - found
    return found
