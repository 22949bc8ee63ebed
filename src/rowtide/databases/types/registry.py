"""The families of types, and types by their name and oid. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from rowtide.databases.types import numbers, strings, times
from rowtide.databases.types.strings import OTHER
from rowtide.databases.types.value_type import DeviceColumn, Modifiers, TypeKind, TypeModifier, ValueType

FAMILIES = (numbers, strings, times)
TYPES: tuple[ValueType, ...] = tuple(value_type for family in FAMILIES for value_type in family.TYPES)

_BY_NAME = {each.name: each for each in TYPES}
_BY_OID = {each.oid: each for each in TYPES if each.oid is not None}
_WITH_FIELDS = {each.name: each for each in TYPES if each.modifier is TypeModifier.FIELDS}
_TYPE = re.compile(r"(?P<name>[^(\[]+?)(?:\((?P<modifiers>[-\d, ]+)\))?(?P<zone> with(?:out)? time zone)?")


class FoundType(NamedTuple):
    """A type that a column has, and the modifiers that it has there."""

    value_type: ValueType
    modifiers: Modifiers

    @property
    def kind(self) -> TypeKind:
        return self.value_type.kind


@lru_cache(maxsize=4096)
def find_type(type_text: str) -> FoundType:
    """Return the type that `format_type` writes so; `OTHER` for arrays and whatever no family has."""
    match = _TYPE.fullmatch(type_text)
    if match is None:
        return FoundType(OTHER, ())
    name = match["name"]
    found = _BY_NAME.get(name + (match["zone"] or "")) or _WITH_FIELDS.get(name.partition(" ")[0], OTHER)
    return FoundType(found, tuple(int(number) for number in (match["modifiers"] or "").split(",") if number.strip()))


@lru_cache(maxsize=4096)
def kind_of(type_text: str) -> TypeKind:
    """Return the kind of a type."""
    return find_type(type_text).kind


def find_element(type_text: str) -> FoundType | None:
    """Return the type of an array's elements; None of what is no array."""
    element, bracket, _ = type_text.partition("[")
    return find_type(element) if bracket else None


def find_code(oid: int) -> ValueType | None:
    """Return a type by its oid; None of one that no family has."""
    return _BY_OID.get(oid)


def device_columns() -> list[DeviceColumn]:
    """Return how a merge subscriber's file has values: the documentation's rows, in its order."""
    found = [each.device for each in TYPES if each.device is not OTHER.device]
    return [*dict.fromkeys(found), OTHER.device]
