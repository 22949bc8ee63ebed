"""Values that are held as their text: strings of characters, bytes and bits, names, UUIDs, addresses, and JSON.

Ranges of days too, values without a declared type, and every type that no family has. Pure.
"""

from __future__ import annotations

import re

from rowtide.databases.lake_types import LakeType
from rowtide.databases.types.value_type import (
    NEVER_NUMBERS,
    Affinity,
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
    TypeModifier,
    ValueType,
    always,
    require_text,
)


def text_value(value: bytes) -> Key:
    """Return the value itself."""
    return value


def text_literal(literal: Literal) -> Key:
    """Read a literal compared with a text. Raises `LiteralUnfit`."""
    require_text(literal, "it is compared with texts in quotes only")
    return literal.text.encode()


def padded_value(value: bytes) -> Key:
    """Read a `character(n)`: the server pads it with blanks, and ignores these in comparisons."""
    return value.rstrip(b" ")


def padded_literal(literal: Literal) -> Key:
    """Read a literal compared with a `character(n)`. Raises `LiteralUnfit`."""
    key = text_literal(literal)
    assert isinstance(key, bytes)
    return padded_value(key)


_BY_VALUE = ExactType(read_value=text_value, read_literal=text_literal, is_ordered=False, has_collation=True)
_WITHOUT_PADDING = ExactType(read_value=padded_value, read_literal=padded_literal, is_ordered=False, has_collation=True)
_DEVICE_TEXT = DeviceColumn(
    "text, character varying, name",
    "text",
    "TEXT",
    limit="sorted by bytes, as with collation C; a nondeterministic collation compares by bytes too",
    sorts_by_bytes=True,
)

TEXTS = (
    ValueType(
        name="text",
        kind=TypeKind.TEXT,
        oid=25,
        array_oid=1009,
        wider=("character varying",),
        device=_DEVICE_TEXT,
        compared=_BY_VALUE,
    ),
    ValueType(
        name="character varying",
        kind=TypeKind.TEXT,
        oid=1043,
        array_oid=1015,
        modifier=TypeModifier.LENGTH,
        wider=("text",),
        device=_DEVICE_TEXT,
        compared=_BY_VALUE,
    ),
    ValueType(name="name", device=_DEVICE_TEXT),
    ValueType(
        name="character",
        kind=TypeKind.PADDED_TEXT,
        oid=1042,
        array_oid=1014,
        modifier=TypeModifier.LENGTH,
        is_padded=True,
        casts_otherwise=True,
        wider=("character varying", "text"),
        device=DeviceColumn(
            "character",
            "text collate rtrim",
            "TEXT, with its padding",
            limit="sorted by bytes, as with collation C",
            sorts_by_bytes=True,
        ),
        compared=_WITHOUT_PADDING,
    ),
    # `character` without a length, as `format_type` writes it.
    ValueType(name="bpchar", casts_otherwise=True, compared=_WITHOUT_PADDING),
)


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

BYTES_AND_BITS = (
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

_DEVICE_MAC = DeviceColumn("macaddr, macaddr8", "text", "TEXT, `08:00:2b:01:02:03`")

ADDRESSES = (
    # A cast to text adds the network's length.
    ValueType(name="inet", oid=869, casts_otherwise=True),
    ValueType(name="cidr", oid=650),
    ValueType(name="macaddr", oid=829, device=_DEVICE_MAC),
    ValueType(name="macaddr8", device=_DEVICE_MAC),
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


TYPES = (*TEXTS, *BYTES_AND_BITS, *ADDRESSES, *DOCUMENTS, *UNDECLARED_AND_RANGES)
