"""What a SQLite node knows of rows: read from its metadata, by the rule that this counts as the row is there or not.

A tombstone counts only while no row has its rowguid, the metadata of a row only while it is there. So a trigger need
not look for the other, and what REPLACE does behind its back is still told rightly.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from rowtide.databases.sqlite.keys import SqliteValue
from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.sqlite.texts import from_text, to_text
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.changes import Known, Row, RowChange, TombstoneType
from rowtide.merge.composition import compose, compose_columns
from rowtide.merge.lineage import Lineage
from rowtide.merge.sqlite.system_tables import CONTENTS, TOMBSTONE
from rowtide.merge.sqlite.triggers import decode_own_columns
from rowtide.merge.versions import Presence, RowVersion

_METADATA = """
c.stamp, c.origin, c.priority, c.lineage, c.last, c.colv, c.own_columns,
d.stamp, d.origin, d.priority, d.lineage, d.last, d.type
"""
_OF_ROW, _OF_TOMBSTONE = 7, 6


class KnownRows:
    """Reads rows of an article with their metadata; `purged` is the lineage of rows that have none."""

    def __init__(self, article: Article, own: int, purged: bytes) -> None:
        self._article = article
        self._own = own
        self._purged = purged

    def select(self, source: str) -> str:
        """Return the query of rows; `source` has `k.rowguid`, and whatever joins and conditions go with it."""
        names = "".join(f", t.{quote(column.name)}" for column in self._article.columns)
        nickname, table = self._article.nickname, quote(self._article.table)
        joins = (
            f"left join {table} t on t.{ROWGUID} = k.rowguid "
            f"left join {CONTENTS} c on c.tablenick = {nickname} and c.rowguid = k.rowguid "
            f"left join {TOMBSTONE} d on d.tablenick = {nickname} and d.rowguid = k.rowguid"
        )
        return f"select k.rowguid, t.{ROWGUID} is not null, {_METADATA}{names} from {source.format(joins=joins)}"

    def change(self, row: Sequence[SqliteValue]) -> RowChange | None:
        """Return what the query found as a change; None where nothing is known of the row."""
        rowguid, is_live = row[:2]
        metadata = row[2 : 2 + _OF_ROW + _OF_TOMBSTONE]
        if is_live:
            return self._live(str(rowguid), metadata, row[2 + _OF_ROW + _OF_TOMBSTONE :])
        return self._deleted(str(rowguid), metadata[_OF_ROW:])

    def known(self, row: Sequence[SqliteValue]) -> Known | None:
        """Return what the query found as what is known; None where the row was never here."""
        contents, tombstone = row[2 : 2 + _OF_ROW], row[2 + _OF_ROW : 2 + _OF_ROW + _OF_TOMBSTONE]
        if row[1] and contents[0] is None:
            return self._without_metadata(tombstone)
        change = self.change(row)
        if change is None:
            return None
        found = contents if row[1] else tombstone
        return Known(change.version, _number(found[1]), _priority(found[2]))

    def find_key_holder(self, session: sqlite3.Connection, row: Row) -> str | None:
        """Return the row that has another's primary key; see `Node.find_key_holder`."""
        keys = self._article.key_columns
        values = {column.name: value for column, value in zip(self._article.columns, row, strict=True)}
        same = " and ".join(f"{quote(column.name)} = ?" for column in keys)
        statement = f"select {ROWGUID} from {quote(self._article.table)} where {same}"
        key = [from_text(values[column.name], column.type_text) for column in keys]
        found = session.execute(statement, key).fetchone()
        return None if found is None else str(found[0])

    def values(self, values: Sequence[SqliteValue]) -> Row:
        """Return the values of an article's columns as they travel."""
        pairs = zip(values, self._article.columns, strict=True)
        return tuple([to_text(value, column.type_text) for value, column in pairs])

    def _live(self, rowguid: str, metadata: Sequence[SqliteValue], values: Sequence[SqliteValue]) -> RowChange | None:
        stamp, origin, _, lineage, last, columns, own_columns = metadata[:_OF_ROW]
        if stamp is None:
            return None
        row = self.values(values)
        if origin is not None:
            return RowChange(rowguid, _bytes(lineage), _bytes(last), self._columns(columns, None), row)
        base = lineage if lineage is not None else self._base_of(metadata[_OF_ROW:])
        composed, own_last = compose(self._own, _plain(stamp), _bytes(base))
        return RowChange(rowguid, composed, own_last, self._columns(columns, own_columns), row)

    def _deleted(self, rowguid: str, tombstone: Sequence[SqliteValue]) -> RowChange | None:
        stamp, origin, _, lineage, last, kind = tombstone
        if stamp is None:
            return None
        columns = b"" if self._article.column_tracking else None
        if origin is not None:
            found, last_change = _bytes(lineage), _bytes(last)
        else:
            found, last_change = compose(self._own, _plain(stamp), _bytes(self._purged if lineage is None else lineage))
        return RowChange(rowguid, found, last_change, columns, None, TombstoneType(_plain(kind)))

    def _without_metadata(self, tombstone: Sequence[SqliteValue]) -> Known:
        lineage = Lineage.decode(_bytes(self._base_of(tombstone)))
        return Known(
            RowVersion(Presence.LIVE, lineage, None, {} if self._article.column_tracking else None), None, None
        )

    def _base_of(self, tombstone: Sequence[SqliteValue]) -> SqliteValue:
        """Return what a row's changes include that has no lineage of its own: it may have been gone in between."""
        return self._purged if tombstone[3] is None else tombstone[3]

    def _columns(self, received: SqliteValue, own: SqliteValue) -> bytes | None:
        if not self._article.column_tracking:
            return None
        stamps = decode_own_columns(None if own is None else str(own))
        return compose_columns(self._own, None if received is None else _bytes(received), stamps)


def read_known(session: sqlite3.Connection, reading: KnownRows, rowguids: Sequence[str]) -> Mapping[str, Known]:
    """Return what is known of rows; see `Node.read_known`."""
    found = ((str(row[0]), reading.known(row)) for row in _read(session, reading, rowguids))
    return {rowguid: known for rowguid, known in found if known is not None}


def read_again(session: sqlite3.Connection, reading: KnownRows, rowguids: Sequence[str]) -> list[RowChange]:
    """Return rows and tombstones that are asked for once more."""
    changes = (reading.change(row) for row in _read(session, reading, rowguids))
    return [change for change in changes if change is not None]


def _read(session: sqlite3.Connection, reading: KnownRows, rowguids: Sequence[str]) -> Sequence[Sequence[SqliteValue]]:
    statement = reading.select("(select value as rowguid from json_each(?)) k {joins}")
    return session.execute(statement, (json.dumps(list(rowguids)),)).fetchall()


def _bytes(value: SqliteValue) -> bytes:
    assert isinstance(value, bytes)
    return value


def _plain(value: SqliteValue) -> int:
    assert isinstance(value, int)
    return value


def _priority(value: SqliteValue) -> float | None:
    assert value is None or isinstance(value, float)
    return value


def _number(value: SqliteValue) -> int | None:
    return None if value is None else _plain(value)
