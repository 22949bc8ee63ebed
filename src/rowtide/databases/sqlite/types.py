"""PostgreSQL's values in SQLite: how each type is stored and declared, as text, and in which lake types.

A column's declaration makes SQLite convert values (its affinity): in a column declared `numeric`, the text 1.10 becomes
the floating point number 1.1, and a number of thirty digits loses half of them. So numeric is stored as text, in a
column declared `text`; the same holds for every type that is not listed. Source: https://www.sqlite.org/datatype3.html,
3.1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from enum import Enum

from rowtide.core.values import frozen
from rowtide.databases.lake_types import MAX_DECIMAL_PRECISION, LakeType, tried
from rowtide.databases.sqlite.keys import SqliteValue, quote_literal


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


# SQLite's text form of values, and the lake types that store them. SQLite accepts any value in any column; a
# declaration is only a preference. So a value's text states its kind: it is a literal in SQLite's SQL. A lake type
# stores the values of its kind, exactly or not at all.

_INFINITY = "9e999"
"""A number beyond the range: SQLite has no literal for infinity."""
_EXACT_IN_DOUBLE = 2**53

_DECIMAL = re.compile(r"(?:decimal|numeric|number|dec)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_LENGTH = re.compile(r"\s*\(.*\)")


def decode_text(data: bytes) -> str:
    """Return a text from SQLite, which does not validate UTF-8; invalid bytes remain distinguishable."""
    return data.decode("utf-8", "surrogateescape")


def text_of(value: SqliteValue) -> str | None:
    """Return a value as a literal that SQLite reads as the same value; None for NULL."""
    match value:
        case None:
            return None
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            return _text_literal(value)
        case float() if math.isinf(value):
            return _INFINITY if value > 0 else f"-{_INFINITY}"
        case _:
            return repr(value)


def _text_literal(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"cast(X'{text.encode('utf-8', 'surrogateescape').hex()}' as text)"
    return quote_literal(text)


_QUOTE = "chr(39)"
_QUOTED = "substring({text}, 2, length({text}) - 2)"
_DAY = "[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}"
_TIME = "[0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]{{1,6}})?)?"


def _of_text(name: str, form: str) -> LakeType:
    """Return the lake type that stores texts of one form, a regular expression.

    Other forms might be read as the same value.
    """
    return LakeType(name, f"if({{text}} rlike '^.{form}.$', try_cast({_QUOTED} as {name}), null)")


_BIGINT = tried("bigint")
_STRING = LakeType(
    "string",
    f"if(startswith({{text}}, {_QUOTE}), replace({_QUOTED}, {_QUOTE} || {_QUOTE}, {_QUOTE}), null)",
)
_BINARY = LakeType("binary", "if(startswith({text}, 'X'), unhex(substring({text}, 3, length({text}) - 3)), null)")
_DOUBLE = LakeType(
    "double",
    f"if(coalesce(try_cast({{text}} as bigint) between -{_EXACT_IN_DOUBLE} and {_EXACT_IN_DOUBLE}, true), "
    "try_cast({text} as double), null)",
)
_TIMESTAMP = _of_text("timestamp_ntz", f"{_DAY}[ T]{_TIME}")
_LAKE_BOOLEAN = LakeType("boolean", "case {text} when '0' then false when '1' then true end")

_LAKE_TYPES = {
    "bool": _LAKE_BOOLEAN,
    "boolean": _LAKE_BOOLEAN,
    "date": _of_text("date", _DAY),
    "datetime": _TIMESTAMP,
    "timestamp": _TIMESTAMP,
    "timestamp without time zone": _TIMESTAMP,
    "dec": _DOUBLE,
    "decimal": _DOUBLE,
    "num": _DOUBLE,
    "number": _DOUBLE,
    "numeric": _DOUBLE,
}
_BY_AFFINITY = (
    (("int",), _BIGINT),
    (("char", "clob", "text"), _STRING),
    (("blob",), _BINARY),
    (("real", "floa", "doub"), _DOUBLE),
)
"""Substrings of declarations, in SQLite's order of precedence, and what such columns prefer."""


def lake_type(type_text: str) -> LakeType:
    """Return the lake type for a declared column, by common type names, else by its affinity.

    Without a declaration, or with one that gives no affinity, the type is text's.
    """
    declared = type_text.strip().lower()
    decimal = _DECIMAL.fullmatch(declared)
    if decimal is not None:
        return _decimal(int(decimal[1]), int(decimal[2] or 0))
    by_name = _LAKE_TYPES.get(_LENGTH.sub("", declared))
    if by_name is not None:
        return by_name
    by_affinity = (held for words, held in _BY_AFFINITY if any(word in declared for word in words))
    return next(by_affinity, _STRING)


def _decimal(precision: int, scale: int) -> LakeType:
    """Return the decimal for numbers of so many digits; for a real, by its shortest text, if no digit is lost."""
    if not 0 < precision <= MAX_DECIMAL_PRECISION or scale > precision:
        return _DOUBLE
    name = f"decimal({precision},{scale})"
    value = f"try_cast({{text}} as {name})"
    return LakeType(name, f"if(cast({value} as double) = try_cast({{text}} as double), {value}, null)")
