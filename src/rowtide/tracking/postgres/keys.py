"""Keys of tracked PostgreSQL tables in tombstones' form: an array of the values' texts."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from rowtide.databases.postgres.quoting import quote_literal
from rowtide.databases.postgres.values import is_of_server, text_of
from rowtide.databases.source_table import SourceColumn
from rowtide.tracking.errors import InvalidTombstoneKey
from rowtide.tracking.postgres.subject import Subject
from rowtide.tracking.postgres.subjects import subject_of
from rowtide.tracking.postgres.system_tables import get_tracked


def pack_texts(connection: Connection, table: str, key: Sequence[object]) -> list[str]:
    """Return the texts of a key's values, in key order. Raises `NotTracked`, `InvalidTombstoneKey`."""
    subject = _checked(connection, table, key, str(tuple(key)))
    values = ", ".join(_text_of(column, place, key[place]) for place, column in enumerate(subject.key))
    parameters = {f"k{place}": value for place, value in enumerate(key) if _is_parameter(subject.key[place], value)}
    return [str(value) for value in _ask(connection, f"select {values}", parameters, table, str(tuple(key)))]


def pack_key(connection: Connection, table: str, key: Sequence[object]) -> str:
    """Return the packed form of a key, as in `__sysRK`. Raises `NotTracked`, `InvalidTombstoneKey`."""
    texts = pack_texts(connection, table, key)
    return str(connection.execute(text("select cast(cast(:texts as text[]) as text)"), {"texts": texts}).scalar_one())


def unpack_key(connection: Connection, table: str, packed: str) -> tuple[object, ...]:
    """Return the values of a packed key. Raises `NotTracked`, `InvalidTombstoneKey`."""
    (texts,) = _ask(connection, "select cast(:packed as text[])", {"packed": packed}, table, packed)
    assert isinstance(texts, list)
    subject = _checked(connection, table, texts, packed)
    values = ", ".join(
        f"cast({quote_literal(value)} as {column.value_type_text if is_of_server(column.value_type_text) else 'text'})"
        for value, column in zip(texts, subject.key, strict=True)
    )
    return tuple(_ask(connection, f"select {values}".replace(":", "\\:"), {}, table, packed))


def _checked(connection: Connection, table: str, values: Sequence[object], given: str) -> Subject:
    subject = subject_of(connection, get_tracked(connection, table))
    if len(values) != len(subject.key):
        reason = f"it has {len(values)} values, the key has {len(subject.key)}"
        raise InvalidTombstoneKey(table, given, reason)
    return subject


def _text_of(column: SourceColumn, place: int, value: object) -> str:
    """Return the SQL of a value's text. Only a literal is read by a user's type itself, and not cast to it."""
    type_text = column.value_type_text
    if _is_parameter(column, value):
        return text_of(f"cast(:k{place} as {type_text})", type_text)
    return text_of(f"cast({quote_literal(str(value))} as {type_text})".replace(":", "\\:"), type_text)


def _is_parameter(column: SourceColumn, value: object) -> bool:
    return value is None or is_of_server(column.value_type_text)


def _ask(
    connection: Connection, statement: str, parameters: dict[str, object], table: str, given: str
) -> Sequence[object]:
    try:
        with connection.begin_nested():
            return connection.execute(text(statement), parameters).one()
    except DBAPIError as error:
        raise InvalidTombstoneKey(table, given, str(error.orig).splitlines()[0]) from error
