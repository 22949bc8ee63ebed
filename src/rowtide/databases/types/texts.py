"""Texts of any and of fixed length, and names. Pure."""

from __future__ import annotations

from rowtide.databases.types.literals import ExactType, Key, Literal, require_text
from rowtide.databases.types.value_type import DeviceColumn, TypeKind, TypeModifier, ValueType


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

TYPES = (
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
