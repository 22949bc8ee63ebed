"""Tables as a session reads their rows to compare them: with the names and types that they have there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import COLUMN_BASE_TYPE_TEXT, COLUMN_TYPE_TEXT
from rowtide.databases.postgres.owner_functions import read_by
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.values import is_of_server, text_of, value_of
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.filters import as_sql, renamed
from rowtide.replication.targets.compared_rows import (
    NULL,
    SAMPLED,
    SEPARATOR,
    Division,
    Hashed,
    Order,
    Ranges,
    TextForm,
    form_of,
    order_of,
    runs_of,
)

_Connection = psycopg.Connection[tuple[Any, ...]]


@frozen
class ReadColumn:
    """A column as it is read: `value` is an expression of the published type; `type_text` is its own type, of a domain
    the base type.
    """

    name: str
    value: str
    type_text: str
    published: PublishedColumn

    @property
    def form(self) -> TextForm:
        """How its texts are parts of their rows'."""
        return form_of(self.published)

    @property
    def order(self) -> Order | None:
        """How its values are ordered in every database."""
        return order_of(self.published)


@frozen
class ReadTable:
    """A table's published columns and those of its key, in key order; `condition` chooses the rows, None for all.

    `reader` is the function that reads it as its owner, see `copying.present_tables`; `equal` are the operators by
    which columns of the key with users' types are compared, by name.
    """

    oid: int
    source: str
    columns: tuple[ReadColumn, ...]
    key: tuple[ReadColumn, ...]
    condition: str | None = None
    reader: str | None = None
    equal: Mapping[str, str] = field(default_factory=dict)


@frozen
class CatalogueColumn:
    """A column in the catalogue; `type_text` is the same for every role, `base_type_text` that of a domain's base."""

    name: str
    type_code: int
    type_modifier: int
    type_text: str
    base_type_text: str | None
    is_generated: bool

    @property
    def value_type_text(self) -> str:
        """The type that determines the text of its values."""
        return self.base_type_text or self.type_text


@frozen
class CatalogueTable:
    """A table in the catalogue, with its columns by number."""

    oid: int
    schema: str
    table: str
    is_partitioned: bool
    columns: Mapping[int, CatalogueColumn]

    @property
    def source(self) -> str:
        """The rows that are its own: of tables that inherit from it, only a partitioned one has them."""
        return f"{'' if self.is_partitioned else 'only '}{quote_qualified(self.schema, self.table)}"


def find_by_id(connection: _Connection, table_id: int) -> CatalogueTable | None:
    """Return a table by its oid; None if it was dropped."""
    row = connection.execute(sql.SQL(_TABLE), (table_id,)).fetchone()
    if row is None:
        return None
    columns = connection.execute(sql.SQL(_COLUMNS), (table_id,)).fetchall()
    return CatalogueTable(
        table_id, row[0], row[1], row[2], {number: CatalogueColumn(*column) for number, *column in columns}
    )


def find_by_name(connection: _Connection, schema: str, table: str) -> CatalogueTable | None:
    """Return a table by its name; None if there is none."""
    row = connection.execute("select to_regclass(%s)::oid::bigint", (quote_qualified(schema, table),)).fetchone()
    return None if row is None or row[0] is None else find_by_id(connection, row[0])


def list_unpublished(article: Article, present: CatalogueTable) -> tuple[str, ...]:
    """Return the columns that the table has now, and an article of all columns has not; what is computed is none.

    The log tells of a column with the table's next row at the earliest, and nothing that its values were stored.
    """
    if not article.has_all_columns:
        return ()
    published = {column.number for column in article.columns}
    added = (
        column for number, column in present.columns.items() if number not in published and not column.is_generated
    )
    return tuple(column.name for column in added)


def as_published(article: Article, present: CatalogueTable) -> ReadTable | str:
    """Return how the publisher's rows are read as an article has them; or why they cannot be.

    Columns are found by their numbers, which a rename does not change. Pure.
    """
    columns: dict[PublishedColumn, ReadColumn] = {}
    for column in article.columns:
        now = present.columns.get(column.number)
        if now is None:
            return f"column {column.name} was dropped at the publisher"
        if (now.type_code, now.type_modifier) != (column.type_code, column.type_modifier):
            return f"column {column.name} became {now.type_text} at the publisher"
        columns[column] = ReadColumn(now.name, quote(now.name), now.value_type_text, column)
    names = {column.name: read.name for column, read in columns.items()}
    condition = article.condition
    clause = None if condition is None else as_sql(renamed(condition, names))
    return _as_read(article, present, columns, clause)


def as_subscribed(article: Article, present: CatalogueTable) -> ReadTable | str:
    """Return how a subscriber's rows are read, all of its table: as the published types, where its own are others.

    Or why they cannot be. Pure.
    """
    named = {column.name: column for column in present.columns.values()}
    columns: dict[PublishedColumn, ReadColumn] = {}
    for column in article.columns:
        now = named.get(column.name)
        if now is None:
            return f"the subscriber's table has no column {column.name}"
        value = quote(now.name) if now.type_text == column.type_text else _converted(now, column)
        columns[column] = ReadColumn(now.name, value, now.value_type_text, column)
    return _as_read(article, present, columns, None)


def _converted(now: CatalogueColumn, column: PublishedColumn) -> str:
    """Return the expression of a column's value in the published type, by a cast that no other role can define."""
    wanted = column.value_type_text
    if is_of_server(now.value_type_text) and is_of_server(wanted):
        return f"{quote(now.name)}::{wanted}"
    return value_of(text_of(quote(now.name), now.value_type_text), wanted)


def _as_read(
    article: Article, present: CatalogueTable, columns: Mapping[PublishedColumn, ReadColumn], condition: str | None
) -> ReadTable:
    key = tuple(columns[column] for column in article.key_columns)
    return ReadTable(present.oid, present.source, tuple(columns[column] for column in article.columns), key, condition)


_TABLE = """
select n.nspname::text, c.relname::text, c.relkind = 'p'
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = %s::oid
"""
_COLUMNS = f"""
select a.attnum::int, a.attname::text, a.atttypid::bigint, a.atttypmod, {COLUMN_TYPE_TEXT}, {COLUMN_BASE_TYPE_TEXT},
  a.attgenerated <> ''
from pg_attribute a where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped
"""


_TYPES = {Order.NUMBER: "bigint", Order.UUID: "uuid"}
_MOST_RUNS = 32
"""Of adjacent buckets that are searched for by an index; of more, the table is read."""


def fingerprints(table: ReadTable, division: Division, *, with_checksum: bool) -> str:
    """Return the statement that counts rows and sums their hashes by bucket."""
    bucket = _bucket(table, division)
    checksum = f"sum({_hash(table.columns)})::text" if with_checksum else "null"
    query = f"select ({bucket})::bigint, count(*), {checksum}::text from {table.source}{_where(table)} group by 1"
    return read_by(table.reader, query, [("bucket", "bigint"), ("rows", "bigint"), ("checksum", "text")])


def sampled_rows(table: ReadTable, column: ReadColumn, percent: float) -> str:
    """Return the statement that finds texts between which equally many values lie, of a sample of the table's pages."""
    sample = f"select {column.value} as v from {table.source} tablesample system ({percent}){_where(table)}"
    placed = f"select v, row_number() over (order by v) as n, count(*) over () as of from ({sample}) as sample"
    is_bound = f"n in (1, of) or n % greatest(of / {SAMPLED}, 1) = 0"
    query = f"select v::text from ({placed}) as placed where v is not null and ({is_bound})"
    return read_by(table.reader, query, [("v", "text")])


def hashed_rows(table: ReadTable, division: Division, chosen: Collection[int]) -> str:
    """Return the statement that lists the rows of some buckets: hashes of key and row, and the key's texts.

    Their order is that of numbers, the same in every database.
    """
    key_hash = _hash(table.key)
    keys = "".join(f", {_text(column)}" for column in table.key)
    condition = _where(table, _bucket_condition(table, division, chosen))
    query = f"select {key_hash}, {_hash(table.columns)}{keys} from {table.source}{condition} order by 1"
    return read_by(table.reader, query, [("key", "bigint"), ("row", "bigint"), *_texts("k", table.key)])


def rows_by_key(table: ReadTable, *, is_locked: bool) -> str:
    """Return the statement that reads the texts of the rows with some keys; it takes an array per column of the key.

    `is_locked`: nobody else writes them until the transaction ends.
    """
    values = ", ".join(map(_text, table.columns))
    places = range(1, len(table.key) + 1)
    arrays = ", ".join(f"${place}::text[]" if table.reader is None else f"($1)[{place}]::text[]" for place in places)
    names = [f"k{index}" for index in range(len(table.key))]
    given = ", ".join(
        f"{value_of(f'given.{name}', column.type_text)} as {name}"
        for name, column in zip(names, table.key, strict=True)
    )
    same = " and ".join(
        f"t.{quote(column.name)} {table.equal.get(column.name, '=')} wanted.{name}"
        for name, column in zip(names, table.key, strict=True)
    )
    listed = f"select {given} from unnest({arrays}) as given ({', '.join(names)})"
    wanted = f"exists (select from ({listed}) as wanted where {same})"
    query = f"select {values} from {table.source} as t{_where(table, wanted)}{' for update' if is_locked else ''}"
    passed = ", ".join(f"${place}::text[]::text" for place in places)
    return read_by(table.reader, query, _texts("v", table.columns), f"array[{passed}]")


PAGES = """
select greatest(pg_relation_size(%s::oid::regclass), (
  select sum(pg_relation_size(relid)) from pg_partition_tree(%s::oid::regclass)
))::bigint / current_setting('block_size')::int
"""


def _texts(name: str, columns: Sequence[ReadColumn]) -> list[tuple[str, str]]:
    """Return names and types of a query's results that are the texts of columns."""
    return [(f"{name}{index}", "text") for index in range(len(columns))]


def _where(table: ReadTable, *others: str) -> str:
    conditions = [*([f"({table.condition})"] if table.condition is not None else []), *others]
    return f" where {' and '.join(conditions)}" if conditions else ""


def _bucket(table: ReadTable, division: Division) -> str:
    """Return the expression of a row's bucket."""
    if not isinstance(division, Hashed):
        column = _divided(table, division)
        ordered = f"{column.value}::bigint" if division.order is Order.NUMBER else column.value
        listed = ",".join(_bound(division, index) for index in range(len(division.bounds)))
        return f"coalesce(width_bucket({ordered}, '{{{listed}}}'::{_TYPES[division.order]}[]), 0)"
    return f"{_hash(table.key)} & {division.buckets - 1}" if division.buckets > 1 else "0"


def _bucket_condition(table: ReadTable, division: Division, chosen: Collection[int]) -> str:
    """Return the condition of rows in some buckets."""
    runs = list(runs_of(chosen))
    if isinstance(division, Hashed) or len(runs) > _MOST_RUNS:
        return f"{_bucket(table, division)} in ({', '.join(map(str, sorted(chosen)))})"
    column = _divided(table, division)
    return f"({' or '.join(f'({_range_condition(column, division, *run)})' for run in runs)})"


def _range_condition(column: ReadColumn, division: Ranges, first: int, last: int) -> str:
    """Return the condition of a run of buckets, which an index of the column finds."""
    value, type_ = column.value, _TYPES[division.order]
    is_low = f"{value} is null or " if first == 0 else f"{value} >= '{_bound(division, first - 1)}'::{type_} and "
    return is_low + (f"{value} < '{_bound(division, last)}'::{type_}" if last < len(division.bounds) else "true")


def _divided(table: ReadTable, division: Ranges) -> ReadColumn:
    (column,) = (read for read in table.key if read.published == division.column)
    return column


def _bound(division: Ranges, place: int) -> str:
    bound = division.bounds[place]
    return str(bound) if division.order is Order.NUMBER else f"{bound:032x}"


def _hash(columns: Sequence[ReadColumn]) -> str:
    text = _concatenated([_canonical(column) for column in columns])
    return f"('x' || encode(substring(sha256(convert_to({text}, 'UTF8')) from 1 for 8), 'hex'))::bit(64)::bigint"


_MOST_ARGUMENTS = 100
"""Of a function call."""


def _concatenated(texts: Sequence[str]) -> str:
    parts = [texts[start : start + _MOST_ARGUMENTS] for start in range(0, len(texts), _MOST_ARGUMENTS)]
    joined = [f"concat({', '.join(part)})" for part in parts]
    return joined[0] if len(joined) == 1 else _concatenated(joined)


def _canonical(column: ReadColumn) -> str:
    match column.form:
        case TextForm.PLAIN:
            return f"coalesce({column.value}::text, '{NULL}') || '{SEPARATOR}'"
        case TextForm.BITS:
            # As SQLite keeps it: the number that the text of a real names; and minus zero is zero.
            text = f"encode(float8send({column.value}::text::double precision + 0.0), 'hex')"
        case _:
            text = _printed(column)
    # A composite value whose parts are null is no null.
    is_null = f"num_nulls({column.value})"
    return f"case {is_null} when 0 then octet_length(convert_to({text}, 'UTF8')) || ':' || {text} else '{NULL}' end"


def _text(column: ReadColumn) -> str:
    return f"case num_nulls({column.value}) when 0 then {_printed(column)} end"


def _printed(column: ReadColumn) -> str:
    """Return a value's text as the log has it: a cast would write true for t, and drop the blanks behind a char(n)."""
    return f"format('%s', {column.value})"
