"""Rows that reference others by foreign keys. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

from rowtide.merge.articles import Article, ArticleReference
from rowtide.merge.versions.changes import Row, RowChange


def reference_indexes(article: Article, reference: ArticleReference) -> list[int]:
    """Return the positions of a foreign key's columns in an article's rows."""
    return [place for name in reference.columns if (place := article.index_of(name)) is not None]


def with_key(article: Article, reference: ArticleReference, row: Row, key: Row) -> Row:
    """Return a row that references a parent with a key."""
    values = dict(zip(reference_indexes(article, reference), key, strict=True))
    return tuple(values.get(place, value) for place, value in enumerate(row))


def find_children(article: Article, changes: Sequence[RowChange], parents: Iterable[tuple[Article, Row]]) -> set[str]:
    """Return the rowguids of those rows whose foreign keys have the values of one of the given rows."""
    rows: dict[int, tuple[Article, list[Row]]] = {}
    for parent, row in parents:
        rows.setdefault(parent.nickname, (parent, []))[1].append(row)
    found: set[str] = set()
    for reference in article.references:
        parent, listed = rows.get(reference.parent, (article, []))
        referenced = [parent.index_of(name) for name in reference.parent_columns]
        keys = {tuple(row[place] for place in referenced if place is not None) for row in listed}
        places = reference_indexes(article, reference)
        found.update(
            change.rowguid
            for change in (changes if keys else ())
            if change.row is not None and tuple(change.row[place] for place in places) in keys
        )
    return found


def layers_by_keys(article: Article, changes: Sequence[RowChange]) -> list[Sequence[RowChange]]:
    """Return rows in layers, so that those whose keys a row references are in earlier ones.

    Rows in a circle with others, and what follows them, are omitted.
    """
    above: dict[str, set[str]] = {change.rowguid: set() for change in changes}
    for reference in article.references:
        if reference.parent != article.nickname:
            continue
        referenced = [place for name in reference.parent_columns if (place := article.index_of(name)) is not None]
        places = reference_indexes(article, reference)
        rows = [(change.rowguid, change.row) for change in changes if change.row is not None]
        keys = {tuple(row[place] for place in referenced): rowguid for rowguid, row in rows}
        for rowguid, row in rows:
            parent = keys.get(tuple(row[place] for place in places))
            if parent not in (None, rowguid):
                above[rowguid].add(parent)
    sorter = TopologicalSorter(above)
    with suppress(CycleError):
        sorter.prepare()
    order = {change.rowguid: place for place, change in enumerate(changes)}
    layers: list[Sequence[RowChange]] = []
    while ready := sorter.get_ready():
        layers.append([changes[place] for place in sorted(order[rowguid] for rowguid in ready)])
        sorter.done(*ready)
    return layers
