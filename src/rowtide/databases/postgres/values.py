"""PostgreSQL's types: names from oid and modifier, lake types, and changes of type that keep every value.

The text form is the server's output under `session_settings.STREAM_SETTINGS`: lossless, and valid input for a
PostgreSQL subscriber.

A cast calls a function that the owner of a type can define, with the rights of the executing role. What
rowtide runs, or leaves behind in a trigger, converts users' values by `text_of` and `value_of`, which call the types'
own output and input functions. Only those of domains, alone or within a type, run code of others: their checks.
"""

from __future__ import annotations

import re
from typing import assert_never

from rowtide.core.values import frozen
from rowtide.databases.lake_types import LakeType, can_widen
from rowtide.databases.types.registry import TYPES, find_code, find_type, kind_of
from rowtide.databases.types.value_type import NUMBERS, TEXTS, TypeKind, TypeModifier


def is_of_server(type_text: str) -> bool:
    """Return whether a type is the server's own: others have their schema in their text."""
    return "." not in type_text


def text_of(value: str, type_text: str) -> str:
    """Return the SQL expression of a value's text; `type_text` is its type, of a domain the base type.

    For the server's types that is what a cast to text returns, for others what their output function does. It stays so
    if the value's type becomes another than was known when the expression was written into a function.
    """
    text = f"pg_catalog.format('%s', {value})"
    if _casts_otherwise(type_text):
        text += f"::{type_text}::text"
    # `format` returns an empty text for null; and `is null`, unlike this test, is true for a row of nulls.
    return f"case when {value} is distinct from null then {text} end"


def value_of(text: str, type_text: str) -> str:
    """Return the SQL expression of the value of a text, by the input function of its type; of a domain give the base
    type. A literal or an untyped parameter needs only `::`.
    """
    if is_of_server(type_text):
        return f"{text}::{type_text}"
    record = f"pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', {text}))"
    return f"(select r.v from {record} as r (v {type_text}))"  # noqa: S608 - of SQL expressions


def lake_type(type_text: str) -> LakeType:
    """Return the lake type for an SQL type; a type without exact counterpart is stored as text."""
    value_type, modifiers = find_type(type_text)
    return value_type.lake(modifiers)


def _casts_otherwise(type_text: str) -> bool:
    """Whether a cast to text is not the output: `true` for `t`, a network's length, no trailing blanks."""
    value_type, modifiers = find_type(type_text)
    # Without its length, a cast to `character` leaves one letter.
    return value_type.casts_otherwise and (bool(modifiers) or value_type.modifier is TypeModifier.NONE)


SAME_IN_BINARY = frozenset(oid for each in TYPES for oid in (each.oid, each.array_oid) if oid is not None)
"""Built-in types, with arrays of them, whose binary form is the same in all versions of the server."""
_HEADER = 4
"""Offset of the modifiers of lengths and of numeric."""


def describe_code(type_code: int, type_modifier: int) -> str:
    """Return a type as `format_type` writes it; a type that is not built in by its oid alone."""
    found = find_code(type_code)
    if found is None:
        return f"type {type_code}"
    match found.modifier:
        case TypeModifier.LENGTH:
            return found.name + _in_parentheses(type_modifier - _HEADER)
        case TypeModifier.BITS:
            return found.name + _in_parentheses(type_modifier)
        case TypeModifier.PRECISION:
            word, _, zone = found.name.partition(" ")
            return f"{word}{_in_parentheses(type_modifier)} {zone}"
        case TypeModifier.NUMERIC:
            return found.name + _numeric_modifiers(type_modifier)
        case TypeModifier.NONE | TypeModifier.FIELDS:
            return found.name
        case _:
            assert_never(found.modifier)


def _in_parentheses(number: int) -> str:
    return f"({number})" if number >= 0 else ""


def _numeric_modifiers(modifier: int) -> str:
    """Return precision, from the upper half, and scale, from 11 bits with sign."""
    if modifier < _HEADER:
        return ""
    packed = modifier - _HEADER
    scale = (packed & 0x7FF ^ 0x400) - 0x400
    return f"({packed >> 16},{scale})"


_BINARY, _DECIMAL = 2, 10
_FINEST_TIME = 6


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
    found, modifiers = find_type(type_text)
    if found.kind is TypeKind.WHOLE_NUMBER:
        return _numeric(found.name, found.bits, _BINARY, 0)
    if found.kind is TypeKind.FLOAT:
        return _numeric(found.name, found.bits, _BINARY, None)
    if found.kind is TypeKind.DATE:
        return TypeDetails(found.name, datetime_precision=0)
    match found.modifier:
        case TypeModifier.NUMERIC:
            precision, scale = modifiers or (None, None)
            return _numeric(found.name, precision, _DECIMAL, scale)
        case TypeModifier.LENGTH | TypeModifier.BITS:
            return TypeDetails(found.name, character_maximum_length=modifiers[0] if modifiers else None)
        case TypeModifier.PRECISION | TypeModifier.FIELDS:
            return TypeDetails(found.name, datetime_precision=modifiers[0] if modifiers else _FINEST_TIME)
        case TypeModifier.NONE:
            return TypeDetails(type_text)
        case _:
            assert_never(found.modifier)


def _numeric(name: str, precision: int | None, radix: int, scale: int | None) -> TypeDetails:
    return TypeDetails(name, numeric_precision=precision, numeric_precision_radix=radix, numeric_scale=scale)


_JSON = (114, 3802)
_MODIFIER = re.compile(r" ?\((-?\d+)(?:,(-?\d+))?\)")
_ALIKE_FAMILIES = (NUMBERS, TEXTS, frozenset({TypeKind.DATE, TypeKind.TIMESTAMP}))
"""Kinds of types between which the server casts without regard to settings of the session."""
_COMPARED_ALIKE = (frozenset({TypeKind.WHOLE_NUMBER, TypeKind.NUMERIC}), frozenset({TypeKind.TEXT}))
"""Types whose values compare equally, whichever of these types a column has."""


def _kinds(*type_codes: int) -> frozenset[TypeKind]:
    """Return the kinds of types; of one that no family has, `OTHER`."""
    found = map(find_code, type_codes)
    return frozenset(TypeKind.OTHER if each is None else each.kind for each in found)


def is_wider_number(old: tuple[int, str], new: tuple[int, str]) -> bool:
    """Return whether the server's cast from one type of numbers to another keeps values; types by oid and name."""
    return _kinds(old[0], new[0]) <= NUMBERS and can_widen(lake_type(old[1]).name, lake_type(new[1]).name)


def prints_alike(old: tuple[int, str], new: tuple[int, str], *, is_rewritten: bool) -> bool:
    """Return whether every value's text stays what it is when a column's type changes; types by oid and name.

    With another scale `1.5` becomes `1.50`, and values that the server need not rewrite may be printed otherwise, as of
    `timestamp` and `timestamptz`.
    """
    if old == new or (old[0] == new[0] and not is_rewritten):
        return True
    kinds = _kinds(old[0], new[0])
    return (kinds == {TypeKind.WHOLE_NUMBER} and is_wider_number(old, new)) or (
        kinds == {TypeKind.TEXT} and not is_rewritten
    )


def is_cast_alike(old: int, new: int) -> bool:
    """Return whether the server's cast between two types, by their oids, depends on no setting of the session."""
    if old == new:
        return True
    before, after = _kinds(old), _kinds(new)
    is_printed = before <= NUMBERS - {TypeKind.FLOAT} and after <= TEXTS
    return is_printed or any(before | after <= family for family in _ALIKE_FAMILIES) or (old, new) == _JSON


def can_hold(declared: str, published: str) -> bool:
    """Return whether a column of one type takes every value of another unchanged; types as `format_type` writes them.

    Only between types that the server converts implicitly, so that one statement may have both.
    """
    if declared == published:
        return True
    (name, size), (wanted, wanted_size) = _parse(declared), _parse(published)
    target = find_type(wanted).value_type
    if name != wanted:
        if name not in target.wider:
            return False
        if target.bits is not None and target.kind is TypeKind.WHOLE_NUMBER:
            wanted_size = (len(str(1 << target.bits - 1)), 0)
    elif target.is_padded:
        return False
    return _is_as_long(name, size, wanted_size)


def compares_alike(old: str, new: str) -> bool:
    """Return whether all values of a type, once they are of another, are what they were, and equal to and ordered with
    literals as before; types as for `can_hold`.
    """
    kinds = {kind_of(old), kind_of(new)}
    return can_hold(new, old) and (old == new or any(kinds <= family for family in _COMPARED_ALIKE))


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
