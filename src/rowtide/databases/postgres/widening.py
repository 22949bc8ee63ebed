"""Changes of a column's type that leave every value what it is, or that every server makes alike. Pure."""

from __future__ import annotations

from rowtide.databases.lake_types import can_widen
from rowtide.databases.postgres.type_codes import NUMBERS
from rowtide.databases.postgres.values import lake_type

_FLOATS = frozenset({700, 701})
_TEXTS = frozenset({25, 1042, 1043})
_DATES = frozenset({1082, 1114})
_JSON = (114, 3802)


def is_wider_number(old: tuple[int, str], new: tuple[int, str]) -> bool:
    """Return whether the server's cast from one type of numbers to another keeps values; types by oid and name."""
    return {old[0], new[0]} <= NUMBERS and can_widen(lake_type(old[1]).name, lake_type(new[1]).name)


def is_cast_alike(old: int, new: int) -> bool:
    """Return whether the server's cast between two types, by their oids, depends on no setting of the session."""
    pair = {old, new}
    is_printed = old in NUMBERS - _FLOATS and new in _TEXTS
    return (
        old == new or any(pair <= family for family in (NUMBERS, _TEXTS, _DATES)) or is_printed or (old, new) == _JSON
    )
