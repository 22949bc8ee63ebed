"""Values that are not UTF-8, as a server with SQL_ASCII may have them: carried as marked hexadecimal digits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

MARKED_HEX = "\0x"
"""The prefix of the hex digits of a value that is not UTF-8. PostgreSQL's text has no NUL, so no value looks like
this.
"""


def is_utf8(values: pa.Array[Any]) -> bool:
    """Return whether all values, texts or bytes, are UTF-8; they are validated in one pass."""
    try:
        values.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def as_marked_texts(values: pa.Array[Any]) -> pa.Array[Any]:
    """Return bytes as texts, those that are not UTF-8 as marked hex, null as null."""
    return pa.array([_carry(value) for value in values.to_pylist()], pa.string())


def _carry(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return MARKED_HEX + value.hex()
