"""Rows of a SQLite node's tables: their values, parents and children, and the metadata that the node keeps of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

from rowtide.databases.sqlite.sql_text import quote
from rowtide.databases.sqlite.values import OF_ANOTHER_CLASS, from_text, reader, value_of_literal
from rowtide.databases.types.value_type import SqliteValue
from rowtide.merge.articles import ROWGUID, Article, Partition
from rowtide.merge.catalogue import read_nickname, read_purged
from rowtide.merge.errors.nodes import HandlerFailed
from rowtide.merge.nodes.rows import Holder
from rowtide.merge.nodes.sqlite.exact_numbers import forget_exact_of_absent, read_columns
from rowtide.merge.nodes.sqlite.metadata import row_metadata
from rowtide.merge.nodes.sqlite.metadata.log_application import log_own, log_update
from rowtide.merge.nodes.sqlite.metadata.row_metadata import FILTERING, READER, move_columns_of, read_asked, table_of
from rowtide.merge.nodes.sqlite.metadata.system_tables import CONTENTS, TOMBSTONE
from rowtide.merge.nodes.sqlite.session import SqliteSession
from rowtide.merge.partitions.belonging import ROW, belongs
from rowtide.merge.partitions.expressions import PARTITION, SubscriberValue
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.partitions.logical_records import Link
from rowtide.merge.versions.changes import KnownVersion, Row
from rowtide.merge.versions.row_metadata import MetadataReader
from rowtide.merge.versions.stored_metadata import Composer

NO_FUNCTIONS = "a SQLite file has no functions: a class of Python can decide, with python:module.Class"
_CHUNK = 200
"""How many keys one query has, each with all its columns' values as parameters."""


class SqliteRows:
    """See `Rows`."""

    def __init__(self, session: sqlite3.Connection) -> None:
        self._session = session

    def read(self, article: Article, rowguids: Sequence[str]) -> dict[str, Row]:
        names = ", ".join([ROWGUID, *read_columns(article, "t")])
        query = f"select {names} from {table_of(article)} t where {ROWGUID} in (select value from json_each(?))"
        return {row[0]: READER.values(article, row[1:]) for row in read_asked(self._session, query, rowguids)}

    def read_referencing(self, article: Article, columns: Sequence[str], keys: Sequence[Row]) -> dict[str, Row]:
        types = {column.name: column.type_text for column in article.columns}
        names = ", ".join([ROWGUID, *read_columns(article, "t")])
        same = " and ".join(f"t.{quote(name)} = ?" for name in columns)
        found: dict[str, Row] = {}
        for start in range(0, len(keys), _CHUNK):
            chunk = keys[start : start + _CHUNK]
            condition = " or ".join(f"({same})" for _ in chunk)
            values = [from_text(text, types[name]) for key in chunk for name, text in zip(columns, key, strict=True)]
            query = f"select {names} from {table_of(article)} t where {condition}"
            found |= {
                row[0]: READER.values(article, row[1:]) for row in self._session.execute(query, values).fetchall()
            }
        return found

    def find_belonging(self, row_filter: RowFilter, rowguids: Sequence[str]) -> Set[str]:
        listed = f"{ROWGUID} in (select value from json_each(?)) and {belongs(row_filter, FILTERING)}"
        query = f"select {ROWGUID} from {table_of(row_filter.article)} as {ROW} where {listed}"
        return {rowguid for (rowguid,) in read_asked(self._session, query, rowguids)}

    def find_partitions(
        self, row_filter: RowFilter, rowguids: Sequence[str], partitions: Sequence[Partition]
    ) -> Set[int]:
        functions = ", ".join(f"json_extract(value, '$.{each.value}') as {each.value}" for each in SubscriberValue)
        listed = f"{ROWGUID} in (select value from json_each(?)) and {belongs(row_filter, FILTERING)}"
        rows = f"select 1 from {table_of(row_filter.article)} as {ROW} where {listed}"
        given = f"(select key as place, {functions} from json_each(?)) as {PARTITION}"
        values = [{each.value: getattr(one, each.value) or "" for each in SubscriberValue} for one in partitions]
        query = f"select place from {given} where exists ({rows})"
        arguments = (json.dumps(values), json.dumps([*rowguids]))
        return {place for (place,) in self._session.execute(query, arguments).fetchall()}

    def find_key_holder(self, article: Article, row: Row) -> str | None:
        values = {column.name: value for column, value in zip(article.columns, row, strict=True)}
        same = " and ".join(f"{quote(column.name)} = ?" for column in article.key_columns)
        statement = f"select {ROWGUID} from {quote(article.file_table)} where {same}"
        key = [from_text(values[column.name], column.type_text) for column in article.key_columns]
        found = self._session.execute(statement, key).fetchone()
        return None if found is None else str(found[0])

    def ask_procedure(self, article: Article, subscriber: str, pairs: Sequence[tuple[str, Row]]) -> list[Row | None]:
        raise HandlerFailed(article.resolver, subscriber, f"{len(pairs)} rows of {article.name}", NO_FUNCTIONS)

    def read_parents(self, link: Link, children: Sequence[str]) -> dict[str, str]:
        return dict(read_asked(self._session, _linked(link, "c"), children))

    def read_children(self, link: Link, parents: Sequence[str]) -> dict[str, str]:
        return dict(read_asked(self._session, _linked(link, "p"), parents))

    def find_parents(self, link: Link, rows: Sequence[Row]) -> list[str | None]:
        columns = [(place, link.parent.columns[other]) for place, other in link.pairs]
        same = " and ".join(f"{quote(column.name)} = ?" for _, column in columns)
        query = f"select {ROWGUID} from {table_of(link.parent)} where {same}"
        keys = ([from_text(row[place], column.type_text) for place, column in columns] for row in rows)
        found = (self._session.execute(query, key).fetchone() for key in keys)
        return [None if one is None else str(one[0]) for one in found]


def values_of(article: Article) -> Callable[[Row], list[SqliteValue]]:
    """Return the values of a row in the form that the file stores."""
    readers = [reader(column.type_text) for column in article.columns]
    return lambda row: [
        text if text is None else _value(text, read) if read or text[:1] == OF_ANOTHER_CLASS else text
        for read, text in zip(readers, row, strict=True)
    ]


def _value(text: str, read: Callable[[str], SqliteValue] | None) -> SqliteValue:
    if text[:1] == OF_ANOTHER_CLASS:
        return value_of_literal(text[1:])
    return text if read is None else read(text)


def _linked(link: Link, listed: str) -> str:
    """Return the query of children and parents: of listed children, alias `c`, or of listed parents, alias `p`."""
    same = " and ".join(
        f"p.{quote(link.parent.columns[other].name)} = c.{quote(link.child.columns[place].name)}"
        for place, other in link.pairs
    )
    other = "p" if listed == "c" else "c"
    tables = {"c": table_of(link.child), "p": table_of(link.parent)}
    return (
        f"select c.{ROWGUID}, p.{ROWGUID} from json_each(?) k cross join {tables[listed]} {listed} "
        f"on {listed}.{ROWGUID} = k.value cross join {tables[other]} {other} on {same}"
    )


class SqliteVersions:
    """See `RowVersions`."""

    def __init__(self, node: SqliteSession, rows: SqliteRows) -> None:
        self._node = node
        self._session = node.session
        self._rows = rows

    def read_known(
        self, article: Article, rowguids: Sequence[str], subscriber: int | None = None
    ) -> Mapping[str, KnownVersion]:
        self._node.apply()
        composer = Composer(
            article, read_nickname(self._node.connection), read_purged(self._node.connection, article.nickname)
        )
        reading = MetadataReader(article, composer, READER, self._node.path, subscriber=subscriber)
        return reading.known(read_asked(self._session, reading.select_known(), rowguids))

    def read_known_and_rows(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        rows: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None = None,
    ) -> tuple[list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        known = [
            self.read_known(article, rowguids, None if holder is None else holder.of(article))
            for article, rowguids in asked
        ]
        return known, [self._rows.read(article, rowguids) for article, rowguids in rows]

    def read_buried(self, article: Article, since: int, source: int) -> list[str]:
        query = f"select rowguid from {TOMBSTONE} where tablenick = ? and stamp > ? and origin is not ?"
        return [row[0] for row in self._session.execute(query, (article.nickname, since, source))]

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        self._node.apply()
        own = f"tablenick = {article.nickname} and rowguid = ? and bases is not null"
        values = [(value, rowguid) for rowguid, value in bases.items()]
        self._session.executemany(f"update {CONTENTS} set bases = ? where {own}", values)

    def log_own(self, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
        log_own(self._session, article, columns, without)

    def log_update(self, article: Article, rowguid: str) -> bool:
        return log_update(self._session, article, rowguid)

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        return row_metadata.lineages(self._session, nickname, generation)

    def forget(self, article: Article, generation: int, most: int) -> int:
        forgotten = row_metadata.forget(self._session, article.nickname, generation, most)
        if not forgotten:
            forget_exact_of_absent(self._session, article)
        return forgotten

    def redefine(self, before: Article, after: Article) -> None:
        self._node.apply()
        if after.column_tracking:
            move_columns_of(self._session, before, after)
