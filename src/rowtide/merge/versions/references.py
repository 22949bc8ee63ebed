"""Rows that reference others by foreign keys. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowtide.merge.articles import Article, ArticleReference
from rowtide.merge.versions.changes import Row, RowChange


def places_of(article: Article, reference: ArticleReference) -> list[int]:
    """Return the positions of a foreign key's columns in an article's rows."""
    return [place for name in reference.columns if (place := article.place_of(name)) is not None]


def with_key(article: Article, reference: ArticleReference, row: Row, key: Row) -> Row:
    """Return a row that references a parent with a key."""
    values = dict(zip(places_of(article, reference), key, strict=True))
    return tuple(values.get(place, value) for place, value in enumerate(row))


def find_children(article: Article, changes: Sequence[RowChange], parents: Iterable[tuple[Article, Row]]) -> set[str]:
    """Return the rowguids of those rows whose foreign keys have the values of one of the given rows."""
    rows: dict[int, tuple[Article, list[Row]]] = {}
    for parent, row in parents:
        rows.setdefault(parent.nickname, (parent, []))[1].append(row)
    found: set[str] = set()
    for reference in article.references:
        parent, listed = rows.get(reference.parent, (article, []))
        referenced = [parent.place_of(name) for name in reference.parent_columns]
        keys = {tuple(row[place] for place in referenced if place is not None) for row in listed}
        places = places_of(article, reference)
        found.update(
            change.rowguid
            for change in (changes if keys else ())
            if change.row is not None and tuple(change.row[place] for place in places) in keys
        )
    return found
