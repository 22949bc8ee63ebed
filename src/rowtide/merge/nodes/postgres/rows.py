"""Rows of merged tables, read at a PostgreSQL node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeAlias

import psycopg

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.postgres.array_texts import array_of
from rowtide.merge.nodes.postgres.metadata.row_metadata import (
    FILTERING,
    ROWGUIDS,
    escaped,
    sent,
    table_of,
    uuid_array,
)
from rowtide.merge.nodes.postgres.metadata.system_tables import LOG
from rowtide.merge.nodes.postgres.sequences import (
    advance_sequences,
    find_sequences,
    highest_in_table,
    next_values,
)
from rowtide.merge.nodes.untyped_values import as_stored_by_server, server_type
from rowtide.merge.partitions.belonging import ROW, belongs
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row
from rowtide.merge.versions.row_metadata import MetadataReader

_ASKED = "rowtide_asked"
Equal: TypeAlias = Callable[[str], str]
"""Returns the operator by which a column of a table is compared."""


def rows_request(article: Article, rowguids: Sequence[str]) -> tuple[str, Sequence[object]]:
    """Return the query of those of an article's rows that exist; `rows_of` reads its rows."""
    return f"{_select(article)} where {ROWGUID} = any(%s::uuid[])", [uuid_array(rowguids)]


def rows_of(article: Article, rows: Iterable[Sequence[Any]]) -> Mapping[str, Row]:
    """Return rows as they travel, by rowguid."""
    return {row[0]: sent(article, row[1:]) for row in rows}


def read_rows(session: BatchingConnection, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
    """See `Node.read_rows`."""
    return rows_of(article, _read(session, *rows_request(article, rowguids)))


def read_referencing(
    session: BatchingConnection, article: Article, columns: Sequence[str], keys: Sequence[Row], equal: Equal
) -> Mapping[str, Row]:
    """See `Node.read_referencing`."""
    types = {column.name: server_type(column) for column in article.columns}
    names = ", ".join(f"k{place}" for place in range(len(columns)))
    # As arrays of their types: a text would become some types by a function that their owner defines.
    listed = ", ".join(f"%s::{escaped(types[name])}[]" for name in columns)
    same = " and ".join(f"t.{_named(name)} {escaped(equal(name))} k{place}" for place, name in enumerate(columns))
    query = f"{_select(article)} t where exists (select from unnest({listed}) k ({names}) where {same})"
    values = zip(*(as_stored_by_server(article.only(columns), key) for key in keys), strict=True)
    return rows_of(article, _read(session, query, [array_of(each) for each in values]))


def next_keys(session: BatchingConnection, article: Article, count: int) -> Sequence[str]:
    """See `Node.next_keys`."""
    sequences = find_sequences(session, article)
    free = _next_free(session, article, sequences, count)
    if len(free) < count:
        # Rows with keys of programs' own are ahead of the sequence.
        advance_sequences(session, sequences, highest_in_table(article, sequences))
        free += _next_free(session, article, sequences, count - len(free))
    return free


def _next_free(session: BatchingConnection, article: Article, sequences: dict[str, str], count: int) -> list[str]:
    """Return those of the next values of a key that no row has."""
    (column,) = article.key_columns
    is_taken = f"exists (select from {escaped(table_of(article))} t where t.{_named(column.name)} = n.key)"
    query = f"select n.key from ({next_values(article, sequences)}) n (key) where not {is_taken}"
    return [row[0] for row in _read(session, query, [count])]


def find_belonging(session: BatchingConnection, row_filter: RowFilter, rowguids: Sequence[str]) -> Set[str]:
    """See `Node.find_belonging`."""
    belonging = escaped(f"from {table_of(row_filter.article)} as {ROW} where {belongs(row_filter, FILTERING)}")
    query = f"select {ROW}.{ROWGUID} {belonging} and {ROW}.{ROWGUID} = any(%s::uuid[])"
    return {rowguid for (rowguid,) in _read(session, query, [uuid_array(rowguids)])}


def find_key_holder(session: BatchingConnection, article: Article, row: Row, equal: Equal) -> str | None:
    """See `Node.find_key_holder`."""
    stored = as_stored_by_server(article, row)
    values = {column.name: value for column, value in zip(article.columns, stored, strict=True)}
    same = " and ".join(
        f"{_named(column.name)} {escaped(equal(column.name))} %s::{escaped(server_type(column))}"
        for column in article.key_columns
    )
    query = f"select {ROWGUID} from {escaped(table_of(article))} where {same}"
    try:
        found = _read(session, query, [values[column.name] for column in article.key_columns])
    except psycopg.DataError:
        return None  # what the type does not have, no row has
    return found[0][0] if found else None


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


def _read(session: BatchingConnection, query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
    return session.read((query, parameters), texts=True)[0]


def _named(column: str) -> str:
    """Return a column's name in a query with parameters."""
    return escaped(quote(column))


def _select(article: Article) -> str:
    names = ", ".join([ROWGUID, *(quote(column.name) for column in article.columns)])
    # It has parameters wherever it is used.
    return escaped(f"select {names} from {table_of(article)}")
