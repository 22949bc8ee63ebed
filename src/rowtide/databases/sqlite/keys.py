"""SQLite's SQL as text: names, literals, and keys of any columns as one text.

A value is written as by `quote()`; a text as `t` and its bytes in hexadecimal, since `quote()` ends a text at its first
zero byte. No value's form contains a comma, the separator.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from rowtide.databases.types.value_type import SqliteValue

_INTEGER = re.compile(r"-?\d+")
_SEPARATOR = ","


def packing_expression(values: Sequence[str]) -> str:
    """Return the SQL expression that packs the values of SQL expressions."""
    return f" || '{_SEPARATOR}' || ".join(
        f"case typeof({value}) when 'text' then 't' || hex({value}) else quote({value}) end" for value in values
    )


def pack(connection: sqlite3.Connection, values: Sequence[SqliteValue], types: Sequence[str]) -> str:
    """Pack values as a trigger of this database does for columns of these types.

    For example, the text `7` becomes a number in an integer column: the values are stored in a temporary table and read
    back.
    """
    columns = ", ".join(f"k{place} {type_text}" for place, type_text in enumerate(types))
    packed = packing_expression([f"k{place}" for place in range(len(types))])
    connection.execute(f"create temp table rowtide_key ({columns})")
    try:
        connection.execute(f"insert into rowtide_key values ({', '.join('?' * len(types))})", tuple(values))
        return str(connection.execute(f"select {packed} from rowtide_key").fetchone()[0])
    finally:
        connection.execute("drop table rowtide_key")


def text_encoding(connection: sqlite3.Connection) -> str:
    """Return the database's text encoding: UTF-8, UTF-16le or UTF-16be."""
    return str(connection.execute("pragma encoding").fetchone()[0])


def unpack(packed: str, encoding: str) -> tuple[SqliteValue, ...]:
    """Return the values of a packed key from a database with texts in this encoding.

    Bytes that are not a text's are surrogates in it. Raises `ValueError` for what is no packed key.
    """
    return tuple(_unpack_value(value, encoding) for value in packed.split(_SEPARATOR))


def _unpack_value(value: str, encoding: str) -> SqliteValue:
    if value == "NULL":
        return None
    if value.startswith("t"):
        return bytes.fromhex(value[1:]).decode(encoding, "surrogateescape")
    if value.startswith("X'"):
        return bytes.fromhex(value[2:-1])
    return int(value) if _INTEGER.fullmatch(value) else float(value)


def quote(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(value: str) -> str:
    """Quote a string literal."""
    return "'" + value.replace("'", "''") + "'"


def unquote(word: str) -> str:
    """Return the identifier that a word of SQLite's SQL is, quoted in any of its ways or not."""
    closing = {'"': '"', "`": "`", "[": "]", "'": "'"}.get(word[:1])
    return word if closing is None else word[1:-1].replace(closing * 2, closing)
