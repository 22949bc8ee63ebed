"""Databases with encodings other than UTF-8: Python's codec for each, and which characters it lacks."""

from __future__ import annotations

import psycopg

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


def holds(codec: str | None, text: str) -> bool:
    """Return whether an encoding has all characters of a text."""
    try:
        text.encode(codec or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
