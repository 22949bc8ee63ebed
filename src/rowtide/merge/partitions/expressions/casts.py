"""Conversions that PostgreSQL and SQLite make alike. Pure.

A subscription's value is converted here, and written as a literal of the type. Of columns only those conversions are
part of filters that need no rounding, cannot fail, and give the same text in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from uuid import UUID

TYPES: Mapping[str, str] = {
    "smallint": "bigint",
    "int": "bigint",
    "integer": "bigint",
    "bigint": "bigint",
    "decimal": "numeric",
    "numeric": "numeric",
    "text": "text",
    "varchar": "text",
    "date": "date",
    "uuid": "uuid",
}
"""The types that filters may name, and the type that each stands for."""
_LARGEST = 2**63
_OF_COLUMNS = {
    "smallint": ("bigint", "text"),
    "integer": ("bigint", "text"),
    "bigint": ("bigint", "text"),
    "text": ("text",),
    "character varying": ("text",),
}


def types_of_column(type_text: str) -> tuple[str, ...]:
    """Return the types to which a column can be converted, by its own."""
    return _OF_COLUMNS.get(re.sub(r"\(.*\)", "", type_text).strip(), ())


def literal(value: str, type_name: str) -> str | None:
    """Return a subscription's value as a literal of a type; None if it is not of the type."""
    try:
        return _LITERALS[type_name](value.strip())
    except (ValueError, InvalidOperation):
        return None


def quoted(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def _integer(value: str) -> str:
    number = int(value)
    if not (-_LARGEST <= number < _LARGEST and re.fullmatch("[-+]?[0-9]+", value)):
        raise ValueError(value)
    return f"({number})"


def _numeric(value: str) -> str:
    number = Decimal(value)
    if not (number.is_finite() and re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?", value)):
        raise ValueError(value)
    # With a point, it is divided as a fraction by both.
    return f"({number})" if "." in value else f"({number}.0)"


def _date(value: str) -> str:
    return quoted(date.fromisoformat(value).isoformat())


def _uuid(value: str) -> str:
    return quoted(str(UUID(value)))


_LITERALS: Mapping[str, Callable[[str], str]] = {
    "bigint": _integer,
    "numeric": _numeric,
    "text": quoted,
    "date": _date,
    "uuid": _uuid,
}
