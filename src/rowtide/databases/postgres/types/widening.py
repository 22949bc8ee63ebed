"""PostgreSQL's types: their names from oid and modifier, details, and changes that leave every value what it is."""

from __future__ import annotations

import re

from rowtide.core.values import frozen
from rowtide.databases.lake_types import can_widen
from rowtide.databases.postgres.values import lake_type

_WITHOUT_MODIFIER = {
    16: "boolean",
    17: "bytea",
    20: "bigint",
    21: "smallint",
    23: "integer",
    25: "text",
    26: "oid",
    114: "json",
    700: "real",
    701: "double precision",
    1082: "date",
    1186: "interval",
    2950: "uuid",
    3802: "jsonb",
}
_WITH_LENGTH = {1042: "character", 1043: "character varying"}
_WITH_PRECISION = {
    1083: ("time", " without time zone"),
    1114: ("timestamp", " without time zone"),
    1184: ("timestamp", " with time zone"),
    1266: ("time", " with time zone"),
}
_NUMERIC = 1700
NUMBERS = frozenset({20, 21, 23, 700, 701, _NUMERIC})
"""Types of numbers, between which the server casts by value."""
_BITS, _NETWORK = {1560, 1562}, {650, 829, 869}
_ARRAYS = {1000, 1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1115, 1182, 1185, 1231, 2951, 3807}
SAME_IN_BINARY = frozenset({*_WITHOUT_MODIFIER, *_WITH_LENGTH, *_WITH_PRECISION, _NUMERIC, *_BITS, *_NETWORK, *_ARRAYS})
"""Built-in types, with arrays of them, whose binary form is the same in all versions of the server."""
_HEADER = 4
"""Offset of the modifiers of lengths and of numeric."""


def describe_code(type_code: int, type_modifier: int) -> str:
    """Return a type as `format_type` writes it; a type that is not built in by its oid alone."""
    if type_code in _WITHOUT_MODIFIER:
        return _WITHOUT_MODIFIER[type_code]
    if type_code in _WITH_LENGTH:
        return _WITH_LENGTH[type_code] + _in_parentheses(type_modifier - _HEADER)
    if type_code in _WITH_PRECISION:
        name, zone = _WITH_PRECISION[type_code]
        return name + _in_parentheses(type_modifier) + zone
    if type_code == _NUMERIC:
        return "numeric" + _numeric_modifiers(type_modifier)
    return f"type {type_code}"


def _in_parentheses(number: int) -> str:
    return f"({number})" if number >= 0 else ""


def _numeric_modifiers(modifier: int) -> str:
    """Return precision, from the upper half, and scale, from 11 bits with sign."""
    if modifier < _HEADER:
        return ""
    packed = modifier - _HEADER
    scale = (packed & 0x7FF ^ 0x400) - 0x400
    return f"({packed >> 16},{scale})"


_TYPE = re.compile(r"(?P<name>[^(\[]+?)(?:\((?P<modifiers>[-\d, ]+)\))?(?P<zone> with(?:out)? time zone)?")
_BINARY, _DECIMAL = 2, 10
_FINEST_TIME = 6
_INTEGERS = {"smallint": 16, "integer": 32, "bigint": 64}
_FLOATS = {"real": 24, "double precision": 53}
_LENGTHS = ("character varying", "character", "bit varying", "bit")
_TIMES = ("time", "timestamp", "interval")


@frozen
class TypeDetails:
    """A type's name without modifiers, and their values.

    Precision in digits of the radix, or of fractions of a second.
    """

    data_type: str
    character_maximum_length: int | None = None
    numeric_precision: int | None = None
    numeric_precision_radix: int | None = None
    numeric_scale: int | None = None
    datetime_precision: int | None = None


def describe_type(type_text: str) -> TypeDetails:
    """Return the details of a type in `format_type`'s form; of arrays and user-defined types only the name."""
    match = _TYPE.fullmatch(type_text)
    if match is None:
        return TypeDetails(type_text)
    name, zone = match["name"], match["zone"] or ""
    modifiers = [int(number) for number in (match["modifiers"] or "").split(",") if number]
    if name in _INTEGERS:
        return _numeric(name, _INTEGERS[name], _BINARY, 0)
    if name in _FLOATS:
        return _numeric(name, _FLOATS[name], _BINARY, None)
    if name == "numeric":
        precision, scale = modifiers or (None, None)
        return _numeric(name, precision, _DECIMAL, scale)
    if name in _LENGTHS:
        return TypeDetails(name, character_maximum_length=modifiers[0] if modifiers else None)
    if name == "date":
        return TypeDetails(name, datetime_precision=0)
    kind = name.split()[0]
    if kind in _TIMES:
        return TypeDetails(kind + zone, datetime_precision=modifiers[0] if modifiers else _FINEST_TIME)
    return TypeDetails(type_text)


def _numeric(name: str, precision: int | None, radix: int, scale: int | None) -> TypeDetails:
    return TypeDetails(name, numeric_precision=precision, numeric_precision_radix=radix, numeric_scale=scale)


_FLOAT_OIDS = frozenset({700, 701})
_TEXTS = frozenset({25, 1042, 1043})
_WHOLE = frozenset({20, 21, 23})
_VARYING = frozenset({25, 1043})
_DATES = frozenset({1082, 1114})
_JSON = (114, 3802)

_INTEGER_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}
_WIDER = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "real": ("double precision",),
    "character": ("character varying", "text"),
    "character varying": ("text",),
    "text": ("character varying",),
    "bit": ("bit varying",),
    "date": ("timestamp without time zone",),
}
_COMPARED_ALIKE = (
    frozenset({"smallint", "integer", "bigint", "numeric"}),
    frozenset({"character varying", "text"}),
)
"""Types whose values compare by what they are, whichever of them a column has."""
_FIXED = ("character", "bit")
"""Types whose values are padded to their length."""
_MODIFIER = re.compile(r" ?\((-?\d+)(?:,(-?\d+))?\)")


def is_wider_number(old: tuple[int, str], new: tuple[int, str]) -> bool:
    """Return whether the server's cast from one type of numbers to another keeps values; types by oid and name."""
    return {old[0], new[0]} <= NUMBERS and can_widen(lake_type(old[1]).name, lake_type(new[1]).name)


def prints_alike(old: tuple[int, str], new: tuple[int, str], *, is_rewritten: bool) -> bool:
    """Return whether every value's text stays what it is when a column's type changes; types by oid and name.

    With another scale `1.5` becomes `1.50`, and values that the server need not rewrite may be printed otherwise, as of
    `timestamp` and `timestamptz`.
    """
    if old == new or (old[0] == new[0] and not is_rewritten):
        return True
    pair = {old[0], new[0]}
    return (pair <= _WHOLE and is_wider_number(old, new)) or (pair <= _VARYING and not is_rewritten)


def is_cast_alike(old: int, new: int) -> bool:
    """Return whether the server's cast between two types, by their oids, depends on no setting of the session."""
    pair = {old, new}
    is_printed = old in NUMBERS - _FLOAT_OIDS and new in _TEXTS
    return (
        old == new or any(pair <= family for family in (NUMBERS, _TEXTS, _DATES)) or is_printed or (old, new) == _JSON
    )


def can_hold(declared: str, published: str) -> bool:
    """Return whether a column of one type takes every value of another unchanged; types as `format_type` writes them.

    Only between types that the server converts implicitly, so that one statement may have both.
    """
    if declared == published:
        return True
    (name, size), (wanted, wanted_size) = _parse(declared), _parse(published)
    if name != wanted:
        if name not in _WIDER.get(wanted, ()):
            return False
        if wanted in _INTEGER_DIGITS:
            wanted_size = (_INTEGER_DIGITS[wanted], 0)
    elif name in _FIXED:
        return False
    return _is_as_long(name, size, wanted_size)


def compares_alike(old: str, new: str) -> bool:
    """Return whether all values of a type, once they are of another, are what they were, and equal to and ordered with
    literals as before; types as for `can_hold`.
    """
    names = {_parse(old)[0], _parse(new)[0]}
    return can_hold(new, old) and (old == new or any(names <= family for family in _COMPARED_ALIKE))


def _parse(type_text: str) -> tuple[str, tuple[int, int] | None]:
    """Return a type's name and its modifier, None without one."""
    found = _MODIFIER.search(type_text)
    if found is None:
        return type_text, None
    return type_text[: found.start()] + type_text[found.end() :], (int(found[1]), int(found[2] or 0))


def _is_as_long(name: str, size: tuple[int, int] | None, wanted: tuple[int, int] | None) -> bool:
    if size is None or size == wanted:
        return True
    if wanted is None:
        return False
    if name == "numeric":
        return size[1] >= wanted[1] and size[0] - size[1] >= wanted[0] - wanted[1]
    return size[0] >= wanted[0]
