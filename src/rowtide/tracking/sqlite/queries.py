"""Queries for a SQLite table's changes in a window, each with the interpretation of its rows.

Keys of tracked SQLite tables in tombstones' form.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from rowtide.core.values import frozen
from rowtide.databases.sqlite.sql_text import pack, quote, text_encoding, unpack
from rowtide.databases.types.value_type import SqliteValue
from rowtide.tracking.changes import Change, NetOperation
from rowtide.tracking.errors import InvalidTombstoneKey
from rowtide.tracking.sqlite.stamps import SqliteStamps
from rowtide.tracking.sqlite.system_tables import TOMBSTONES, get_tracked
from rowtide.tracking.sqlite.tracked_tables import CHANGE_BSN, CONTEXT, INSERT_BSN, SqliteSubject, subject_of

KEY_FUNCTION = "rowtide_key"
"""SQL function of a packed key and a position: the value at that position. It exists in the reading connection only."""

GONE = "__sysGone"
"""No tracked table's name: a name that a query gives to rows hides the table of that name."""

_GONE = f"""
with {GONE} as materialized (
    select __sysRK as packed, max({CONTEXT} is not :context) as is_of_others,
        max(coalesce(__sysInsertTxBsn, 0) <= :since) as was_there
    from {TOMBSTONES} where __sysId >= :first_tombstone and __sysTN = :table group by __sysRK)
"""
"""Keys of rows that were deleted or possibly displaced, and whether by writers other than `:context`.

A reader at `:since` has those that had been inserted by then.
"""

_WRITTEN = "__sysWritten"
_GONE_WITH_NULL = f"select packed from {GONE} where instr(packed, 'NULL')"
"""Of packed values only a null has these letters."""

Row = tuple[object, ...]


@frozen
class SqliteAnchorWindow:
    """Parameters of the queries: changes stamped above `since`, and not with `context`."""

    table: str
    since: int
    first_tombstone: int
    context: str | None

    def as_parameters(self) -> Mapping[str, object]:
        """Return them as a dictionary."""
        return {
            "table": self.table,
            "since": self.since,
            "first_tombstone": self.first_tombstone,
            "context": self.context,
        }


@frozen
class SqliteChangeQuery:
    """A query for some of a table's changes, and the function that makes a change from a row."""

    sql: str
    parameters: Mapping[str, object]
    as_change: Callable[[Row], Change]


def all_rows(subject: SqliteSubject) -> SqliteChangeQuery:
    """Return the query for a full copy."""
    columns = _columns(subject)
    sql = f"select '{NetOperation.INSERT}', {_listed(columns)} from {subject.quoted}"
    return SqliteChangeQuery(sql, {}, _written_change(subject.name, columns))


def written(subject: SqliteSubject, stamps: SqliteStamps, window: SqliteAnchorWindow) -> SqliteChangeQuery:
    """Return the query for rows that were inserted or updated and still exist.

    A row inserted in the window is an insert, unless the key existed before: then it is an update.
    """
    columns = _columns(subject)
    is_new = (
        f"coalesce({INSERT_BSN}, 0) > :since "
        f"and {subject.packed_key('t')} not in (select packed from {GONE} where was_there)"
    )
    sql = (
        f"{_GONE} select case when {is_new} then '{NetOperation.INSERT}' else '{NetOperation.UPDATE}' end, "
        f"{_listed(columns)} from {stamps.source} t "
        f"where {CHANGE_BSN} > :since and (:context is null or {CONTEXT} is not :context)"
    )
    if subject.has_nullable_key:
        sql = f"{sql} union all {_left_of_shared(subject, stamps)}"
    return SqliteChangeQuery(sql, window.as_parameters(), _written_change(subject.name, columns))


def deleted(subject: SqliteSubject, window: SqliteAnchorWindow, encoding: str) -> SqliteChangeQuery:
    """Return the query for rows that were deleted and not inserted again; only their key is left.

    Rows inserted and deleted within the window are omitted, because no reader has them. But if changes are excluded by
    context, the reader itself may have inserted them.
    """
    columns = tuple(column.name for column in subject.key)
    # Of rows that shared a key with a null, one stamp says when the last of them was inserted.
    sql = (
        f"{_GONE} select packed from {GONE} where (was_there or :context is not null or instr(packed, 'NULL')) "
        f"and (:context is null or is_of_others) "
        f"and not exists (select 1 from {subject.quoted} t where {_key_condition(subject, f'{GONE}.packed')})"
    )

    def as_change(row: Row) -> Change:
        return Change(subject.name, NetOperation.DELETE, columns, unpack(str(row[0]), encoding))

    return SqliteChangeQuery(sql, window.as_parameters(), as_change)


def shared_key(subject: SqliteSubject, stamps: SqliteStamps, window: SqliteAnchorWindow | None) -> str | None:
    """Return the query for the packed key of a written row that another row has too; None if no key can be shared.

    Without a window, of any row. Its parameters are those of the window.
    """
    if not subject.has_nullable_key:
        return None
    names = (f"t.{quote(column.name)} is null" for column in subject.key if column.is_nullable)
    source, begun, is_written = (
        (subject.quoted, "with", "")
        if window is None
        else (stamps.source, f"{_GONE},", f"and {CHANGE_BSN} > :since union {_GONE_WITH_NULL}")
    )
    has_key = _key_condition(subject, f"{_WRITTEN}.packed")
    return (
        f"{begun} {_WRITTEN} (packed) as "
        f"(select {subject.packed_key('t')} from {source} t where ({' or '.join(names)}) {is_written}) "
        f"select packed from {_WRITTEN} where (select count(*) from {subject.quoted} t where {has_key}) > 1 limit 1"
    )


def _left_of_shared(subject: SqliteSubject, stamps: SqliteStamps) -> str:
    """Return the query, like that of `written`, for rows whose stamps went with another row of their key."""
    columns = ", ".join(f"t.{quote(name)}" for name in _columns(subject))
    return (
        f"select '{NetOperation.UPDATE}', {columns} from ({_GONE_WITH_NULL}) {_WRITTEN} "
        f"join {subject.quoted} t on {_key_condition(subject, f'{_WRITTEN}.packed')} "
        f"where not {stamps.stamped_condition}"
    )


def touched(subject: SqliteSubject, stamps: SqliteStamps) -> str:
    """Return the query whether a row was written or deleted in the window; `:packed` is its key.

    Changes of the transaction with BSN `:own` do not count.
    """
    return (
        f"select exists (select 1 from {stamps.source} t where {_key_condition(subject, ':packed')} "
        f"and {CHANGE_BSN} > :since and {CHANGE_BSN} is not :own) "
        f"or exists (select 1 from {TOMBSTONES} where __sysId >= :first_tombstone and __sysTN = :table "
        "and __sysRK = :packed and __sysDeleteTxBsn is not :own)"
    )


def _key_condition(subject: SqliteSubject, packed: str) -> str:
    """Return the condition that a row `t` has a packed key: found by its values, then compared by text."""
    same = (
        f"t.{quote(column.name)} {'is' if column.is_nullable else '='} {KEY_FUNCTION}({packed}, {place})"
        for place, column in enumerate(subject.key)
    )
    return f"{' and '.join(same)} and {subject.packed_key('t')} = {packed}"


def _written_change(table: str, columns: tuple[str, ...]) -> Callable[[Row], Change]:
    def as_change(row: Row) -> Change:
        return Change(table, NetOperation(str(row[0])), columns, row[1:])

    return as_change


def _columns(subject: SqliteSubject) -> tuple[str, ...]:
    return tuple(column.name for column in subject.user_columns)


def _listed(columns: tuple[str, ...]) -> str:
    return ", ".join(map(quote, columns))


def pack_key(connection: sqlite3.Connection, table: str, key: Sequence[object]) -> str:
    """Return the packed form of a key's values, in key order. Raises `NotTracked`, `InvalidTombstoneKey`."""
    subject = _check_count(connection, table, key, str(tuple(key)))
    try:
        return pack(connection, cast("Sequence[SqliteValue]", key), subject.key_types)
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


def _check_count(connection: sqlite3.Connection, table: str, values: Sequence[object], given: str) -> SqliteSubject:
    subject = subject_of(connection, get_tracked(connection, table))
    if len(values) != len(subject.key):
        reason = f"it has {len(values)} values, the key has {len(subject.key)}"
        raise InvalidTombstoneKey(table, given, reason)
    return subject
