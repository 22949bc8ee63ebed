"""Literals of row filters as written, and the keys by which a type compares them with logged values. Pure."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from enum import Enum

from rowtide.core.values import frozen

Key = int | bool | bytes | Decimal
"""A value in comparisons: two keys of a type compare as the server compares the values."""

_BLANKS = " \t\n\v\f\r"


class Form(Enum):
    """How a literal is written, from which the server derives its type."""

    NUMBER = "number"
    TEXT = "text"
    TRUTH = "truth"


@frozen
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


def require_text(literal: Literal, otherwise: str) -> None:
    """Raise `LiteralUnfit` for a literal without quotes."""
    if literal.form is not Form.TEXT:
        raise LiteralUnfit(otherwise)


@frozen(kw_only=True)
class ExactType:
    """How values and literals of a type become keys; `is_ordered` says whether keys also sort as values do.

    `read_literal` raises `LiteralUnfit`. Where `has_collation`, that decides whether equal keys are equal values.
    """

    read_value: Callable[[bytes], Key]
    read_literal: Callable[[Literal], Key]
    is_ordered: bool = True
    has_collation: bool = False
