"""Which columns articles have (SQL Server: sp_mergearticlecolumn), and in which order they are written.

The key is always among them. Subscribers' tables have no others, and nothing that needs one of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from rowtide.core.values import frozen
from rowtide.merge.articles import ROWGUID, Article, ArticleColumn, ArticleReference, Publication
from rowtide.merge.catalogue import list_articles, set_definition
from rowtide.merge.errors.publishing import ColumnsRefused
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import TableDescription, TableReference
from rowtide.merge.nodes.table_definitions import Omission, Part, PartKind

_NOT_PUBLISHED = "column {} is not published"
_FILLED = (PartKind.DEFAULT, PartKind.IDENTITY)


def choose_columns(described: TableDescription, names: Sequence[str] | None) -> tuple[ArticleColumn, ...]:
    """Return the columns that a user lists, in the table's order, with the key; all without a list.

    Raises `ColumnsRefused` for a name that the table does not have, and for a column that the hub could not fill.
    """
    if names is None:
        return described.columns
    known = {column.name for column in described.columns}
    for name in names:
        if name not in known and name != ROWGUID:
            raise ColumnsRefused(described.name, f"it has no column {name}")
    chosen = tuple(column for column in described.columns if column.name in names or column.key_ordinal is not None)
    filled = {part.name for part in described.parts if part.kind in _FILLED}
    for column in described.columns:
        if column not in chosen and not column.is_nullable and column.name not in filled:
            raise ColumnsRefused(described.name, f"column {column.name} is not null and has no default")
    return chosen


def restrict(article: Article, described: TableDescription) -> tuple[TableDescription, Sequence[Omission]]:
    """Return a table as subscribers get it, and the parts that they do not get."""
    if not article.vertical_partition:
        return described, ()
    published = {column.name for column in article.columns}
    missing = [column.name for column in described.columns if column.name not in published]
    omissions = list(_omissions(described, missing))
    left_out = [omission.part for omission in omissions]
    restricted = replace(
        described,
        columns=article.columns,
        unique_keys=tuple(key for key in described.unique_keys if published.issuperset(key)),
        references=tuple(each for each in described.references if published.issuperset(each.columns)),
        parts=tuple(part for part in described.parts if part not in left_out and part.name not in missing),
        statement=None,
    )
    return restricted, omissions


def _omissions(described: TableDescription, missing: Collection[str]) -> Iterator[Omission]:
    for key in described.unique_keys:
        yield from _over(described, Part(PartKind.UNIQUE, f"({', '.join(key)})"), key, missing)
    for reference in described.references:
        yield from _over(described, _part_of(reference), reference.columns, missing)
    for part in described.parts:
        named: list[str] = []
        if part.kind in (PartKind.CHECK, PartKind.EXCLUSION, PartKind.GENERATED):
            named = [name for name in missing if _is_named(name, f"{part.sql} {part.statement}")]
        elif part.kind is PartKind.INDEX:
            named = [name for name in missing if part.names(name)]
        yield from _over(described, part, named, missing)


def _over(
    described: TableDescription, part: Part, columns: Collection[str], missing: Collection[str]
) -> Iterator[Omission]:
    absent = next((name for name in columns if name in missing), None)
    if absent is not None:
        yield Omission(described.name, part, _NOT_PUBLISHED.format(absent))


def _part_of(reference: TableReference) -> Part:
    return Part(PartKind.FOREIGN_KEY, f"({', '.join(reference.columns)}) to {reference.referenced_table}")


def _is_named(column: str, text: str) -> bool:
    """Whether a text names a column; a word alike in it counts too."""
    return re.search(rf"(?<!\w){re.escape(column)}(?!\w)", text, re.IGNORECASE) is not None


def order_articles(hub: Node, publication: Publication) -> None:
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
