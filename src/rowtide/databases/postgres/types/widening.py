"""Changes of a column's type that leave every value what it is, or that every server makes alike. Pure."""

from __future__ import annotations

import re

from rowtide.databases.lake_types import can_widen
from rowtide.databases.postgres.types.codes import NUMBERS
from rowtide.databases.postgres.values import lake_type

_FLOATS = frozenset({700, 701})
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
    is_printed = old in NUMBERS - _FLOATS and new in _TEXTS
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
