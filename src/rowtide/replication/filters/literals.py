"""Literals of row filters as they are written, before a column's type says what they are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

Key = int | bool | bytes | Decimal
"""What stands for a value in comparisons: two of a type compare as the server compares the values."""

TYPE_WORDS: Mapping[str, str] = {
    "date": "date",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "uuid": "uuid",
    "bool": "boolean",
    "boolean": "boolean",
}
"""The types that may stand before a text, as in `date '2024-01-01'`, and their names."""

_BLANKS = " \t\n\v\f\r"


class Form(Enum):
    """How a literal is written: the server chooses its type by that."""

    NUMBER = "number"
    TEXT = "text"
    TRUTH = "truth"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal without its quotes; `type_word` is what stood before a text, if anything did."""

    form: Form
    text: str
    type_word: str | None = None


class LiteralUnfit(Exception):
    """The server would not take the literal for a type, or would read into it what we do not; says why."""


def trim(literal: Literal) -> str:
    """Return a text without the blanks around it, which the server leaves out too when it reads other types."""
    return literal.text.strip(_BLANKS)
