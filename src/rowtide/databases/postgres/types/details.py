"""A type's details as in PostgreSQL's information schema, parsed from its text. Pure."""

from __future__ import annotations

import re

from rowtide.core.values import frozen

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
