"""Literals of row filters as written, before a column's type gives them a value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

Key = int | bool | bytes | Decimal
"""A value in comparisons: two keys of a type compare as the server compares the values."""

TYPE_WORDS: Mapping[str, str] = {
    "date": "date",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "uuid": "uuid",
    "bool": "boolean",
    "boolean": "boolean",
}
"""The types that may precede a text, as in `date '2024-01-01'`, and their names."""

_BLANKS = " \t\n\v\f\r"


class Form(Enum):
    """How a literal is written, from which the server derives its type."""

    NUMBER = "number"
    TEXT = "text"
    TRUTH = "truth"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal without its quotes; `type_word` is the type name before a text, if any."""

    form: Form
    text: str
    type_word: str | None = None


class LiteralUnfit(Exception):
    """The server would refuse the literal for a type, or read it differently; gives the reason."""


def trim(literal: Literal) -> str:
    """Return a text without surrounding blanks, which the server ignores when it reads most types."""
    return literal.text.strip(_BLANKS)
