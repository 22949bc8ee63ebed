"""Numbers: integers, floating point numbers, oids, numeric, and amounts of money; and booleans. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial

from rowtide.databases.lake_types import MAX_DECIMAL_PRECISION, LakeType, tried
from rowtide.databases.types.value_type import (
    KEEPING_INTEGERS,
    STRING,
    Affinity,
    DeviceColumn,
    ExactType,
    Form,
    Key,
    Literal,
    LiteralUnfit,
    Modifiers,
    SqliteValue,
    StoredType,
    TypeKind,
    TypeModifier,
    ValueType,
    always,
    infinity,
    require_text,
    trim,
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

_STORED_WORDS: Mapping[str, SqliteValue] = {
    "nan": "NaN",
    **dict.fromkeys(("infinity", "+infinity", "inf", "+inf"), math.inf),
    **dict.fromkeys(("-infinity", "-inf"), -math.inf),
}
"""What a SQLite file stores for the words that the server takes for a numeric, as SQLite's own `Inf`."""

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
    if not text[-1:].isdigit():
        return _STORED_WORDS.get(text.lower(), text)
    try:
        if not is_number_of(text, modifiers):
            return text
        return float(text) if "." in text else int(text)
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


DECIMALS = (
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


_SMALLEST_EXPONENT = -4
_FIRST_BETWEEN = 2.0**54


def integer_literal(literal: Literal, *, bits: int) -> Key:
    """Read a literal compared with an integer of the given bits. Raises `LiteralUnfit`."""
    if literal.form is Form.NUMBER:
        return read_number(literal.text)
    require_text(literal, "it is compared with numbers only")
    written = trim(literal)
    if re.fullmatch(r"[+-]?[0-9]+", written) is None:
        raise LiteralUnfit("the text is not an integer in plain digits")
    number = read_number(written)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise LiteralUnfit("the text is a number out of the type's range")
    return number


def _store_float(text: bytes) -> SqliteValue:
    """Store NaN, which SQLite would make NULL, as text, which no affinity converts."""
    number = float(text)
    return "NaN" if math.isnan(number) else number


def _printer(largest_exponent: int, digits: Callable[[float], Decimal]) -> Callable[[float, Modifiers], str]:
    """Return what prints a number as PostgreSQL does, with exponents from a power of ten on.

    `digits` are the shortest that identify the number.
    """
    # Below this, Python's digits without exponent equal PostgreSQL's.
    plain_below = 10.0**largest_exponent

    def print_number(value: float, _modifiers: Modifiers) -> str:
        if math.isinf(value):
            return infinity(value)
        if abs(value) < plain_below and "e" not in (text := repr(value)):
            return text.removesuffix(".0")
        number = digits(value).normalize()
        exponent = number.adjusted()
        if _SMALLEST_EXPONENT <= exponent < largest_exponent:
            return f"{number:f}"
        written = "".join(map(str, number.as_tuple().digits))
        return f"{'-' * (value < 0)}{written[0]}{'.' * (len(written) > 1)}{written[1:]}e{exponent:+03d}"

    return print_number


def _python_digits(value: float) -> Decimal:
    return Decimal(repr(value))


def _server_digits(value: float) -> Decimal:
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


_STORED_INTEGER = StoredType("integer", int, KEEPING_INTEGERS)
_STORED_FLOAT = StoredType(
    "real",
    _store_float,
    frozenset({Affinity.REAL, Affinity.NUMERIC, Affinity.INTEGER, Affinity.NONE, Affinity.STRICT_REAL}),
)
_DEVICE_INTEGER = DeviceColumn("smallint, integer, bigint, oid", "integer", "INTEGER")
_DEVICE_FLOAT = DeviceColumn(
    "real, double precision",
    "real",
    "REAL; `NaN` is a text, which sorts after all numbers, as in PostgreSQL",
    limit="a `real` is the number that it prints as: the device finds it with `= 0.1`, PostgreSQL does not",
)
_ROUNDED = "a literal is rounded to it before they are compared"


def _integer(name: str, bits: int, lake: str, *, oid: int, array_oid: int, wider: tuple[str, ...]) -> ValueType:
    return ValueType(
        name=name,
        kind=TypeKind.WHOLE_NUMBER,
        oid=oid,
        array_oid=array_oid,
        bits=bits,
        wider=wider,
        lake=always(tried(lake, holds_all=True)),
        stored=_STORED_INTEGER,
        device=_DEVICE_INTEGER,
        compared=ExactType(read_value=int, read_literal=partial(integer_literal, bits=bits)),
    )


INTEGERS_AND_FLOATS = (
    _integer("smallint", 16, "smallint", oid=21, array_oid=1005, wider=("integer", "bigint", "numeric")),
    _integer("integer", 32, "int", oid=23, array_oid=1007, wider=("bigint", "numeric")),
    _integer("bigint", 64, "bigint", oid=20, array_oid=1016, wider=("numeric",)),
    ValueType(name="oid", oid=26, lake=always(tried("bigint", holds_all=True)), device=_DEVICE_INTEGER),
    ValueType(
        name="real",
        kind=TypeKind.FLOAT,
        oid=700,
        array_oid=1021,
        bits=24,
        wider=("double precision",),
        lake=always(tried("float")),
        stored=_STORED_FLOAT,
        device=_DEVICE_FLOAT,
        print_float=_printer(6, _python_digits),
        compared=_ROUNDED,
    ),
    ValueType(
        name="double precision",
        kind=TypeKind.FLOAT,
        oid=701,
        array_oid=1022,
        bits=53,
        lake=always(tried("double")),
        stored=_STORED_FLOAT,
        device=_DEVICE_FLOAT,
        print_float=_printer(15, _server_digits),
        compared=_ROUNDED,
    ),
)

_BOOLEAN_TEXTS = {0: "f", 1: "t"}
_NUMBERS_OF_BOOLEANS = {text: number for number, text in _BOOLEAN_TEXTS.items()}
_BOOLEAN_LITERALS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}


def boolean_value(value: bytes) -> Key:
    """Read a boolean as the server prints it."""
    return value == b"t"


def boolean_literal(literal: Literal) -> Key:
    """Read a literal compared with a boolean. Raises `LiteralUnfit`."""
    truth = None if literal.form is Form.NUMBER else _BOOLEAN_LITERALS.get(trim(literal).lower())
    if truth is None:
        raise LiteralUnfit("it is compared with true and false only")
    return truth


def _store_boolean(text: bytes) -> SqliteValue:
    return int(text == b"t")


def _read_boolean(text: str, _modifiers: Modifiers) -> SqliteValue:
    return _NUMBERS_OF_BOOLEANS.get(text, text)


def _print_boolean(value: int, _modifiers: Modifiers) -> str:
    return _BOOLEAN_TEXTS.get(value, str(value))


BOOLEANS = (
    ValueType(
        name="boolean",
        kind=TypeKind.BOOLEAN,
        oid=16,
        array_oid=1000,
        casts_otherwise=True,
        lake=always(LakeType("boolean", "{text} = 't'", holds_all=True)),
        stored=StoredType("boolean", _store_boolean, KEEPING_INTEGERS),
        device=DeviceColumn("boolean", "boolean", "INTEGER, 0 or 1"),
        read=_read_boolean,
        print_integer=_print_boolean,
        literal_words=("bool", "boolean"),
        compared=ExactType(read_value=boolean_value, read_literal=boolean_literal),
    ),
)

TYPES = (*INTEGERS_AND_FLOATS, *DECIMALS, *BOOLEANS)
