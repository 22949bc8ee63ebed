"""Temporary values for rows that swap unique keys, which no other row has. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto

from rowtide.merge.articles import Article, ArticleColumn

FIRST_TEMPORARY = -1_000_000_000
"""The temporary number of the first row; the others' are below it."""
_WHOLE_NUMBERS = ("integer", "bigint", "numeric")
_TEXTS = ("text", "character varying", "uuid")
"""Without a length or a number of digits: a temporary value may be too long for one."""

TemporaryValues = Mapping[str, str | None]
"""Values by the names of columns."""


class TemporaryKind(Enum):
    """What a column's temporary value is."""

    NULL = auto()
    NUMBER = auto()
    ROWGUID = auto()


def temporary_kinds(article: Article, referenced: Collection[str]) -> dict[str, TemporaryKind]:
    """Return the kinds of an article's temporary values; a column whose type has no such value keeps its own.

    `referenced` are the columns that foreign keys reference: NULL would go on to the rows that reference them by
    `on update cascade`, and stay there.
    """
    unique = [column for column in article.columns if column.name in article.unique_columns]
    kinds = {column.name: _kind(column, is_referenced=column.name in referenced) for column in unique}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def temporary_values(
    article: Article, rowguids: Sequence[str], referenced: Collection[str]
) -> dict[str, TemporaryValues]:
    """Return each row's temporary values of unique columns; see `temporary_kinds`."""
    kinds = temporary_kinds(article, referenced)
    return {
        rowguid: {name: _value(kind, rowguid, place) for name, kind in kinds.items()}
        for place, rowguid in enumerate(rowguids)
    }


def _kind(column: ArticleColumn, *, is_referenced: bool) -> TemporaryKind | None:
    if column.is_nullable and not is_referenced:
        return TemporaryKind.NULL
    if column.type_text in _WHOLE_NUMBERS:
        return TemporaryKind.NUMBER
    return TemporaryKind.ROWGUID if column.type_text in _TEXTS else None


def _value(kind: TemporaryKind, rowguid: str, place: int) -> str | None:
    return {
        TemporaryKind.NULL: None,
        TemporaryKind.NUMBER: str(FIRST_TEMPORARY - place),
        TemporaryKind.ROWGUID: rowguid,
    }[kind]
