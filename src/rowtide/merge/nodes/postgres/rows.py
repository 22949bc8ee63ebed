"""Rows of merged tables at a PostgreSQL node, with their parents and children by logical records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import nullcontext
from typing import Any, TypeAlias

import psycopg

from rowtide.databases.postgres.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.postgres.array_texts import array_of
from rowtide.merge.nodes.postgres.metadata.row_metadata import FILTERING, ROWGUIDS, escaped, sent, table_of, uuid_array
from rowtide.merge.nodes.postgres.metadata.system_tables import LOG
from rowtide.merge.nodes.postgres.places import here
from rowtide.merge.nodes.postgres.procedures import ask_procedure
from rowtide.merge.nodes.postgres.session import PostgresSession
from rowtide.merge.nodes.untyped_values import as_stored_by_server, server_type
from rowtide.merge.partitions.belonging import ROW, Link, belongs
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row
from rowtide.merge.versions.row_metadata import MetadataReader

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
        names = ", ".join(f"k{place}" for place in range(len(columns)))
        # As arrays of their types: a text would become some types by a function that their owner defines.
        listed = ", ".join(f"%s::{escaped(types[name])}[]" for name in columns)
        same = " and ".join(f"t.{_named(name)} {escaped(equal(name))} k{place}" for place, name in enumerate(columns))
        query = f"{_select(article)} t where exists (select from unnest({listed}) k ({names}) where {same})"
        values = zip(*(as_stored_by_server(article.only(columns), key) for key in keys), strict=True)
        return rows_of(article, self._read(query, [array_of(each) for each in values]))

    @here
    def find_belonging(self, row_filter: RowFilter, rowguids: Sequence[str]) -> Set[str]:
        belonging = escaped(f"from {table_of(row_filter.article)} as {ROW} where {belongs(row_filter, FILTERING)}")
        query = f"select {ROW}.{ROWGUID} {belonging} and {ROW}.{ROWGUID} = any(%s::uuid[])"
        return {rowguid for (rowguid,) in self._read(query, [uuid_array(rowguids)])}

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
        return dict(
            self._session.read(
                (_linked(link, "c", self._node.equal_of(link.parent)), [uuid_array(children)]), texts=True
            )[0]
        )

    @here
    def read_children(self, link: Link, parents: Sequence[str]) -> dict[str, str]:
        return dict(
            self._session.read(
                (_linked(link, "p", self._node.equal_of(link.parent)), [uuid_array(parents)]), texts=True
            )[0]
        )

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
        found = {int(place): rowguid for place, rowguid in self._session.read((query, values), texts=True)[0]}
        return [found.get(place) for place in range(1, len(rows) + 1)]

    def _read(self, query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        return self._session.read((query, parameters), texts=True)[0]


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
