"""Integers, floating point numbers and oids. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial

from rowtide.databases.lake_types import tried
from rowtide.databases.types.decimals import read_number
from rowtide.databases.types.file_storage import KEEPING_INTEGERS, Affinity, SqliteValue, StoredType
from rowtide.databases.types.literals import ExactType, Form, Key, Literal, LiteralUnfit, require_text, trim
from rowtide.databases.types.value_type import DeviceColumn, Modifiers, TypeKind, ValueType, always, infinity

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


TYPES = (
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
