"""Bytes, UUIDs and strings of bits. Pure."""

from __future__ import annotations

import re

from rowtide.databases.lake_types import LakeType
from rowtide.databases.types.file_storage import NEVER_NUMBERS, Affinity, SqliteValue, StoredType
from rowtide.databases.types.literals import ExactType, Form, Key, Literal, LiteralUnfit
from rowtide.databases.types.texts import text_value
from rowtide.databases.types.value_type import DeviceColumn, Modifiers, TypeKind, TypeModifier, ValueType, always

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def uuid_literal(literal: Literal) -> Key:
    """Read a literal compared with a UUID, for which the server allows no surrounding blanks. Raises `LiteralUnfit`."""
    written = literal.text.lower()
    if literal.form is not Form.TEXT or re.fullmatch(_UUID, written) is None:
        raise LiteralUnfit("it is compared with texts of the form 8-4-4-4-12 hexadecimal digits only")
    return written.encode()


def _store(text: bytes) -> SqliteValue:
    return bytes.fromhex(text[2:].decode())


def _read(text: str, _modifiers: Modifiers) -> SqliteValue:
    """Return the bytes of a text in PostgreSQL's hexadecimal form; another text itself."""
    try:
        return bytes.fromhex(text[2:]) if text.startswith("\\x") else text
    except ValueError:
        return text


_DEVICE_BITS = DeviceColumn("bit, bit varying", "text", "TEXT of 0 and 1")

TYPES = (
    ValueType(
        name="bytea",
        kind=TypeKind.BYTES,
        oid=17,
        lake=always(LakeType("binary", "unhex(substring({text}, 3))", holds_all=True)),
        stored=StoredType(
            "blob",
            _store,
            frozenset(
                {
                    *(Affinity.NONE, Affinity.TEXT, Affinity.NUMERIC, Affinity.INTEGER, Affinity.REAL),
                    Affinity.STRICT_BLOB,
                }
            ),
        ),
        device=DeviceColumn("bytea", "blob", "BLOB"),
        read=_read,
        compared="filters by binary values are not supported",
    ),
    ValueType(
        name="uuid",
        kind=TypeKind.UUID,
        oid=2950,
        array_oid=2951,
        stored=NEVER_NUMBERS,
        device=DeviceColumn("uuid", "text", "TEXT, in lower case"),
        literal_words=("uuid",),
        # The server sorts by the bytes, which the digits that it prints do too.
        compared=ExactType(read_value=text_value, read_literal=uuid_literal),
    ),
    ValueType(
        name="bit",
        oid=1560,
        modifier=TypeModifier.BITS,
        is_padded=True,
        wider=("bit varying",),
        device=_DEVICE_BITS,
    ),
    ValueType(name="bit varying", oid=1562, modifier=TypeModifier.BITS, device=_DEVICE_BITS),
)
