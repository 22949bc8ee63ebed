"""Temporary values for rows that swap unique keys, which no other row has. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto

from rowtide.databases.types.registry import find_type
from rowtide.databases.types.value_type import TypeKind
from rowtide.merge.articles import Article, ArticleColumn

MOST_COUNTED = 1 << 53
"""Numbers are counted on from the greatest up to this one: above it, floating point numbers have gaps."""
LAST_DIGITS = 12
"""How many of a rowguid's digits are a temporary text."""
FIRST_CHARACTER, CHARACTERS = 0xE000, 6400
"""The private characters of Unicode, which are temporary texts of the shortest length."""
TemporaryValues = Mapping[str, str | None]
"""Values by the names of columns."""


class TemporaryKind(Enum):
    """What a column's temporary value is."""

    NULL = auto()
    NUMBER = auto()
    """One above all that the column has or gets: what checks say of a number, they mostly say of the next one."""
    DATE = auto()
    """A later one than all that the column has or gets, or in a SQLite file the rowguid."""
    TIMESTAMP = auto()
    """The same."""
    ROWGUID = auto()
    LAST_DIGITS = auto()
    """The last digits of the rowguid, for texts of a limited length."""
    CHARACTER = auto()
    """A private character of Unicode, for shorter texts."""
    BYTES = auto()
    """Bytes of the rowguid."""


def temporary_kinds(article: Article, referenced: Collection[str]) -> dict[str, TemporaryKind]:
    """Return the kinds of an article's temporary values; a column whose type has no such value keeps its own.

    `referenced` are the columns that foreign keys reference: NULL would cascade to the rows that reference them by
    `on update cascade`, and stay there.
    """
    unique = [column for column in article.columns if column.name in article.unique_columns]
    kinds = {column.name: _kind(column, is_referenced=column.name in referenced) for column in unique}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def temporary_values(
    article: Article, rowguids: Sequence[str], referenced: Collection[str], greatest: Mapping[str, int]
) -> dict[str, TemporaryValues]:
    """Return each row's temporary values of unique columns, as a SQLite file takes them; see `temporary_kinds`.

    `greatest` has the greatest number that each column has or gets, 0 for those that are not named.
    """
    kinds = temporary_kinds(article, referenced)
    return {
        rowguid: {name: _value(kind, rowguid, index, greatest.get(name, 0)) for name, kind in kinds.items()}
        for index, rowguid in enumerate(rowguids)
    }


def _kind(column: ArticleColumn, *, is_referenced: bool) -> TemporaryKind | None:
    if column.is_nullable and not is_referenced:
        return TemporaryKind.NULL
    found, modifiers = find_type(column.type_text)
    match found.kind:
        case TypeKind.TEXT | TypeKind.PADDED_TEXT if modifiers:
            # A whole rowguid may be too long.
            return TemporaryKind.LAST_DIGITS if modifiers[0] >= LAST_DIGITS else TemporaryKind.CHARACTER
        case TypeKind.BYTES:
            return TemporaryKind.BYTES
        case TypeKind.NUMERIC | TypeKind.WHOLE_NUMBER | TypeKind.FLOAT:
            return TemporaryKind.NUMBER
        case TypeKind.DATE:
            return TemporaryKind.DATE
        case TypeKind.TIMESTAMP | TypeKind.ZONED_TIMESTAMP:
            return TemporaryKind.TIMESTAMP
        case TypeKind.TEXT | TypeKind.UUID:
            return TemporaryKind.ROWGUID
        case _:
            return None


def _value(kind: TemporaryKind, rowguid: str, place: int, greatest: int) -> str | None:
    return {
        TemporaryKind.NULL: None,
        TemporaryKind.NUMBER: str(greatest + 1 + place),
        TemporaryKind.DATE: rowguid,
        TemporaryKind.TIMESTAMP: rowguid,
        TemporaryKind.ROWGUID: rowguid,
        TemporaryKind.LAST_DIGITS: rowguid[-LAST_DIGITS:],
        TemporaryKind.CHARACTER: chr(FIRST_CHARACTER + place % CHARACTERS),
        TemporaryKind.BYTES: f"\\x{rowguid.replace('-', '')}",
    }[kind]
