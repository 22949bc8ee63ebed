"""Databases with encodings other than UTF-8, and values that are no UTF-8, carried as marked hexadecimal."""

from __future__ import annotations

from typing import Any

import psycopg
import pyarrow as pa

_NO_LIMIT = ("UTF8", "SQL_ASCII")
"""Encodings with every character; SQL_ASCII stores any bytes, without conversion."""


def server_encoding(session: psycopg.Connection) -> str:
    """Return the server's name of the database's encoding."""
    return session.info.parameter_status("server_encoding") or "UTF8"


def lacks_characters(session: psycopg.Connection) -> bool:
    """Return whether there are characters that the database's encoding does not have."""
    return server_encoding(session) not in _NO_LIMIT


def find_codec(session: psycopg.Connection) -> str | None:
    """Return Python's codec of the database's encoding; None if it has every character."""
    if not lacks_characters(session):
        return None
    encoding = server_encoding(session)
    ours = session.info.parameter_status("client_encoding")
    session.execute("select set_config('client_encoding', %s, false)", [encoding])
    codec = session.info.encoding
    session.execute("select set_config('client_encoding', %s, false)", [ours])
    return codec


def can_encode(codec: str | None, text: str) -> bool:
    """Return whether an encoding has all characters of a text."""
    try:
        text.encode(codec or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


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
