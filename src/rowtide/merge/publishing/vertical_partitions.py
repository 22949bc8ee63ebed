"""Articles with some of their table's columns (SQL Server: sp_mergearticlecolumn). Pure.

The key is always among them. Subscribers' tables have no others, and nothing that needs one of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from rowtide.merge.articles import ROWGUID, Article, ArticleColumn
from rowtide.merge.errors.publishing import ColumnsRefused
from rowtide.merge.nodes.node_tables import TableDescription, TableReference
from rowtide.merge.nodes.table_parts import Omission, Part, PartKind

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
