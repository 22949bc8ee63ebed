"""What a SQLite node knows of rows, read from its tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowtide.databases.sqlite.keys import SqliteValue
from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.sqlite.texts import from_text, to_text
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.changes import Known, Row, RowChange, TombstoneType
from rowtide.merge.composition import Composer, Contents, Tombstone
from rowtide.merge.folding import join_folded, metadata
from rowtide.merge.sqlite.own_columns import decode_own_columns
from rowtide.merge.sqlite.system_tables import CONTENTS, TOMBSTONE

_CONTENTS = slice(2, 10)
_TOMBSTONE = slice(10, 16)
_VALUES = slice(16, None)


def table_of(article: Article) -> str:
    """Return the quoted name of an article's table."""
    return quote(article.table)


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Reads rows of an article with their metadata; `is_beside` where the log is folded beside these."""

    article: Article
    composer: Composer
    is_beside: bool = field(default=False, kw_only=True)

    def select(self, source: str) -> str:
        """Return the query of rows; `source` has `k.rowguid`, a place for `{joins}`, and conditions."""
        names = "".join(f", t.{quote(column.name)}" for column in self.article.columns)
        nickname, table = self.article.nickname, quote(self.article.table)
        joins = (
            f"left join {table} t on t.{ROWGUID} = k.rowguid "
            f"left join {CONTENTS} c on c.tablenick = {nickname} and c.rowguid = k.rowguid "
            f"left join {TOMBSTONE} d on d.tablenick = {nickname} and d.rowguid = k.rowguid "
            f"{join_folded(nickname, is_beside=self.is_beside)}"
        )
        known = metadata(is_beside=self.is_beside)
        return f"select k.rowguid, t.{ROWGUID} is not null, {known}{names} from {source.format(joins=joins)}"

    def change(self, row: Sequence[Any]) -> RowChange | None:
        """Return what the query found as a change; None where nothing is known of the row."""
        contents, tombstone = _contents(row[_CONTENTS]), _tombstone(row[_TOMBSTONE])
        if row[1]:
            values = self.values(row[_VALUES])
            return self.composer.live(row[0], values, contents, tombstone)
        return None if tombstone is None else self.composer.gone(row[0], tombstone)

    def known(self, row: Sequence[Any]) -> Known | None:
        """Return what the query found as what is known; None where the row was never here."""
        contents, tombstone = _contents(row[_CONTENTS]), _tombstone(row[_TOMBSTONE])
        return self.composer.known(is_live=bool(row[1]), contents=contents, tombstone=tombstone)

    def values(self, values: Sequence[SqliteValue]) -> Row:
        """Return the values of an article's columns as they travel."""
        pairs = zip(values, self.article.columns, strict=True)
        return tuple([to_text(value, column.type_text) for value, column in pairs])


def read_known(session: sqlite3.Connection, reading: KnownRows, rowguids: Sequence[str]) -> Mapping[str, Known]:
    """Return what is known of rows; see `Node.read_known`."""
    found = ((row[0], reading.known(row)) for row in _read(session, reading, rowguids))
    return {rowguid: known for rowguid, known in found if known is not None}


def read_again(session: sqlite3.Connection, reading: KnownRows, rowguids: Sequence[str]) -> list[RowChange]:
    """Return rows and tombstones that are asked for once more."""
    changes = (reading.change(row) for row in _read(session, reading, rowguids))
    return [change for change in changes if change is not None]


def find_key_holder(session: sqlite3.Connection, article: Article, row: Row) -> str | None:
    """Return the row that has another's primary key; see `Node.find_key_holder`."""
    values = {column.name: value for column, value in zip(article.columns, row, strict=True)}
    same = " and ".join(f"{quote(column.name)} = ?" for column in article.key_columns)
    statement = f"select {ROWGUID} from {quote(article.table)} where {same}"
    key = [from_text(values[column.name], column.type_text) for column in article.key_columns]
    found = session.execute(statement, key).fetchone()
    return None if found is None else str(found[0])


def _read(session: sqlite3.Connection, reading: KnownRows, rowguids: Sequence[str]) -> Sequence[Sequence[Any]]:
    statement = reading.select("(select value as rowguid from json_each(?)) k {joins}")
    return session.execute(statement, (json.dumps(list(rowguids)),)).fetchall()


def _contents(found: Sequence[Any]) -> Contents | None:
    if found[0] is None:
        return None
    stamp, origin, priority, lineage, last, columns, own_columns, bases = found
    return Contents(stamp, origin, priority, lineage, last, columns, decode_own_columns(own_columns), bases)


def _tombstone(found: Sequence[Any]) -> Tombstone | None:
    if found[0] is None:
        return None
    stamp, origin, priority, lineage, last, kind = found
    return Tombstone(stamp, origin, priority, lineage, last, TombstoneType(kind))
