"""Rows of merged tables at a PostgreSQL node, with their parents and children by logical records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import nullcontext
from typing import Any, TypeAlias

import psycopg

from rowtide.core.values import frozen
from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.operators import EQUALS
from rowtide.databases.postgres.owners import read_by
from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.postgres.array_texts import array_of
from rowtide.merge.nodes.postgres.execution import Execution
from rowtide.merge.nodes.postgres.key_moves import Referrer, read_referrers, referrers_of
from rowtide.merge.nodes.postgres.metadata.row_metadata import FILTERING, ROWGUIDS, escaped, sent, table_of, uuid_array
from rowtide.merge.nodes.postgres.metadata.system_tables import LOG, OF_TABLE, TOMBSTONE
from rowtide.merge.nodes.postgres.sequences import advance_sequences, find_sequences, highest_in_table, next_values
from rowtide.merge.nodes.roles.rows import Reach
from rowtide.merge.nodes.untyped_values import as_stored_by_server, server_type
from rowtide.merge.partitions.belonging import ROW, Link, belongs
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


# Parents and children of rows in a PostgreSQL database, by the links of logical records. What foreign keys' actions
# change in a PostgreSQL database when rows are deleted.


def read_parents(session: BatchingConnection, link: Link, children: Sequence[str], equal: Equal) -> dict[str, str]:
    """See `Node.read_parents`; `equal` compares columns of the parent."""
    return dict(session.read((_linked(link, "c", equal), [uuid_array(children)]), texts=True)[0])


def read_children(session: BatchingConnection, link: Link, parents: Sequence[str], equal: Equal) -> dict[str, str]:
    """See `Node.read_children`."""
    return dict(session.read((_linked(link, "p", equal), [uuid_array(parents)]), texts=True)[0])


def find_parents(session: BatchingConnection, link: Link, rows: Sequence[Row], equal: Equal) -> list[str | None]:
    """See `Node.find_parents`."""
    try:
        with session.transaction() if session.is_in_transaction else nullcontext():
            return _find_parents(session, link, rows, equal)
    except (psycopg.DataError, UnicodeError, ValueError):
        # What the type does not have, no row has.
        return (
            [None] if len(rows) == 1 else [each for row in rows for each in find_parents(session, link, [row], equal)]
        )


def read_buried(session: BatchingConnection, nickname: int, is_later: str, source: int) -> list[str]:
    """See `Node.read_buried`; `is_later` is the condition that a stamp is after the generation."""
    query = (
        f"select rowguid from {TOMBSTONE} where {OF_TABLE} = {nickname} and {is_later} "
        f"and origin is distinct from {source}"
    )
    return [row[0] for row in session.read((query, None), texts=True)[0]]


def _find_parents(session: BatchingConnection, link: Link, rows: Sequence[Row], equal: Equal) -> list[str | None]:
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
    found = {int(place): rowguid for place, rowguid in session.read((query, values), texts=True)[0]}
    return [found.get(place) for place in range(1, len(rows) + 1)]


def _linked(link: Link, listed: str, equal: Equal) -> str:
    """Return the query of children and parents: of listed children, alias `c`, or of listed parents, alias `p`."""
    same = " and ".join(
        f"p.{quote(link.parent.columns[other].name)} {equal(link.parent.columns[other].name)} "
        f"c.{quote(link.child.columns[place].name)}"
        for place, other in link.pairs
    )
    joined = f"{table_of(link.child)} c join {table_of(link.parent)} p on {same}"
    return f"select c.{ROWGUID}, p.{ROWGUID} from {escaped(joined)} where {listed}.{ROWGUID} = any(%s::uuid[])"


_BUILT_IN = "operator(pg_catalog."


def find_reach(
    session: BatchingConnection,
    article: Article,
    rowguids: Sequence[str],
    merged: Mapping[int, Article],
    execution: Execution,
    *,
    is_update: bool,
) -> Reach:
    """See `ReachReader.find_reach`."""
    found = Reach()
    first = _LinkedTable(table_of(article), article.nickname)
    left = {first: set(rowguids)}
    seen = {first: set(rowguids)}
    acting: dict[_LinkedTable, list[tuple[Referrer, _LinkedTable]]] = {}
    while left:
        parent, rows = left.popitem()
        if parent not in acting:
            (listed,) = session.read(referrers_of(parent.name), texts=True)
            acting[parent] = [
                (each, _child(session, each, merged))
                for each in read_referrers(listed)
                if (each.is_clearing if is_update else each.has_action)
            ]
        for each, child in acting[parent]:
            query = _referencing(parent, child, each, rows, execution)
            may_read = isinstance(child.key, int) or bool(child.columns)
            for above, below, *values in session.read((query, None), texts=True)[0] if may_read else ():
                found.below.setdefault((parent.key, above), set()).add((child.key, below))
                if isinstance(child.key, str):
                    found.others[child.key, below] = dict(zip(child.columns, values, strict=False))
                known = seen.setdefault(child, set())
                if each.is_deleting and not is_update and below not in known:
                    known.add(below)
                    left.setdefault(child, set()).add(below)
    return found


@frozen
class _LinkedTable:
    """A table of a foreign key; `columns` are those that may be read of one that is no article."""

    name: str
    key: int | str
    columns: tuple[str, ...] = ()

    def of_row(self, alias: str) -> str:
        """Return the expression of what identifies a row, within a transaction."""
        return f"{alias}.{ROWGUID}" if isinstance(self.key, int) else f"concat({alias}.tableoid, ':', {alias}.ctid)"

    def are_of(self, rows: set[str]) -> str:
        """Return the condition of some rows, of alias `t`."""
        if isinstance(self.key, int):
            return f"t.{ROWGUID} {EQUALS} any ({quote_literal(uuid_array(sorted(rows)))}::pg_catalog.uuid[])"
        listed = ", ".join(quote_literal(each) for each in rows)
        places = ", ".join(f"{quote_literal(each.partition(':')[2])}::pg_catalog.tid" for each in rows)
        return f"t.ctid = any (array[{places}]) and {self.of_row('t')} in ({listed})"


def _child(session: BatchingConnection, referrer: Referrer, merged: Mapping[int, Article]) -> _LinkedTable:
    if referrer.nickname is not None and referrer.nickname in merged:
        return _LinkedTable(referrer.table, referrer.nickname)
    if not referrer.is_alike:
        # Whoever owns it may have functions that the planner would call with the rights of the session.
        return _LinkedTable(referrer.table, referrer.table)
    ((columns,),) = session.read((_COLUMNS, [referrer.table] * 3), texts=True)[0]
    return _LinkedTable(referrer.table, referrer.table, tuple(json.loads(columns or "[]")))


def _referencing(
    parent: _LinkedTable, child: _LinkedTable, referrer: Referrer, rows: set[str], execution: Execution
) -> str:
    """Return the query of rows, those that reference them by one foreign key, and the values of these if that is no
    article.
    """
    values = {f"v{place}": f"c.{quote(name)}" for place, name in enumerate(child.columns)}
    listed = {
        "above": f"{parent.of_row('t')}::pg_catalog.text",
        "below": f"{child.of_row('c')}::pg_catalog.text",
        # `concat` calls a type's output function.
        **{name: f"case when num_nulls({value}) = 0 then concat({value}) end" for name, value in values.items()},
    }
    query = (
        f"select {', '.join(listed.values())} from {parent.name} t "
        f"join {child.name} c on {referrer.matches('t', 'c')} where {parent.are_of(rows)}"
    )
    is_harmless = isinstance(child.key, int) and all(each.startswith(_BUILT_IN) for each in referrer.operators.values())
    # Other operators, and what the planner calls, are code of whoever owns the tables.
    reader = None if is_harmless or execution.owner is None else execution.owner.reading
    return read_by(reader, query, [(name, "text") for name in listed])


_COLUMNS = """
select json_agg(attname order by attnum)::text from pg_attribute
where attrelid = %s::regclass and attnum > 0 and not attisdropped
  and has_table_privilege(%s, 'select') and not row_security_active(%s)
"""
"""The query of the columns of a table; null if its rows may not be read."""
