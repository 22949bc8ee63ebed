"""Convert SQLite values to PostgreSQL's text form, in which values travel between databases, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

from rowtide.databases.sqlite.keys import SqliteValue, quote_literal
from rowtide.databases.sqlite.types import stored_type

_BOOLEANS = {0: "f", 1: "t"}
_SMALLEST_EXPONENT = -4
_LARGEST_EXPONENTS = {"double precision": 15, "real": 6}
"""Powers of ten from which on PostgreSQL writes floating point numbers with exponents."""
_PLAIN_BELOW = {"double precision": 1e15, "real": 1e6}
"""Below this, Python's digits without exponent equal PostgreSQL's."""
_FIRST_BETWEEN = 2.0**54
_NUMERIC = re.compile(r"numeric\(\d+(,\s*(?P<scale>-?\d+))?\)")
ANY = "any"
"""The type of a column without a declared type: its values' texts are SQLite's own literals.

They say which class a value is stored as: `5`, `5.0`, `'5'`, `X'35'`.
"""
TEXT = "text"
"""A type whose values are texts; all such types are converted alike."""
OF_ANOTHER_CLASS = "\0"
"""First character of the text of a value that its column's type does not give back: SQLite's literal follows.

SQLite's types do not bind: a program may store a text in a `blob` column, or a blob in a `text` one.
"""
_MOST_DIGITS = 15
"""Number of decimal digits that every floating point number keeps."""
_LONGEST_NUMBER = 300
"""Length in characters below which a number is in the range of floating point numbers."""
_LONGEST_INTEGER = 18
_MINUS_ZERO = "-0"
_TRUTHS = {text: number for number, text in _BOOLEANS.items()}
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
    """Return the PostgreSQL type for the usual values of a column with this declaration, by default text.

    `ANY` without a declaration.
    """
    words = declared.lower()
    if words in ("", ANY):
        return ANY
    return next((found for parts, found in _WORDS if any(part in words for part in parts)), "text")


def to_text(value: SqliteValue, type_text: str) -> str | None:
    """Return a value as PostgreSQL would write it in a column of a type, as far as the type has the value.

    A value that `from_text` would not give back is its literal, after `OF_ANOTHER_CLASS`.
    """
    if type_text == ANY and value is not None:
        return literal_of(value)
    text = to_plain_text(value, type_text)
    if text is None or (isinstance(value, int) and type_text != "bytea") or _is_given_back(value, text, type_text):
        return text
    return f"{OF_ANOTHER_CLASS}{literal_of(value)}"


def to_plain_text(value: SqliteValue, type_text: str) -> str | None:
    """Return a value as PostgreSQL would write it, whether or not `from_text` gives it back."""
    match value:
        case None | str():
            return value
        case int():
            if type_text == "boolean":
                return _BOOLEANS.get(value, str(value))
            return _with_scale(str(value), type_text)
        case float():
            return _float_text(value, type_text)
        case bytes():
            return "\\x" + value.hex()


def from_text(text: str | None, type_text: str) -> SqliteValue:
    """Return the value that a file stores for a text of a type; a text invalid for the type is stored as text."""
    if text is not None and text[:1] == OF_ANOTHER_CLASS:
        return value_of_literal(text[1:])
    read = reader(type_text)
    return text if read is None or text is None else read(text)


def _is_given_back(value: SqliteValue, text: str, type_text: str) -> bool:
    """Whether `from_text` returns a value, with the help of the column's affinity for numbers."""
    match value:
        case bytes():
            return type_text == "bytea"
        case int():
            return False
        case float():
            return type_text != "bytea" and (math.isfinite(value) or is_numeric(type_text) or type_text in _PLAIN_BELOW)
        case str():
            return value == from_text(text, type_text) or (value == _MINUS_ZERO and type_text in _PLAIN_BELOW)
        case None:
            return True


def literal_of(value: SqliteValue) -> str | None:
    """Return a value as SQLite's literal."""
    match value:
        case None:
            return None
        case str():
            return quote_literal(value)
        case bytes():
            return f"X'{value.hex()}'"
        case float() if math.isinf(value):
            return "9e999" if value > 0 else "-9e999"
        case int() | float():
            return repr(value)


def value_of_literal(text: str) -> SqliteValue:
    """Return the value of a literal; a text that is none is itself."""
    try:
        if text.startswith("'"):
            return text[1:-1].replace("''", "'")
        if text.startswith("X'"):
            return bytes.fromhex(text[2:-1])
        return float(text) if any(mark in text for mark in ".en") else int(text)
    except ValueError:
        return text


def is_number_of(text: str, type_text: str) -> bool:
    """Whether the number that a file stores for a text of a numeric type gives this text back, digit for digit."""
    if not text[-1:].isdigit():
        return True  # NaN, infinities
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    whole, _, fraction = text.partition(".")
    if len(digits) > _MOST_DIGITS or len(text) > _LONGEST_NUMBER:
        return not fraction and len(whole) <= _LONGEST_INTEGER and scale_of(type_text) in (None, 0)
    scale = scale_of(type_text)
    return len(fraction) == scale if scale is not None else not fraction.endswith("0")


@lru_cache(maxsize=1024)
def scale_of(type_text: str) -> int | None:
    """Return the number of decimals of a type's texts; None if each value has its own, or the type is not numeric."""
    found = _NUMERIC.fullmatch(type_text)
    return None if found is None else max(int(found["scale"] or 0), 0)


@lru_cache(maxsize=1024)
def is_numeric(type_text: str) -> bool:
    """Whether a type is PostgreSQL's `numeric`."""
    return type_text.partition("(")[0] == "numeric"


def _number(text: str, type_text: str) -> SqliteValue:
    """Return the number of a numeric type's text; the text itself, which SQLite converts, if digits would be lost."""
    if not text[-1:].isdigit() and not text.endswith("Infinity"):
        return text
    try:
        if "." in text or text.endswith("Infinity"):
            return float(text) if is_number_of(text, type_text) else text
        return int(text) if is_number_of(text, type_text) else text
    except ValueError:
        return text


def _bytes(text: str) -> SqliteValue:
    """Return the bytes of a text in PostgreSQL's hexadecimal form; another text itself."""
    try:
        return bytes.fromhex(text[2:]) if text.startswith("\\x") else text
    except ValueError:
        return text


def _with_scale(text: str, type_text: str) -> str:
    """Add the decimals of a numeric type to a whole number."""
    scale = scale_of(type_text)
    return f"{text}.{'0' * scale}" if scale else text


@lru_cache(maxsize=1024)
def reader(type_text: str) -> Callable[[str], SqliteValue] | None:
    """Return the function that converts a type's texts to stored values, None for texts; see `from_text`.

    Texts of another class are not among them.
    """
    if type_text == ANY:
        return value_of_literal
    if is_numeric(type_text):
        return lambda text: _number(text, type_text)
    if type_text == "boolean":
        return lambda text: _TRUTHS.get(text, text)
    if type_text == "bytea":
        return _bytes
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
    if is_numeric(type_text):
        return _numeric_text(value, type_text)
    if abs(value) < _PLAIN_BELOW.get(type_text, 0.0) and "e" not in (text := repr(value)):
        return text.removesuffix(".0")
    number = (_shortest(value) if type_text == "double precision" else Decimal(repr(value))).normalize()
    if type_text not in _LARGEST_EXPONENTS:
        return repr(value)
    exponent = number.adjusted()
    if _SMALLEST_EXPONENT <= exponent < _LARGEST_EXPONENTS[type_text]:
        return f"{number:f}"
    digits = "".join(map(str, number.as_tuple().digits))
    return f"{'-' * (value < 0)}{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{exponent:+03d}"


def _numeric_text(value: float, type_text: str) -> str:
    """Return a number's shortest digits without exponent, with the decimals of its type if that loses none."""
    number = Decimal(repr(value)).normalize()
    text = f"{number:f}" if number else "0"
    scale = scale_of(type_text)
    if scale is None:
        return text
    whole, _, fraction = text.partition(".")
    return text if len(fraction) > scale or not scale else f"{whole}.{fraction:0<{scale}}"


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
