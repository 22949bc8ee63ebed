"""Names of the log's types, which are given by oid and modifier, for when no catalogue is available. Pure."""

from __future__ import annotations

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
