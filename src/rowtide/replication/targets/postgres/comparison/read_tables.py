"""Tables as a session reads their rows to compare them: with the names and types that they have there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import COLUMN_BASE_TYPE_TEXT, COLUMN_TYPE_TEXT
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.values import is_of_server, text_of, value_of
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.filters import as_sql, renamed
from rowtide.replication.targets.compared_rows import Order, TextForm, form_of, order_of

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
select a.attnum::int, a.attname::text, a.atttypid::bigint, a.atttypmod, {COLUMN_TYPE_TEXT}, {COLUMN_BASE_TYPE_TEXT}
from pg_attribute a where a.attrelid = %s::oid and a.attnum > 0 and not a.attisdropped
"""
