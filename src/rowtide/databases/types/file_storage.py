"""How SQLite files store values of a type, and which declarations of columns keep them. Pure.

A column's declaration makes SQLite convert values (its affinity): in a column declared `numeric`, the text 1.10 becomes
the floating point number 1.1, and a number of thirty digits loses half of them. So numeric is stored as text, in a
column declared `text`; the same holds for every type that does not say otherwise. Source:
https://www.sqlite.org/datatype3.html, 3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from rowtide.core.values import frozen

SqliteValue = int | float | str | bytes | None


class Affinity(Enum):
    """A column's conversion of values, by its declaration.

    Strict tables' types, which refuse other values, are separate.
    """

    INTEGER = "integer"
    TEXT = "text"
    NONE = "none"
    REAL = "real"
    NUMERIC = "numeric"
    STRICT_INTEGER = "strict integer"
    STRICT_REAL = "strict real"
    STRICT_TEXT = "strict text"
    STRICT_BLOB = "strict blob"


@frozen
class StoredType:
    """How values of a published type are stored; `is_text` ones are compared byte by byte in keys.

    `declaration` is the declared type of a column created for them; `keeping` are the affinities that store them
    unchanged.
    """

    declaration: str
    convert: Callable[[bytes], SqliteValue]
    keeping: frozenset[Affinity]
    is_text: bool = False


KEEPING_TEXTS = frozenset({Affinity.NONE, Affinity.TEXT, Affinity.STRICT_TEXT})
"""Affinities that store a text unchanged."""
# An integer is not lost in a text, but a floating point number is cut to fifteen digits there; an integer of more than
# 53 bits is cut in a floating point number.
KEEPING_INTEGERS = frozenset({Affinity.INTEGER, Affinity.NUMERIC, Affinity.STRICT_INTEGER}) | KEEPING_TEXTS


def _text(text: bytes) -> SqliteValue:
    return text.decode()


AS_TEXT = StoredType("text", _text, KEEPING_TEXTS, is_text=True)
NEVER_NUMBERS = StoredType(
    "text", _text, KEEPING_TEXTS | {Affinity.NUMERIC, Affinity.INTEGER, Affinity.REAL}, is_text=True
)
"""Of texts that are never a number's: columns declared `timestamp` or `uuid`, as programs do, leave them alone."""
