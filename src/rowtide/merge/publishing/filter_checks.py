"""What a filter has to fulfil before it is stored, at the hub."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.merge.articles import Article, JoinFilter, Partition
from rowtide.merge.errors.publishing import JoinFilterRefused
from rowtide.merge.nodes.node_tables import TableDescription
from rowtide.merge.nodes.roles.schema import MergedTables
from rowtide.merge.partitions.expressions import Column, Expression, Operation, columns_of, functions_of
from rowtide.merge.partitions.filters import PARENT, bind, parent_name, read_filter, read_join


def check_filter(hub: MergedTables, article: Article) -> None:
    """Raise `FilterRefused` if the hub cannot evaluate an article's row filter, or not from the row alone."""
    expression = read_filter(article)
    if expression is not None:
        hub.tables.check_filter(article, bind(expression, Partition()))


def check_join(hub: MergedTables, child: Article, parent: Article, join: JoinFilter) -> None:
    """Raise `FilterRefused` or `JoinFilterRefused` if a join filter of a child cannot be evaluated, or is not allowed.

    A promise of a unique key is compared with the parent's keys, never trusted.
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
    option = f"with --partition-options {int(child.partition_options)}"
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
        case Operation("and", operands):
            for each in operands:
                yield from _equated(each, name)
        case Operation("=", (left, right)):
            for side, other in ((left, right), (right, left)):
                is_apart = all(each.table != name for each in columns_of(other))
                if isinstance(side, Column) and side.table == name and is_apart:
                    yield side.name
        case _:
            pass
