"""PostgreSQL's values in SQLite: how each type is stored and declared, and which declarations would change values.

A column's declaration makes SQLite convert values (its affinity): in a column declared `numeric`, the text 1.10 becomes
the floating point number 1.1, and a number of thirty digits loses half of them. So numeric is stored as text, in a
column declared `text`; the same holds for every type that is not listed. Source: https://www.sqlite.org/datatype3.html,
3.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum

from rowtide.core.values import frozen
from rowtide.databases.sqlite.keys import SqliteValue


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


def stored_type(value_type_text: str) -> StoredType:
    """Return how values of a published column's type are stored."""
    known = _BY_NAME.get(value_type_text)
    if known is not None:
        return known
    return _NEVER_NUMBERS if value_type_text.startswith(_NEVER_NUMBERS_WORDS) else _TEXT


def affinity(declared: str, *, is_strict: bool) -> Affinity:
    """Return a column's affinity, as SQLite derives it from the declared type."""
    words = declared.lower()
    if is_strict:
        return _STRICT[words]
    if not words:
        return Affinity.NONE
    return next((found for parts, found in _PARTS if any(part in words for part in parts)), Affinity.NUMERIC)


def _real(text: bytes) -> SqliteValue:
    """Store NaN, which SQLite would make NULL, as text, which no affinity converts."""
    number = float(text)
    return "NaN" if math.isnan(number) else number


def _boolean(text: bytes) -> SqliteValue:
    return int(text == b"t")


def _blob(text: bytes) -> SqliteValue:
    return bytes.fromhex(text[2:].decode())


def _text(text: bytes) -> SqliteValue:
    return text.decode()


_EXACT = frozenset({Affinity.NONE, Affinity.TEXT, Affinity.STRICT_TEXT})
"""Affinities that store a text unchanged."""
_NUMBERS = frozenset({Affinity.INTEGER, Affinity.NUMERIC, Affinity.STRICT_INTEGER})

# An integer is not lost in a text, but a floating point number is cut to fifteen digits there; an integer of more than
# 53 bits is cut in a floating point number.
_INTEGER = StoredType("integer", int, _NUMBERS | _EXACT)
_REAL = StoredType(
    "real", _real, frozenset({Affinity.REAL, Affinity.NUMERIC, Affinity.INTEGER, Affinity.NONE, Affinity.STRICT_REAL})
)
_BOOLEAN = StoredType("boolean", _boolean, _NUMBERS | _EXACT)
_BLOB = StoredType(
    "blob",
    _blob,
    frozenset({Affinity.NONE, Affinity.TEXT, Affinity.NUMERIC, Affinity.INTEGER, Affinity.REAL, Affinity.STRICT_BLOB}),
)
_TEXT = StoredType("text", _text, _EXACT, is_text=True)
# Their texts are never a number's, so that columns declared `timestamp` or `uuid`, as programs do, leave them alone.
_NEVER_NUMBERS = StoredType("text", _text, _EXACT | {Affinity.NUMERIC, Affinity.INTEGER, Affinity.REAL}, is_text=True)
_NEVER_NUMBERS_WORDS = ("date", "timestamp", "time ", "time(", "interval", "uuid")

_BY_NAME: Mapping[str, StoredType] = {
    "smallint": _INTEGER,
    "integer": _INTEGER,
    "bigint": _INTEGER,
    "real": _REAL,
    "double precision": _REAL,
    "boolean": _BOOLEAN,
    "bytea": _BLOB,
}
_STRICT: Mapping[str, Affinity] = {
    "int": Affinity.STRICT_INTEGER,
    "integer": Affinity.STRICT_INTEGER,
    "real": Affinity.STRICT_REAL,
    "text": Affinity.STRICT_TEXT,
    "blob": Affinity.STRICT_BLOB,
    "any": Affinity.NONE,
}
_PARTS = (
    (("int",), Affinity.INTEGER),
    (("char", "clob", "text"), Affinity.TEXT),
    (("blob",), Affinity.NONE),
    (("real", "floa", "doub"), Affinity.REAL),
)
