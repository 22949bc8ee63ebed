"""Where rows wait whose unique values go to each other: values that nothing else has, for a moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowtide.merge.articles import Article

_FIRST = -1_000_000_000
_WHOLE_NUMBERS = ("integer", "bigint", "numeric")
_TEXTS = ("text", "character varying", "uuid")
"""Without a length or a number of digits: what is parked may be too long for one."""

Parked = Mapping[str, str | None]
"""Values by the names of columns."""


def park(article: Article, rowguids: Sequence[str]) -> dict[str, Parked]:
    """Return for each row the values that its unique columns have meanwhile; a column that has no such value stays."""
    return {rowguid: _parked(article, rowguid, place) for place, rowguid in enumerate(rowguids)}


def _parked(article: Article, rowguid: str, place: int) -> Parked:
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
