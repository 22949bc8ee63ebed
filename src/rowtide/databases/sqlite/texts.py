"""Convert SQLite values to PostgreSQL's text form, in which values travel between databases, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from rowtide.databases.sqlite.keys import quote_literal
from rowtide.databases.sqlite.values import stored_type
from rowtide.databases.types.file_storage import SqliteValue
from rowtide.databases.types.others import ANY
from rowtide.databases.types.registry import find_type, kind_of
from rowtide.databases.types.value_type import TypeKind

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
