"""Temporary values for rows that swap unique keys, which no other row has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowtide.merge.articles import Article

_FIRST = -1_000_000_000
_WHOLE_NUMBERS = ("integer", "bigint", "numeric")
_TEXTS = ("text", "character varying", "uuid")
"""Without a length or a number of digits: a temporary value may be too long for one."""

TemporaryValues = Mapping[str, str | None]
"""Values by the names of columns."""


def temporary_values(article: Article, rowguids: Sequence[str]) -> dict[str, TemporaryValues]:
    """Return each row's temporary values of unique columns; a column whose type has no such value keeps its own."""
    return {rowguid: _temporary(article, rowguid, place) for place, rowguid in enumerate(rowguids)}


def _temporary(article: Article, rowguid: str, place: int) -> TemporaryValues:
    values: dict[str, str | None] = {}
    for column in article.columns:
        if column.name in article.unique_columns:
            if column.is_nullable:
                values[column.name] = None
            elif column.type_text in _WHOLE_NUMBERS:
                values[column.name] = str(_FIRST - place)
            elif column.type_text in _TEXTS:
                values[column.name] = rowguid
    return values
