"""PostgreSQL's values in SQLite: their storage classes, declarations and lake types, and their text form both ways."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from rowtide.databases.lake_types import MAX_DECIMAL_PRECISION, LakeType, tried
from rowtide.databases.sqlite.sql_text import quote_literal
from rowtide.databases.types.registry import find_element, find_type, kind_of
from rowtide.databases.types.strings import ANY
from rowtide.databases.types.value_type import AS_TEXT, NEVER_NUMBERS, Affinity, SqliteValue, StoredType, TypeKind


def stored_type(value_type_text: str) -> StoredType:
    """Return how values of a published column's type are stored."""
    element = find_element(value_type_text)
    if element is None:
        return find_type(value_type_text).value_type.stored
    return NEVER_NUMBERS if element.value_type.stored is NEVER_NUMBERS else AS_TEXT


def affinity(declared: str, *, is_strict: bool) -> Affinity:
    """Return a column's affinity, as SQLite derives it from the declared type."""
    words = declared.lower()
    if is_strict:
        return _STRICT[words]
    if not words:
        return Affinity.NONE
    return next((found for parts, found in _PARTS if any(part in words for part in parts)), Affinity.NUMERIC)


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
# Above this, a double does not have every integer.
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
    """Return the decimal for numbers of a precision; for a real, by its shortest text, if no digit is lost."""
    if not 0 < precision <= MAX_DECIMAL_PRECISION or scale > precision:
        return _DOUBLE
    name = f"decimal({precision},{scale})"
    value = f"try_cast({{text}} as {name})"
    return LakeType(name, f"if(cast({value} as double) = try_cast({{text}} as double), {value}, null)")


TEXT = "text"
"""A type whose values are texts; all such types are converted alike."""
OF_ANOTHER_CLASS = "\0"
"""First character of the text of a value that its column's type does not give back: SQLite's literal follows.

SQLite's types do not bind: a program may store a text in a `blob` column, or a blob in a `text` one.
"""
_MINUS_ZERO = "-0"
_WORDS = (
    # What programs declare columns as, by the parts of it that SQLite itself goes by, and booleans apart.
    (("bool",), "boolean"),
    (("int",), "bigint"),
    (("char", "clob", "text"), "text"),
    (("blob",), "bytea"),
    (("real", "floa", "doub"), "double precision"),
    (("numeric", "decimal"), "numeric"),
)


def type_of_declaration(declared: str) -> str:
    """Return the PostgreSQL type for the usual values of a column with this declaration, by default text.

    `ANY` without a declaration.
    """
    words = declared.lower()
    if words in ("", ANY):
        return ANY
    return next((found for parts, found in _WORDS if any(part in words for part in parts)), "text")


def to_text(value: SqliteValue, type_text: str) -> str | None:
    """Return a value as PostgreSQL would write it in a column of a type, as far as the type has the value.

    A value that `from_text` would not give back is its literal, after `OF_ANOTHER_CLASS`.
    """
    if type_text == ANY and value is not None:
        return literal_of(value)
    text = to_plain_text(value, type_text)
    if text is None or (isinstance(value, int) and not _is_bytes(type_text)):
        return text
    if _is_given_back(value, text, type_text):
        return text
    return f"{OF_ANOTHER_CLASS}{literal_of(value)}"


def to_plain_text(value: SqliteValue, type_text: str) -> str | None:
    """Return a value as PostgreSQL would write it, whether or not `from_text` gives it back."""
    match value:
        case None | str():
            return value
        case int():
            return _integer_printer(type_text)(value)
        case float():
            found, modifiers = find_type(type_text)
            return found.print_float(value, modifiers)
        case bytes():
            return "\\x" + value.hex()


@lru_cache(maxsize=1024)
def _integer_printer(type_text: str) -> Callable[[int], str]:
    found, modifiers = find_type(type_text)
    printer = found.print_integer
    return str if printer is None else lambda value: printer(value, modifiers)


@lru_cache(maxsize=1024)
def _is_bytes(type_text: str) -> bool:
    return kind_of(type_text) is TypeKind.BYTES


def from_text(text: str | None, type_text: str) -> SqliteValue:
    """Return the value that a file stores for a text of a type; a text invalid for the type is stored as text."""
    if text is not None and text[:1] == OF_ANOTHER_CLASS:
        return value_of_literal(text[1:])
    read = reader(type_text)
    return text if read is None or text is None else read(text)


def _is_given_back(value: SqliteValue, text: str, type_text: str) -> bool:
    """Whether `from_text` returns a value, with the help of the column's affinity for numbers."""
    match value:
        case bytes():
            return _is_bytes(type_text)
        case int():
            return False
        case float():
            has_infinity = math.isfinite(value) or kind_of(type_text) in (TypeKind.NUMERIC, TypeKind.FLOAT)
            return has_infinity and not _is_bytes(type_text)
        case str():
            return value == from_text(text, type_text) or (
                value == _MINUS_ZERO and kind_of(type_text) is TypeKind.FLOAT
            )
        case None:
            return True


def literal_of(value: SqliteValue) -> str | None:
    """Return a value as SQLite's literal."""
    match value:
        case None:
            return None
        case str():
            return quote_literal(value)
        case bytes():
            return f"X'{value.hex()}'"
        case float() if math.isinf(value):
            return "9e999" if value > 0 else "-9e999"
        case int() | float():
            return repr(value)


def value_of_literal(text: str) -> SqliteValue:
    """Return the value of a literal; a text that is none is itself."""
    try:
        if text.startswith("'"):
            return text[1:-1].replace("''", "'")
        if text.startswith("X'"):
            return bytes.fromhex(text[2:-1])
        return float(text) if any(mark in text for mark in ".en") else int(text)
    except ValueError:
        return text


def is_numeric(type_text: str) -> bool:
    """Whether a type is PostgreSQL's `numeric`."""
    return kind_of(type_text) is TypeKind.NUMERIC


@lru_cache(maxsize=1024)
def reader(type_text: str) -> Callable[[str], SqliteValue] | None:
    """Return the function that converts a type's texts to stored values, None for texts; see `from_text`.

    Texts of another class are not among them.
    """
    if type_text == ANY:
        return value_of_literal
    found, modifiers = find_type(type_text)
    read_typed = found.read
    if read_typed is not None:
        return lambda text: read_typed(text, modifiers)
    stored = stored_type(type_text)

    def read(text: str) -> SqliteValue:
        try:
            return stored.convert(text.encode())
        except ValueError:
            return text

    return None if stored.is_text else read
