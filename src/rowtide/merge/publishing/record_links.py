"""Conditions on the links of logical records, checked at the hub."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.merge.articles import Article, JoinFilter
from rowtide.merge.conflicts.resolvers import is_for_records
from rowtide.merge.errors.publishing import RecordLinkRefused, RecordOptionsRefused
from rowtide.merge.nodes.node_tables import Reference, TableDescription
from rowtide.merge.nodes.roles.schema import MergedTables
from rowtide.merge.partitions.links import column_pairs

_CHANGING = ("cascade", "set null", "set default")
"""Actions of foreign keys that change rows of a record behind the agent's back."""


def require_record_options(article: Article) -> None:
    """Raise `RecordOptionsRefused` if conflicts of records would be detected that are not resolved."""
    if article.record_conflict_detection and not article.record_conflict_resolution:
        raise RecordOptionsRefused(article.name, "--record-conflict-detection needs --record-conflict-resolution")


def require_records(hub: MergedTables, articles: Sequence[Article]) -> None:
    """Raise `RecordLinkRefused` if the links of a publication's articles do not make logical records."""
    named = {article.name: article for article in articles}
    for article in articles:
        links = [join for join in article.join_filters if join.is_link]
        if len(links) > 1:
            reason = f"its rows are in logical records of {links[0].parent} already"
            raise RecordLinkRefused(article.name, links[1].parent, reason)
        for join in links:
            _require_link(hub, article, named, join)


def _require_link(hub: MergedTables, child: Article, named: dict[str, Article], join: JoinFilter) -> None:
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
            return f"{article.name} has partition option {int(article.partition_options)}, and records need 0 or 1"
    if child.subset_filter is not None or len(child.filtering_joins) > int(join.is_filtering):
        return f"{child.name} has another filter, by which a subscriber may have a part of a record only"
    if parent.is_filtered and not join.is_filtering:
        return f"{parent.name} is filtered, and {child.name} does not follow it: the type has to be both"
    return None


def _of_ancestors(child: Article, named: dict[str, Article]) -> str | None:
    """Say that an article is above itself, if it is."""
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


def _is_of(reference: Reference, pairs: Sequence[tuple[str, str]], parent: Article) -> bool:
    columns = set(zip(reference.columns, reference.referenced_columns, strict=False))
    return reference.referenced_table == parent.qualified_name and columns == set(pairs)
