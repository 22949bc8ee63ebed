"""Rows of a PostgreSQL node's tables: their values, parents and children, and the metadata that it keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.merge.articles import ROWGUID, Article, Partition
from rowtide.merge.definitions import SCHEMA, articles, replinfo
from rowtide.merge.nodes.postgres.default_schema import here
from rowtide.merge.nodes.postgres.metadata import row_metadata
from rowtide.merge.nodes.postgres.metadata.generations import newer_generations, take_generations, window_since
from rowtide.merge.nodes.postgres.metadata.log_application import log_own, log_update
from rowtide.merge.nodes.postgres.metadata.row_metadata import (
    FILTERING,
    ROWGUIDS,
    PostgresReader,
    escaped,
    sent,
    table_of,
    uuid_array,
)
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, LOG, OF_TABLE, TOMBSTONE
from rowtide.merge.nodes.postgres.procedures import ask_procedure
from rowtide.merge.nodes.postgres.sendable_texts import array_of
from rowtide.merge.nodes.postgres.session import PostgresSession
from rowtide.merge.nodes.postgres.stored_tables import REQUESTS, table_requests
from rowtide.merge.nodes.rows import Holder
from rowtide.merge.nodes.untyped_values import as_stored_by_server, server_type
from rowtide.merge.partitions.belonging import ROW, belongs
from rowtide.merge.partitions.expressions import PARTITION
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.partitions.logical_records import Link
from rowtide.merge.versions.changes import KnownVersion, Row
from rowtide.merge.versions.row_metadata import MetadataReader
from rowtide.merge.versions.stored_metadata import Composer

_ASKED = "rowtide_asked"
Equal: TypeAlias = Callable[[str], str]
"""Returns the operator by which a column of a table is compared."""


class PostgresRows:
    """See `Rows`."""

    def __init__(self, node: PostgresSession) -> None:
        self._node = node
        self._session = node.session
        self.places = node.places

    def read(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
        article = self.places.fill(article)
        self._node.executions.require_own_plans([article])
        return rows_of(article, self._read(*rows_request(article, rowguids)))

    @here
    def read_referencing(self, article: Article, columns: Sequence[str], keys: Sequence[Row]) -> Mapping[str, Row]:
        equal = self._node.equal_of(article)
        types = {column.name: server_type(column) for column in article.columns}
        names = ", ".join(f"k{index}" for index in range(len(columns)))
        # As arrays of their types: a text would become some types by a function that their owner defines.
        listed = ", ".join(f"%s::{escaped(types[name])}[]" for name in columns)
        same = " and ".join(f"t.{_named(name)} {escaped(equal(name))} k{index}" for index, name in enumerate(columns))
        query = f"{_select(article)} t where exists (select from unnest({listed}) k ({names}) where {same})"
        values = zip(*(as_stored_by_server(article.only(columns), key) for key in keys), strict=True)
        return rows_of(article, self._read(query, [array_of(each) for each in values]))

    @here
    def find_belonging(self, row_filter: RowFilter, rowguids: Sequence[str]) -> Set[str]:
        belonging = escaped(f"from {table_of(row_filter.article)} as {ROW} where {belongs(row_filter, FILTERING)}")
        query = f"select {ROW}.{ROWGUID} {belonging} and {ROW}.{ROWGUID} = any(%s::uuid[])"
        return {rowguid for (rowguid,) in self._read(query, [uuid_array(rowguids)])}

    @here
    def find_partitions(
        self, row_filter: RowFilter, rowguids: Sequence[str], partitions: Sequence[Partition]
    ) -> Set[int]:
        rows = f"select from {table_of(row_filter.article)} as {ROW} where {belongs(row_filter, FILTERING)}"
        given = f"unnest(%s::text[], %s::text[]) with ordinality {PARTITION} (host_name, suser_name, place)"
        of_rows = f"exists ({escaped(rows)} and {ROW}.{ROWGUID} = any(%s::uuid[]))"
        values = ([one.host_name or "" for one in partitions], [one.suser_name or "" for one in partitions])
        query = f"select {PARTITION}.place from {given} where {of_rows}"
        found = self._read(query, [*map(array_of, values), uuid_array(rowguids)])
        return {int(place) - 1 for (place,) in found}

    @here
    def find_key_holder(self, article: Article, row: Row) -> str | None:
        equal = self._node.equal_of(article)
        stored = as_stored_by_server(article, row)
        values = {column.name: value for column, value in zip(article.columns, stored, strict=True)}
        same = " and ".join(
            f"{_named(column.name)} {escaped(equal(column.name))} %s::{escaped(server_type(column))}"
            for column in article.key_columns
        )
        query = f"select {ROWGUID} from {escaped(table_of(article))} where {same}"
        try:
            found = self._read(query, [values[column.name] for column in article.key_columns])
        except psycopg.DataError:
            return None  # what the type does not have, no row has
        return found[0][0] if found else None

    @here
    def ask_procedure(self, article: Article, subscriber: str, pairs: Sequence[tuple[str, Row]]) -> list[Row | None]:
        columns, execution = self._node.stored_table(article).columns, self._node.executions.of(article)
        return ask_procedure(self._session, article, columns, subscriber, pairs, execution)

    @here
    def read_parents(self, link: Link, children: Sequence[str]) -> dict[str, str]:
        return dict(self._read(_linked(link, "c", self._node.equal_of(link.parent)), [uuid_array(children)]))

    @here
    def read_children(self, link: Link, parents: Sequence[str]) -> dict[str, str]:
        return dict(self._read(_linked(link, "p", self._node.equal_of(link.parent)), [uuid_array(parents)]))

    @here
    def find_parents(self, link: Link, rows: Sequence[Row]) -> Sequence[str | None]:
        return self._find_sendable_parents(link, rows, self._node.equal_of(link.parent))

    def _find_sendable_parents(self, link: Link, rows: Sequence[Row], equal: Equal) -> list[str | None]:
        """Return the parents; none of a row with a value that the type does not have: no row has it."""
        try:
            with self._session.transaction() if self._session.is_in_transaction else nullcontext():
                return self._find_parents(link, rows, equal)
        except (psycopg.DataError, UnicodeError, ValueError):
            return (
                [None]
                if len(rows) == 1
                else [each for row in rows for each in self._find_sendable_parents(link, [row], equal)]
            )

    def _find_parents(self, link: Link, rows: Sequence[Row], equal: Equal) -> list[str | None]:
        stored = [as_stored_by_server(link.child, row) for row in rows]
        columns = [link.parent.columns[other] for _, other in link.pairs]
        names = [f"v{number}" for number in range(len(columns))]
        same = " and ".join(
            f"p.{quote(column.name)} {equal(column.name)} k.{name}" for column, name in zip(columns, names, strict=True)
        )
        # As arrays of their types: a text would become some types by a function that their owner defines.
        arrays = ", ".join(f"%s::{escaped(server_type(column))}[]" for column in columns)
        query = (
            f"select k.place, p.{ROWGUID} from unnest({arrays}) with ordinality k ({', '.join(names)}, place) "
            f"join {escaped(table_of(link.parent))} p on {escaped(same)}"
        )
        values = [array_of(row[place] for row in stored) for place, _ in link.pairs]
        found = {int(place): rowguid for place, rowguid in self._read(query, values)}
        return [found.get(index) for index in range(1, len(rows) + 1)]

    def _read(self, query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        return self._node.read((query, parameters))[0]


def rows_request(article: Article, rowguids: Sequence[str]) -> tuple[str, Sequence[object]]:
    """Return the query of those of an article's rows that exist; `rows_of` reads its rows."""
    return f"{_select(article)} where {ROWGUID} = any(%s::uuid[])", [uuid_array(rowguids)]


def rows_of(article: Article, rows: Iterable[Sequence[Any]]) -> Mapping[str, Row]:
    """Return rows as they travel, by rowguid."""
    return {row[0]: sent(article, row[1:]) for row in rows}


def of_rowguids(sql_text: str) -> str:
    """Return a query whose one parameter is an array of rowguids."""
    return ROWGUIDS.join(map(escaped, sql_text.split(ROWGUIDS)))


def known_request(reader: MetadataReader, rowguids: Sequence[str]) -> tuple[str, Sequence[object]]:
    """Return the query of the metadata of rows, for `MetadataReader.known`; the reader's composer is not used.

    Before each group it has whether the log has lines of any of the rows; there is at least one row, if only for that.
    """
    known = escaped(reader.select_known(f"select rowguid from {_ASKED}"))
    return (
        f"with {_ASKED} as materialized (select {ROWGUIDS} as rowguid) "
        f"select exists (select from {LOG} where rowguid in (select rowguid from {_ASKED})), known.* "
        f"from (select) one left join ({known}) known on true"
    ), [uuid_array(rowguids)]


def _named(column: str) -> str:
    """Return a column's name in a query with parameters."""
    return escaped(quote(column))


def _select(article: Article) -> str:
    names = ", ".join([ROWGUID, *(quote(column.name) for column in article.columns)])
    # It has parameters wherever it is used.
    return escaped(f"select {names} from {table_of(article)}")


def _linked(link: Link, listed: str, equal: Equal) -> str:
    """Return the query of children and parents: of listed children, alias `c`, or of listed parents, alias `p`."""
    same = " and ".join(
        f"p.{quote(link.parent.columns[other].name)} {equal(link.parent.columns[other].name)} "
        f"c.{quote(link.child.columns[place].name)}"
        for place, other in link.pairs
    )
    joined = f"{table_of(link.child)} c join {table_of(link.parent)} p on {same}"
    return f"select c.{ROWGUID}, p.{ROWGUID} from {escaped(joined)} where {listed}.{ROWGUID} = any(%s::uuid[])"


REPLINFO, ARTICLES = (quote_qualified(SCHEMA, table.name) for table in (replinfo, articles))


class PostgresVersions:
    """See `RowVersions`."""

    def __init__(self, node: PostgresSession, rows: PostgresRows) -> None:
        self._node = node
        self._session = node.session
        self._rows = rows
        self.places = node.places

    def read_known(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, KnownVersion]:
        return self.read_known_and_rows([(article, rowguids)], [])[0][0]

    def read_known_and_rows(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        others: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None = None,
    ) -> tuple[list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        asked, others = self.places.fill(asked), self.places.fill(others)
        if not asked:
            return [], [self._rows.read(article, rowguids) for article, rowguids in others]
        logged, found, read = self._ask_known(asked, others, holder)
        if logged:
            self._node.apply()
            _, found, read = self._ask_known(asked, others, holder)
        return found, read

    def _ask_known(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        others: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None,
    ) -> tuple[bool, list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        """Return whether the log has entries of these rows, the metadata of rows, and other rows, with all that writing
        will need.
        """
        unread = [article for article, _ in asked if article not in self._node.stored]
        unused = Composer(asked[0][0], 0, b"")
        readers = [
            MetadataReader(
                article,
                unused,
                PostgresReader(self._node.generations),
                self._node.name,
                subscriber=None if holder is None else holder.of(article),
            )
            for article, _ in asked
        ]
        answers = self._node.read(
            ("select pg_current_xact_id()", None),
            (f"select nickname from {REPLINFO}", None),
            (f"select nickname, purged_lineage from {ARTICLES}", None),
            (newer_generations(self._node.generations), None),
            *(request for article in unread for request in table_requests(article)),
            *(known_request(each, rowguids) for each, (_, rowguids) in zip(readers, asked, strict=True)),
            *(rows_request(article, rowguids) for article, rowguids in others),
        )
        ((stamp,),), ((own,),), lineages, closed, *rest = answers
        self._node.staging.stamp, self._node.own = int(stamp), int(own)
        take_generations(self._node.generations, self._node.own, closed)
        for index, article in enumerate(unread):
            self._node.stored.take(article, *rest[REQUESTS * index : REQUESTS * (index + 1)])
        purged = {int(nickname): bytes.fromhex(lineage[2:]) for nickname, lineage in lineages}
        found, is_logged = [], False
        answers = rest[REQUESTS * len(unread) :]
        self._node.look_up(metadata for groups in answers[: len(asked)] for _, _, *metadata in groups)
        for reader, groups in zip(readers, answers, strict=False):
            composer = Composer(reader.article, self._node.own, purged[reader.article.nickname])
            is_logged |= groups[0][0] == "t"
            known = (group[1:] for group in groups if group[1] is not None)
            found.append(replace(reader, composer=composer).known(known))
        read = [rows_of(article, each) for (article, _), each in zip(others, answers[len(asked) :], strict=True)]
        return is_logged, found, read

    def read_buried(self, article: Article, since: int, source: int) -> list[str]:
        self._node.know_generation(since)
        is_later = window_since(self._node.generations, since)("stamp")
        query = (
            f"select rowguid from {TOMBSTONE} where {OF_TABLE} = {article.nickname} and {is_later} "
            f"and origin is distinct from {source}"
        )
        return [row[0] for row in self._session.read((query, None), texts=True)[0]]

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        self._node.apply()
        own = f"tablenick = {article.nickname} and rowguid = %s::uuid and bases is not null"
        values = [(value, rowguid) for rowguid, value in bases.items()]
        with self._session.cursor() as cursor:
            cursor.executemany(sql.SQL(f"update {CONTENTS} set bases = %s where {own}"), values)

    @here
    def log_own(self, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
        log_own(self._session, article, columns, without)

    @here
    def log_update(self, article: Article, rowguid: str) -> bool:
        with self._node.failing_at(article.name):
            return log_update(self._session, article, rowguid)

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        return row_metadata.lineages(self._session, nickname, self._node.snapshot_of(generation))

    def forget(self, article: Article, generation: int, most: int) -> int:
        return row_metadata.forget(self._session, article.nickname, self._node.snapshot_of(generation), most)

    @here
    def redefine(self, before: Article, after: Article) -> None:
        self._node.apply()
        if after.column_tracking:
            self._session.flush()
            row_metadata.move_columns_of(self._session, before, after)
