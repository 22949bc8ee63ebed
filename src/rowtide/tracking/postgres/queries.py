"""Queries for a PostgreSQL table's changes in a window, each with the interpretation of its rows.

Keys of tracked PostgreSQL tables in tombstones' form: an array of the values' texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from rowtide.core.values import frozen
from rowtide.databases.postgres.clock import AnchorSnapshot, unseen
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.databases.postgres.values import is_of_server, text_of, value_of
from rowtide.databases.source_table import SourceColumn
from rowtide.tracking.changes import Change, NetOperation
from rowtide.tracking.errors import InvalidTombstoneKey
from rowtide.tracking.postgres.stamps import stamps_of
from rowtide.tracking.postgres.system_tables import TOMBSTONES, TRUNCATIONS, get_tracked
from rowtide.tracking.postgres.tracked_tables import CHANGE_BSN, CONTEXT, INSERT_BSN, PostgresSubject, subject_of

Row = Sequence[object]


@frozen
class PostgresAnchorWindow:
    """Changes that `since` does not see, and that do not carry `context`."""

    since: AnchorSnapshot
    context: UUID | None


@frozen
class PostgresChangeQuery:
    """A query for some of a table's changes, and the function that makes a change from a row."""

    sql: str
    as_change: Callable[[Row], Change]


def all_rows(subject: PostgresSubject) -> PostgresChangeQuery:
    """Return the query for a full copy."""
    columns = _columns(subject)
    return PostgresChangeQuery(
        f"select '{NetOperation.INSERT}', {_listed(columns)} from {subject.rows} t",
        _written_change(subject.name, columns),
    )


def written(subject: PostgresSubject, window: PostgresAnchorWindow) -> PostgresChangeQuery:
    """Return the query for rows that were inserted or updated and still exist.

    A row inserted in the window is an insert, unless the key existed before: then it is an update.
    """
    columns = _columns(subject)
    is_new = (
        f"coalesce({unseen(f't.{quote(INSERT_BSN)}', window.since)}, false) "
        f"and {subject.packed_key('t')} not in (select packed from gone where was_there)"
    )
    sql = (
        f"{_gone(subject, window)} "
        f"select case when {is_new} then '{NetOperation.INSERT}' else '{NetOperation.UPDATE}' end, "
        f"{_listed(columns)} from {stamps_of(subject).source} t "
        f"where {unseen(f't.{quote(CHANGE_BSN)}', window.since)} and {_of_others(f't.{quote(CONTEXT)}', window)}"
    )
    return PostgresChangeQuery(sql, _written_change(subject.name, columns))


def deleted(subject: PostgresSubject, window: PostgresAnchorWindow) -> PostgresChangeQuery:
    """Return the query for rows that were deleted and not inserted again; only their key is left.

    Rows inserted and deleted within the window are omitted, because no reader has them. But if changes are excluded by
    context, the reader itself may have inserted them.
    """
    columns = tuple(column.name for column in subject.key)
    values = ", ".join(_from_text(f"packed[{index}]", column) for index, column in enumerate(subject.key, 1))
    is_known = "was_there" if window.context is None else "is_of_others"
    sql = (
        f"{_gone(subject, window)} select {values} from gone where {is_known} "
        f"and not exists (select from {subject.rows} t where {subject.key_condition('t', 'gone.packed')})"
    )

    def as_change(row: Row) -> Change:
        return Change(subject.name, NetOperation.DELETE, columns, tuple(row))

    return PostgresChangeQuery(sql, as_change)


def touched(subject: PostgresSubject, packed_key: Sequence[str], since: AnchorSnapshot, own_bsn: int | None) -> str:
    """Return the query whether the row with a key, given as texts, was written or deleted in the window.

    Changes of the transaction with BSN `own_bsn` do not count.
    """
    own = "null" if own_bsn is None else str(own_bsn)
    changed, gone = (f"{row}.{quote(name)}" for row, name in (("t", CHANGE_BSN), ("d", "__sysDeleteTxBsn")))
    packed = f"(array[{', '.join(map(quote_literal, packed_key))}]::text[])"
    return (
        f"select exists (select from {stamps_of(subject).source} t where {subject.key_condition('t', packed)} "
        f"and {unseen(changed, since)} and {changed} is distinct from {own}) "
        f'or exists (select from {TOMBSTONES} d where d."__sysTN" = {subject.literal} and d."__sysRK" = {packed} '
        f"and {unseen(gone, since)} and {gone} is distinct from {own})"
    )


def stamps_since(subject: PostgresSubject, since: AnchorSnapshot) -> str:
    """Return the query for the BSNs in a table's stamps that an anchor does not see."""
    stamp = quote(CHANGE_BSN)
    return f"select distinct {stamp} from {quote_qualified(*stamps_of(subject).holder)} where {unseen(stamp, since)}"


def tombstones_since(since: AnchorSnapshot) -> str:
    """Return the query for the BSNs of deletes, in all tables, that an anchor does not see."""
    gone, cut = '"__sysDeleteTxBsn"', '"__sysTruncateTxBsn"'
    return (
        f"select {gone} from {TOMBSTONES} where {unseen(gone, since)} "
        f"union select {cut} from {TRUNCATIONS} where {unseen(cut, since)}"
    )


def was_truncated(subject_name: str, since: AnchorSnapshot) -> str:
    """Return the query whether a truncate removed more rows of a table than it has tombstones for."""
    cut = '"__sysTruncateTxBsn"'
    return (
        f'select exists (select from {TRUNCATIONS} where "__sysTN" = {quote_literal(subject_name)} '
        f"and {unseen(cut, since)})"
    )


def _gone(subject: PostgresSubject, window: PostgresAnchorWindow) -> str:
    """Return the keys of deleted rows, whether they existed at `since`, and whether others deleted them."""
    inserted, gone = (f"d.{quote(name)}" for name in ("__sysInsertTxBsn", "__sysDeleteTxBsn"))
    # A tombstone without an insert stamp is of a row from before the tracking: every reader has it. A key may have
    # several tombstones (deleted, inserted and deleted again): one that was there suffices.
    was_there = f"not coalesce({unseen(inserted, window.since)}, false)"
    return (
        f'with gone as materialized (select d."__sysRK" as packed, bool_or({was_there}) as was_there, '
        f"bool_or({_of_others(f'd.{quote(CONTEXT)}', window)}) as is_of_others "
        f'from {TOMBSTONES} d where d."__sysTN" = {subject.literal} '
        f'and {unseen(gone, window.since)} group by d."__sysRK")'
    )


def _of_others(context: str, window: PostgresAnchorWindow) -> str:
    return "true" if window.context is None else f"{context} is distinct from '{window.context}'::uuid"


def _from_text(text: str, column: SourceColumn) -> str:
    """Return a column's value of a text; of a type of a user's the text, as which the client gets it in any case."""
    return value_of(text, column.value_type_text) if is_of_server(column.value_type_text) else text


def _written_change(table: str, columns: tuple[str, ...]) -> Callable[[Row], Change]:
    def as_change(row: Row) -> Change:
        return Change(table, NetOperation(str(row[0])), columns, tuple(row[1:]))

    return as_change


def _columns(subject: PostgresSubject) -> tuple[str, ...]:
    return tuple(column.name for column in subject.user_columns)


def _listed(columns: tuple[str, ...]) -> str:
    return ", ".join(f"t.{quote(name)}" for name in columns)


def pack_texts(connection: Connection, table: str, key: Sequence[object]) -> list[str]:
    """Return the texts of a key's values, in key order. Raises `NotTracked`, `InvalidTombstoneKey`."""
    subject = _checked(connection, table, key, str(tuple(key)))
    values = ", ".join(_text_of(column, index, key[index]) for index, column in enumerate(subject.key))
    parameters = {f"k{index}": value for index, value in enumerate(key) if _is_parameter(subject.key[index], value)}
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
        # Literals, because a user's type is not cast to; a colon in one would be a parameter to SQLAlchemy, and is
        # escaped.
        f"cast({quote_literal(value)} as {column.value_type_text if is_of_server(column.value_type_text) else 'text'})"
        for value, column in zip(texts, subject.key, strict=True)
    )
    return tuple(_ask(connection, f"select {values}".replace(":", "\\:"), {}, table, packed))


def _checked(connection: Connection, table: str, values: Sequence[object], given: str) -> PostgresSubject:
    subject = subject_of(connection, get_tracked(connection, table))
    if len(values) != len(subject.key):
        reason = f"it has {len(values)} values, the key has {len(subject.key)}"
        raise InvalidTombstoneKey(table, given, reason)
    return subject


def _text_of(column: SourceColumn, index: int, value: object) -> str:
    """Return the SQL of a value's text. Only a literal is read by a user's type itself, and not cast to it."""
    type_text = column.value_type_text
    if _is_parameter(column, value):
        return text_of(f"cast(:k{index} as {type_text})", type_text)
    return text_of(f"cast({quote_literal(str(value))} as {type_text})".replace(":", "\\:"), type_text)


def _is_parameter(column: SourceColumn, value: object) -> bool:
    return value is None or is_of_server(column.value_type_text)


def _ask(
    connection: Connection, statement: str, parameters: dict[str, object], table: str, given: str
) -> Sequence[object]:
    try:
        # A savepoint: a text that the key's type refuses must not abort the caller's transaction.
        with connection.begin_nested():
            return connection.execute(text(statement), parameters).one()
    except DBAPIError as error:
        raise InvalidTombstoneKey(table, given, str(error.orig).splitlines()[0]) from error
