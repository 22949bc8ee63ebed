"""Rows that reference others by foreign keys. Pure."""

from __future__ import annotations

from rowtide.merge.articles import Article, ArticleReference
from rowtide.merge.versions.changes import Row


def places_of(article: Article, reference: ArticleReference) -> list[int]:
    """Return the positions of a foreign key's columns in an article's rows."""
    return [place for name in reference.columns if (place := article.place_of(name)) is not None]


def with_key(article: Article, reference: ArticleReference, row: Row, key: Row) -> Row:
    """Return a row that references a parent with a key."""
    values = dict(zip(places_of(article, reference), key, strict=True))
    return tuple(values.get(place, value) for place, value in enumerate(row))
