"""Numbers with decimals: numeric, and amounts of money. Pure."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from rowtide.databases.lake_types import MAX_DECIMAL_PRECISION, LakeType, tried
from rowtide.databases.types.file_storage import SqliteValue
from rowtide.databases.types.literals import ExactType, Form, Key, Literal, LiteralUnfit, require_text, trim
from rowtide.databases.types.value_type import (
    STRING,
    DeviceColumn,
    Modifiers,
    TypeKind,
    TypeModifier,
    ValueType,
    infinity,
)

MAX_DIGITS = 1000
"""Of a literal. The server's own limits are higher, and differ before and after the decimal point."""

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

_MOST_DIGITS = 15
"""Number of decimal digits that every floating point number keeps."""
_LONGEST_NUMBER = 300
"""Length in characters below which a number is in the range of floating point numbers."""
_LONGEST_INTEGER = 18


def numeric_value(value: bytes) -> Key:
    """Read a numeric as the server prints it."""
    special = _PRINTED.get(value)
    return Decimal(value.decode()) if special is None else special


def numeric_literal(literal: Literal) -> Key:
    """Read a literal compared with a numeric; the column's precision does not matter. Raises `LiteralUnfit`."""
    if literal.form is Form.NUMBER:
        return read_number(literal.text)
    require_text(literal, "it is compared with numbers only")
    written = trim(literal)
    special = _WRITTEN.get(written.lower())
    if special is not None:
        return special
    if re.fullmatch(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)", written) is None:
        raise LiteralUnfit("the text is not a number in plain digits")
    return read_number(written)


def read_number(text: str) -> Decimal:
    """Return the number of a literal. Raises `LiteralUnfit`."""
    if sum(char.isdigit() for char in text) > MAX_DIGITS:
        raise LiteralUnfit(f"the number has more than {MAX_DIGITS} digits")
    return Decimal(text)


def scale_of(modifiers: Modifiers) -> int | None:
    """Return the number of decimals of a numeric's texts; None if each value has its own."""
    if not modifiers:
        return None
    return max(modifiers[1], 0) if len(modifiers) > 1 else 0


def is_number_of(text: str, modifiers: Modifiers) -> bool:
    """Whether the number that a file stores for a numeric's text gives this text back, digit for digit."""
    if not text[-1:].isdigit():
        return True  # NaN, infinities
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    whole, _, fraction = text.partition(".")
    scale = scale_of(modifiers)
    if len(digits) > _MOST_DIGITS or len(text) > _LONGEST_NUMBER:
        return not fraction and len(whole) <= _LONGEST_INTEGER and scale in (None, 0)
    return len(fraction) == scale if scale is not None else not fraction.endswith("0")


def _lake_decimal(modifiers: Modifiers) -> LakeType:
    """Return the decimal with room for every digit: a negative scale adds zeros, as does one above the precision."""
    if len(modifiers) != 2:  # precision and scale
        return STRING
    precision, scale = modifiers
    digits = max(precision, precision - scale, scale)
    return tried(f"decimal({digits},{max(scale, 0)})") if digits <= MAX_DECIMAL_PRECISION else STRING


def _read(text: str, modifiers: Modifiers) -> SqliteValue:
    """Return the number of a text; the text itself, which SQLite converts, if digits would be lost."""
    if not text[-1:].isdigit() and not text.endswith("Infinity"):
        return text
    try:
        if not is_number_of(text, modifiers):
            return text
        return float(text) if "." in text or text.endswith("Infinity") else int(text)
    except ValueError:
        return text


def _print_integer(value: int, modifiers: Modifiers) -> str:
    scale = scale_of(modifiers)
    return f"{value}.{'0' * scale}" if scale else str(value)


def _print_float(value: float, modifiers: Modifiers) -> str:
    """Return a number's shortest digits without exponent, with the decimals of its type if that loses none."""
    if math.isinf(value):
        return infinity(value)
    number = Decimal(repr(value)).normalize()
    text = f"{number:f}" if number else "0"
    scale = scale_of(modifiers)
    if scale is None:
        return text
    whole, _, fraction = text.partition(".")
    return text if len(fraction) > scale or not scale else f"{whole}.{fraction:0<{scale}}"


TYPES = (
    ValueType(
        name="numeric",
        kind=TypeKind.NUMERIC,
        oid=1700,
        array_oid=1231,
        modifier=TypeModifier.NUMERIC,
        lake=_lake_decimal,
        device=DeviceColumn(
            "numeric",
            None,
            "INTEGER or REAL; digits that the number lacks (`1.10`) are kept beside it, in `MSmerge_exact`",
            limit="the device's SQL sees the nearest floating point number: numbers that differ only after the 15th "
            "digit may be equal there, and those beyond 1e308 are infinite",
        ),
        read=_read,
        print_integer=_print_integer,
        print_float=_print_float,
        compared=ExactType(read_value=numeric_value, read_literal=numeric_literal),
    ),
    ValueType(name="money", compared="how a literal is read depends on the session"),
)
