"""Integers and numerics in row filters: logged values and literals, as numbers. Pure.

The server compares an integer with `1.5`, or with a number too large for its type, as numerics, that is, exactly. A
quoted literal is read as the column's type, and must be valid for it.
"""

from __future__ import annotations

import re
from decimal import Decimal

from rowtide.replication.filters.literals import Form, Key, Literal, LiteralUnfit, trim

MAX_DIGITS = 1000
"""The server's own limits are higher, and differ before and after the decimal point."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")

# The server's numerics have 131072 digits before the point at most.
_INFINITY = Decimal("1e200000")
_NOT_A_NUMBER = Decimal("1e200001")
"""Equal to itself and greater than all other values, including infinity, as in PostgreSQL but not in Python."""

_PRINTED = {b"NaN": _NOT_A_NUMBER, b"Infinity": _INFINITY, b"-Infinity": -_INFINITY}
_WRITTEN = {
    "nan": _NOT_A_NUMBER,
    **dict.fromkeys(("infinity", "+infinity", "inf", "+inf"), _INFINITY),
    **dict.fromkeys(("-infinity", "-inf"), -_INFINITY),
}


def numeric_value(value: bytes) -> Key:
    """Read a numeric as the server prints it."""
    special = _PRINTED.get(value)
    return Decimal(value.decode()) if special is None else special


def numeric_literal(literal: Literal) -> Key:
    """Read a literal compared with a numeric; the column's precision does not matter. Raises `LiteralUnfit`."""
    if literal.form is Form.NUMBER:
        return _read(literal.text)
    _require_text(literal)
    written = trim(literal)
    special = _WRITTEN.get(written.lower())
    if special is not None:
        return special
    if _NUMBER.fullmatch(written) is None:
        raise LiteralUnfit("the text is not a number in plain digits")
    return _read(written)


def integer_literal(literal: Literal, *, bits: int) -> Key:
    """Read a literal compared with an integer of the given bits. Raises `LiteralUnfit`."""
    if literal.form is Form.NUMBER:
        return _read(literal.text)
    _require_text(literal)
    written = trim(literal)
    if _INTEGER.fullmatch(written) is None:
        raise LiteralUnfit("the text is not an integer in plain digits")
    number = _read(written)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise LiteralUnfit("the text is a number out of the type's range")
    return number


def _require_text(literal: Literal) -> None:
    if literal.form is not Form.TEXT:
        raise LiteralUnfit("it is compared with numbers only")


def _read(text: str) -> Decimal:
    if sum(char.isdigit() for char in text) > MAX_DIGITS:
        raise LiteralUnfit(f"the number has more than {MAX_DIGITS} digits")
    return Decimal(text)
