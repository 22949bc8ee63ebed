"""PostgreSQL's values in SQLite: how each type is stored, what its columns are declared as, which would alter it.

A column's declaration makes SQLite convert what comes (its affinity): in one declared `numeric`, the text 1.10 becomes
the floating point number 1.1, and a number of thirty digits loses half of them. So numeric is a text here, in a column
declared `text`; the same holds for every type that is not listed. Source: https://www.sqlite.org/datatype3.html, 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from rowtide.databases.sqlite.keys import SqliteValue


class Affinity(Enum):
    """What a column makes of values, after its declaration; those of strict tables, which refuse others, apart."""

    INTEGER = "integer"
    TEXT = "text"
    NONE = "none"
    REAL = "real"
    NUMERIC = "numeric"
    STRICT_INTEGER = "strict integer"
    STRICT_REAL = "strict real"
    STRICT_TEXT = "strict text"
    STRICT_BLOB = "strict blob"


@dataclass(frozen=True, slots=True)
class StoredType:
    """How values of a published type are stored; `is_text` ones are compared letter by letter in keys.

    `declaration` is what a column for them is declared as. `keeping` are the columns that store them unaltered.
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
    """Return what a column makes of values, as SQLite derives it from what the column is declared as."""
    words = declared.lower()
    if is_strict:
        return _STRICT[words]
    if not words:
        return Affinity.NONE
    return next((found for parts, found in _PARTS if any(part in words for part in parts)), Affinity.NUMERIC)


def _real(text: bytes) -> SqliteValue:
    """Of NaN SQLite would make NULL: it stays a text, which no column converts."""
    number = float(text)
    return "NaN" if math.isnan(number) else number


def _boolean(text: bytes) -> SqliteValue:
    return int(text == b"t")


def _blob(text: bytes) -> SqliteValue:
    return bytes.fromhex(text[2:].decode())


def _text(text: bytes) -> SqliteValue:
    return text.decode()


_EXACT = frozenset({Affinity.NONE, Affinity.TEXT, Affinity.STRICT_TEXT})
"""What stores a text as it is."""
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
