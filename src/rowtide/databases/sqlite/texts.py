"""Convert SQLite values to PostgreSQL's text form, in which values travel between databases, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

from rowtide.databases.sqlite.keys import SqliteValue
from rowtide.databases.sqlite.types import stored_type

_BOOLEANS = {0: "f", 1: "t"}
_SMALLEST_EXPONENT = -4
_LARGEST_EXPONENTS = {"double precision": 15, "real": 6}
"""Powers of ten from which on PostgreSQL writes floating point numbers with exponents."""
_PLAIN_BELOW = {"double precision": 1e15, "real": 1e6, "numeric": 1e15}
"""Below this, Python's digits without exponent equal PostgreSQL's."""
_FIRST_BETWEEN = 2.0**54
_WORDS = (
    # What programs declare columns as, by the parts of it that SQLite itself goes by, and booleans apart.
    (("bool",), "boolean"),
    (("int",), "bigint"),
    (("char", "clob", "text"), "text"),
    (("blob",), "bytea"),
    (("real", "floa", "doub"), "double precision"),
    (("numeric", "decimal"), "numeric"),
)


def type_of_declaration(declared: str) -> str:
    """Return the PostgreSQL type for the usual values of a column with this declaration, by default text."""
    words = declared.lower()
    return next((found for parts, found in _WORDS if any(part in words for part in parts)), "text")


def to_text(value: SqliteValue, type_text: str) -> str | None:
    """Return a value as PostgreSQL would write it in a column of a type, as far as the type has the value."""
    match value:
        case None | str():
            return value
        case int():
            return _BOOLEANS.get(value, str(value)) if type_text == "boolean" else str(value)
        case float():
            return _float_text(value, type_text)
        case bytes():
            return "\\x" + value.hex()


def from_text(text: str | None, type_text: str) -> SqliteValue:
    """Return the value that a file stores for a text of a type; a text invalid for the type is stored as text."""
    read = reader(type_text)
    return text if read is None or text is None else read(text)


@lru_cache(maxsize=1024)
def reader(type_text: str) -> Callable[[str], SqliteValue] | None:
    """Return the function that converts a type's texts to stored values, None for texts; see `from_text`."""
    stored = stored_type(type_text)

    def read(text: str) -> SqliteValue:
        try:
            return stored.convert(text.encode())
        except ValueError:
            return text

    return None if stored.is_text else read


def _float_text(value: float, type_text: str) -> str:
    """Return the shortest digits that identify this number, in PostgreSQL's form."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if abs(value) < _PLAIN_BELOW.get(type_text, 0.0) and "e" not in (text := repr(value)):
        return text.removesuffix(".0")
    number = (_shortest(value) if type_text == "double precision" else Decimal(repr(value))).normalize()
    if type_text not in _LARGEST_EXPONENTS:
        return repr(value) if type_text != "numeric" else f"{number:f}"
    exponent = number.adjusted()
    if _SMALLEST_EXPONENT <= exponent < _LARGEST_EXPONENTS[type_text]:
        return f"{number:f}"
    digits = "".join(map(str, number.as_tuple().digits))
    return f"{'-' * (value < 0)}{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{exponent:+03d}"


def _shortest(value: float) -> Decimal:
    """Return the shortest digits nearer to this number than to any other, as PostgreSQL chooses them.

    Python also accepts digits exactly halfway between two numbers if rounding to even returns this one. Only large
    numbers have such neighbours with at most 17 digits.
    """
    number = Decimal(repr(value))
    while abs(value) >= _FIRST_BETWEEN and number != int(value):
        neighbour = math.nextafter(value, math.inf if number > int(value) else -math.inf)
        if 2 * int(number) != int(value) + int(neighbour):
            break
        number = Decimal(f"{value:.{len(number.as_tuple().digits)}e}")
    return number
