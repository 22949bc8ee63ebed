"""Checks of filters and of links of logical records, at the hub, before they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowtide.core.options import word_of
from rowtide.merge.articles import Article, JoinFilter, Partition
from rowtide.merge.conflicts.resolvers import is_for_records
from rowtide.merge.errors.publishing import JoinFilterRefused, RecordLinkRefused, RecordOptionsRefused
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import TableDescription, TableReference
from rowtide.merge.partitions.expressions import (
    ColumnExpression,
    Expression,
    OperatorExpression,
    columns_of,
    functions_of,
)
from rowtide.merge.partitions.filters import PARENT, bind, parent_name, read_filter, read_join
from rowtide.merge.partitions.logical_records import column_pairs


def check_filter(hub: Node, article: Article) -> None:
    """Raise `FilterRefused` if the hub cannot evaluate an article's row filter, or not from the row alone."""
    expression = read_filter(article)
    if expression is not None:
        hub.tables.check_filter(article, bind(expression, Partition()))


def check_join(hub: Node, child: Article, parent: Article, join: JoinFilter) -> None:
    """Raise `FilterRefused` or `JoinFilterRefused` if a join filter of a child cannot be evaluated, or is not allowed.

    A declaration of a unique key is compared with the parent's keys, never trusted.
    """
    name = parent_name(child, parent)
    if name == child.table.lower():
        raise JoinFilterRefused(
            child.name, parent.name, f"its table is called {PARENT}, as conditions call the row that is followed"
        )
    expression = read_join(child, parent, join.condition)
    if functions_of(expression):
        raise JoinFilterRefused(child.name, parent.name, "host_name() and suser_name() belong into row filters")
    hub.tables.check_join(child, join, parent, bind(expression, Partition()))
    if join.unique_key and not _is_unique(expression, name, hub.tables.describe(parent.qualified_name)):
        reason = f"--unique-key needs a condition that equates a whole primary or unique key of {parent.name}"
        raise JoinFilterRefused(child.name, parent.name, reason)
    _require_fit(child, parent, join)


def _require_fit(child: Article, parent: Article, join: JoinFilter) -> None:
    """Raise `JoinFilterRefused` if the child follows the parent twice, or its partitions could overlap and may not."""
    if join.is_filtering and sum(each.parent == parent.name for each in child.filtering_joins) > 1:
        raise JoinFilterRefused(child.name, parent.name, "it follows it already: write one condition, with or")
    if child.partition_options.is_overlapping or not join.is_filtering:
        return
    option = f"with --partition-options {word_of(child.partition_options)}"
    if child.subset_filter is not None or len(child.filtering_joins) > 1:
        raise JoinFilterRefused(child.name, parent.name, f"{option} an article has one filter")
    if not join.unique_key:
        raise JoinFilterRefused(child.name, parent.name, f"{option} a join filter needs --unique-key")


def _is_unique(expression: Expression, name: str, parent: TableDescription) -> bool:
    """Whether a join's condition equates all columns of a key of the parent, which it calls `name`."""
    equated = set(_equated(expression, name))
    primary = tuple(column.name for column in parent.columns if column.key_ordinal is not None)
    return any(equated.issuperset(key) for key in (primary, *parent.unique_keys) if key)


def _equated(expression: Expression, name: str) -> Iterator[str]:
    """Yield the columns of a table that must be equal to a value without them."""
    match expression:
        case OperatorExpression("and", operands):
            for each in operands:
                yield from _equated(each, name)
        case OperatorExpression("=", (left, right)):
            for side, other in ((left, right), (right, left)):
                is_apart = all(each.table != name for each in columns_of(other))
                if isinstance(side, ColumnExpression) and side.table == name and is_apart:
                    yield side.name
        case _:
            pass


_CHANGING = ("cascade", "set null", "set default")
"""Actions of foreign keys that change rows of a record behind the agent's back."""


def require_record_options(article: Article) -> None:
    """Raise `RecordOptionsRefused` if conflicts of records would be detected that are not resolved."""
    if article.record_conflict_detection and not article.record_conflict_resolution:
        raise RecordOptionsRefused(article.name, "--record-conflict-detection needs --record-conflict-resolution")


def require_records(hub: Node, articles: Sequence[Article]) -> None:
    """Raise `RecordLinkRefused` if the links of a publication's articles do not make logical records."""
    named = {article.name: article for article in articles}
    for article in articles:
        links = [join for join in article.join_filters if join.is_link]
        if len(links) > 1:
            reason = f"its rows are in logical records of {links[0].parent} already"
            raise RecordLinkRefused(article.name, links[1].parent, reason)
        for join in links:
            _require_link(hub, article, named, join)


def _require_link(hub: Node, child: Article, named: dict[str, Article], join: JoinFilter) -> None:
    parent = named[join.parent]
    described = hub.tables.describe(child.qualified_name)
    reason = (
        _of_articles(child, parent, join)
        or _of_ancestors(child, named)
        or _of_key(child, parent, join, described, hub.tables.describe(parent.qualified_name))
    )
    if reason is not None:
        raise RecordLinkRefused(child.name, parent.name, reason)


def _of_articles(child: Article, parent: Article, join: JoinFilter) -> str | None:
    if child.record_conflict_detection or child.record_conflict_resolution:
        return f"{child.name} has options of records, which only the top article may have"
    for article in (child, parent):
        if not is_for_records(article):
            return f"{article.name} has the resolver {article.resolver}, which decides on rows, not on records"
        if not article.partition_options.is_overlapping:
            option = word_of(article.partition_options)
            return f"{article.name} has partition option {option}, and records need partitions that overlap"
    if child.subset_filter is not None or len(child.filtering_joins) > int(join.is_filtering):
        return f"{child.name} has another filter, by which a subscriber may have a part of a record only"
    if parent.is_filtered and not join.is_filtering:
        return f"{parent.name} is filtered, and {child.name} does not follow it: the type has to be both"
    return None


def _of_ancestors(child: Article, named: dict[str, Article]) -> str | None:
    """Describe the cycle if an article is above itself."""
    above, seen = child, {child.name}
    while link := next((join for join in above.join_filters if join.is_link), None):
        above = named[link.parent]
        if above.name in seen:
            return f"{above.name} is above itself"
        seen.add(above.name)
    return None


def _of_key(
    child: Article, parent: Article, join: JoinFilter, described: TableDescription, above: TableDescription
) -> str | None:
    pairs = column_pairs(child, parent, join.condition)
    if not pairs:
        return "the condition has to say that a foreign key's columns are equal, and nothing else"
    reference = next((each for each in described.references if _is_of(each, pairs, parent)), None)
    if reference is None:
        return f"{child.qualified_name} has no foreign key of these columns to {parent.qualified_name}"
    keys = [{column.name for column in above.columns if column.key_ordinal is not None}, *map(set, above.unique_keys)]
    if {name for _, name in pairs} not in keys:
        return f"the columns of {parent.qualified_name} are no unique key"
    changing = [each for each in (reference.on_delete, reference.on_update) if each.lower() in _CHANGING]
    return f"the foreign key's action {changing[0]} would change rows of a record" if changing else None


def _is_of(reference: TableReference, pairs: Sequence[tuple[str, str]], parent: Article) -> bool:
    columns = set(zip(reference.columns, reference.referenced_columns, strict=False))
    return reference.referenced_table == parent.qualified_name and columns == set(pairs)
