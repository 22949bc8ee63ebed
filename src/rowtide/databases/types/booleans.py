"""Booleans. Pure."""

from __future__ import annotations

from rowtide.databases.lake_types import LakeType
from rowtide.databases.types.file_storage import KEEPING_INTEGERS, SqliteValue, StoredType
from rowtide.databases.types.literals import ExactType, Form, Key, Literal, LiteralUnfit, trim
from rowtide.databases.types.value_type import DeviceColumn, Modifiers, TypeKind, ValueType, always

_PRINTED = {0: "f", 1: "t"}
_READ = {text: number for number, text in _PRINTED.items()}
_WRITTEN = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}


def boolean_value(value: bytes) -> Key:
    """Read a boolean as the server prints it."""
    return value == b"t"


def boolean_literal(literal: Literal) -> Key:
    """Read a literal compared with a boolean. Raises `LiteralUnfit`."""
    truth = None if literal.form is Form.NUMBER else _WRITTEN.get(trim(literal).lower())
    if truth is None:
        raise LiteralUnfit("it is compared with true and false only")
    return truth


def _store(text: bytes) -> SqliteValue:
    return int(text == b"t")


def _read(text: str, _modifiers: Modifiers) -> SqliteValue:
    return _READ.get(text, text)


def _print_integer(value: int, _modifiers: Modifiers) -> str:
    return _PRINTED.get(value, str(value))


TYPES = (
    ValueType(
        name="boolean",
        kind=TypeKind.BOOLEAN,
        oid=16,
        array_oid=1000,
        casts_otherwise=True,
        lake=always(LakeType("boolean", "{text} = 't'", holds_all=True)),
        stored=StoredType("boolean", _store, KEEPING_INTEGERS),
        device=DeviceColumn("boolean", "boolean", "INTEGER, 0 or 1"),
        read=_read,
        print_integer=_print_integer,
        literal_words=("bool", "boolean"),
        compared=ExactType(read_value=boolean_value, read_literal=boolean_literal),
    ),
)
