"""Keys of tracked SQLite tables in tombstones' form."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import cast

from rowtide.databases.sqlite.keys import SqliteValue, pack, text_encoding, unpack
from rowtide.tracking.errors import InvalidTombstoneKey
from rowtide.tracking.sqlite.subject import Subject
from rowtide.tracking.sqlite.subjects import subject_of
from rowtide.tracking.sqlite.system_tables import get_tracked


def pack_key(connection: sqlite3.Connection, table: str, key: Sequence[object]) -> str:
    """Return the packed form of a key's values, in key order. Raises `NotTracked`, `InvalidTombstoneKey`."""
    subject = _check_count(connection, table, key, str(tuple(key)))
    try:
        return pack(connection, cast("Sequence[SqliteValue]", key), [column.type_text for column in subject.key])
    except (sqlite3.InterfaceError, sqlite3.ProgrammingError, OverflowError, UnicodeError) as error:
        raise InvalidTombstoneKey(table, str(tuple(key)), str(error)) from error


def unpack_key(connection: sqlite3.Connection, table: str, packed: str) -> tuple[object, ...]:
    """Return the values of a packed key. Raises `NotTracked`, `InvalidTombstoneKey`."""
    try:
        values = unpack(packed, text_encoding(connection))
    except ValueError as error:
        raise InvalidTombstoneKey(table, packed, "it is no packed key") from error
    _check_count(connection, table, values, packed)
    return values


def _check_count(connection: sqlite3.Connection, table: str, values: Sequence[object], given: str) -> Subject:
    subject = subject_of(connection, get_tracked(connection, table))
    if len(values) != len(subject.key):
        reason = f"it has {len(values)} values, the key has {len(subject.key)}"
        raise InvalidTombstoneKey(table, given, reason)
    return subject
