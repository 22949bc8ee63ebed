"""Booleans, JSON, network addresses, ranges of days, values without a type, and every type that no family has. Pure."""

from __future__ import annotations

from rowtide.databases.lake_types import LakeType
from rowtide.databases.types.value_type import (
    KEEPING_INTEGERS,
    NEVER_NUMBERS,
    DeviceColumn,
    ExactType,
    Form,
    Key,
    Literal,
    LiteralUnfit,
    Modifiers,
    SqliteValue,
    StoredType,
    TypeKind,
    ValueType,
    always,
    trim,
)

_BOOLEAN_TEXTS = {0: "f", 1: "t"}
_NUMBERS_OF_BOOLEANS = {text: number for number, text in _BOOLEAN_TEXTS.items()}
_BOOLEAN_LITERALS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}


def boolean_value(value: bytes) -> Key:
    """Read a boolean as the server prints it."""
    return value == b"t"


def boolean_literal(literal: Literal) -> Key:
    """Read a literal compared with a boolean. Raises `LiteralUnfit`."""
    truth = None if literal.form is Form.NUMBER else _BOOLEAN_LITERALS.get(trim(literal).lower())
    if truth is None:
        raise LiteralUnfit("it is compared with true and false only")
    return truth


def _store_boolean(text: bytes) -> SqliteValue:
    return int(text == b"t")


def _read_boolean(text: str, _modifiers: Modifiers) -> SqliteValue:
    return _NUMBERS_OF_BOOLEANS.get(text, text)


def _print_boolean(value: int, _modifiers: Modifiers) -> str:
    return _BOOLEAN_TEXTS.get(value, str(value))


BOOLEANS = (
    ValueType(
        name="boolean",
        kind=TypeKind.BOOLEAN,
        oid=16,
        array_oid=1000,
        casts_otherwise=True,
        lake=always(LakeType("boolean", "{text} = 't'", holds_all=True)),
        stored=StoredType("boolean", _store_boolean, KEEPING_INTEGERS),
        device=DeviceColumn("boolean", "boolean", "INTEGER, 0 or 1"),
        read=_read_boolean,
        print_integer=_print_boolean,
        literal_words=("bool", "boolean"),
        compared=ExactType(read_value=boolean_value, read_literal=boolean_literal),
    ),
)


_DEVICE_JSON = DeviceColumn(
    "json, jsonb",
    "text",
    "TEXT, as the server prints it; SQLite's JSON functions read it",
    is_ordered=False,
    is_compared=False,
    limit="compared as texts: in `jsonb`, 1 and 1.0 are equal at the server alone",
)

DOCUMENTS = (
    ValueType(name="json", oid=114, device=_DEVICE_JSON, compared="documents are not compared"),
    ValueType(
        name="jsonb", oid=3802, array_oid=3807, device=_DEVICE_JSON, compared="documents are not compared by their text"
    ),
)


_DEVICE_MAC = DeviceColumn("macaddr, macaddr8", "text", "TEXT, `08:00:2b:01:02:03`")

ADDRESSES = (
    # A cast to text adds the network's length.
    ValueType(name="inet", oid=869, casts_otherwise=True),
    ValueType(name="cidr", oid=650),
    ValueType(name="macaddr", oid=829, device=_DEVICE_MAC),
    ValueType(name="macaddr8", device=_DEVICE_MAC),
)

ANY = "any"
"""The type of a SQLite column without a declared type: its values' texts are SQLite's own literals.

They say which class a value is stored as: `5`, `5.0`, `'5'`, `X'35'`.
"""

UNDECLARED_AND_RANGES = (
    ValueType(
        name=ANY,
        device=DeviceColumn(
            "no type (a SQLite hub's)",
            "",
            "each value in its own class; a PostgreSQL subscriber has `text`",
            limit="a value that the PostgreSQL subscriber changes becomes TEXT",
        ),
    ),
    ValueType(name="daterange", stored=NEVER_NUMBERS),
    ValueType(name="datemultirange", stored=NEVER_NUMBERS),
)

OTHER = ValueType(name="")
"""Any other type, the server's or a user's."""

TYPES = (*BOOLEANS, *ADDRESSES, *DOCUMENTS, *UNDECLARED_AND_RANGES)
