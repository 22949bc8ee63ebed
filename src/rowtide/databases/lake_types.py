"""How a source value is stored in the lake: a Spark SQL type, converted from the value's text. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from rowtide.core.values import frozen

MAX_DECIMAL_PRECISION = 38
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
WIDENED = {
    ("smallint", "int"),
    ("smallint", "bigint"),
    ("int", "bigint"),
    ("smallint", "double"),
    ("int", "double"),
    ("float", "double"),
    ("date", "timestamp_ntz"),
}
INTEGER_DIGITS = {"smallint": 10, "int": 10, "bigint": 20}
"""Digits of the decimals to which Delta widens integers."""


@frozen
class LakeType:
    """The lake type of a source type.

    `name` is the type in Spark SQL; `cast` converts the text, written `{text}`, and returns null for values that do not
    fit (infinity, years before 1, NaN in a decimal), whose exact text is stored in addition. `holds_all`: every value
    fits.
    """

    name: str
    cast: str
    holds_all: bool = False

    @property
    def is_text(self) -> bool:
        """Return whether the source's text is stored unchanged, so that every value fits."""
        return self.cast == "{text}"


def tried(name: str, *, holds_all: bool = False) -> LakeType:
    """Return the lake type whose values Spark parses from the text by itself."""
    return LakeType(name, f"try_cast({{text}} as {name})", holds_all)


class Decimal(NamedTuple):
    """A decimal type of the lake."""

    precision: int
    scale: int


def parse_decimal(name: str) -> Decimal | None:
    """Return the precision and scale of a decimal type, None of another."""
    match = _DECIMAL.fullmatch(name)
    return Decimal(int(match[1]), int(match[2])) if match is not None else None


def can_widen(old: str, new: str) -> bool:
    """Return whether Delta changes the type of a column in place: every value has the same meaning in both."""
    if (old, new) in WIDENED:
        return True
    wider = parse_decimal(new)
    if wider is None:
        return False
    if old in INTEGER_DIGITS:
        return wider.precision - wider.scale >= INTEGER_DIGITS[old]
    narrower = parse_decimal(old)
    return (
        narrower is not None
        and wider.scale >= narrower.scale
        and wider.precision - narrower.precision >= wider.scale - narrower.scale
    )
