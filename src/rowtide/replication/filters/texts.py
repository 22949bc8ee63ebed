"""Texts, booleans and UUIDs in row filters. Pure.

Under a deterministic collation, texts are equal if their bytes are; `character(n)` ignores trailing blanks on both
sides. Their order depends on the collation, and is not supported.
"""

from __future__ import annotations

import re

from rowtide.replication.filters.literals import Form, Key, Literal, LiteralUnfit, trim

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TRUTHS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}


def text_value(value: bytes) -> Key:
    """Return the value itself."""
    return value


def text_literal(literal: Literal) -> Key:
    """Read a literal compared with a text. Raises `LiteralUnfit`."""
    if literal.form is not Form.TEXT:
        raise LiteralUnfit("it is compared with texts in quotes only")
    return literal.text.encode()


def padded_value(value: bytes) -> Key:
    """Read a `character(n)`: the server pads it with blanks, and ignores these in comparisons."""
    return value.rstrip(b" ")


def padded_literal(literal: Literal) -> Key:
    """Read a literal compared with a `character(n)`. Raises `LiteralUnfit`."""
    key = text_literal(literal)
    assert isinstance(key, bytes)
    return padded_value(key)


def boolean_value(value: bytes) -> Key:
    """Read a boolean as the server prints it."""
    return value == b"t"


def boolean_literal(literal: Literal) -> Key:
    """Read a literal compared with a boolean. Raises `LiteralUnfit`."""
    truth = None if literal.form is Form.NUMBER else _TRUTHS.get(trim(literal).lower())
    if truth is None:
        raise LiteralUnfit("it is compared with true and false only")
    return truth


def uuid_literal(literal: Literal) -> Key:
    """Read a literal compared with a UUID, for which the server allows no surrounding blanks. Raises `LiteralUnfit`."""
    written = literal.text.lower()
    if literal.form is not Form.TEXT or _UUID.fullmatch(written) is None:
        raise LiteralUnfit("it is compared with texts of the form 8-4-4-4-12 hexadecimal digits only")
    return written.encode()
