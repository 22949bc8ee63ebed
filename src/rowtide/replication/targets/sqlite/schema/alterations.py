"""A schema change of an article in a SQLite file, as statements. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import assert_never

from rowtide.databases.sqlite.catalogue import Table
from rowtide.databases.sqlite.keys import SqliteValue
from rowtide.databases.sqlite.quoting import quote, quote_literal
from rowtide.databases.sqlite.types import stored_type
from rowtide.replication.articles.articles import PublishedColumn
from rowtide.replication.articles.schema_changes import (
    ColumnAdded,
    ColumnDropped,
    ColumnRenamed,
    ColumnRetyped,
    ExpressionDropped,
    GeneratedAltered,
    NullsChanged,
    SchemaChange,
    TableRenamed,
)
from rowtide.replication.targets.sqlite.schema.rebuilding import declare


def alter(table: Table, change: SchemaChange) -> Iterator[str]:
    """Yield the statements that make a change in a table, but for columns that `rebuilding` alters."""
    altering = f"alter table {quote(table.name)}"
    match change:
        case TableRenamed(_, name):
            if name != table.name:
                yield f"{altering} rename to {quote(name)}"
        case ColumnAdded(column, value, _):
            if table.find_column(column.name) is None:
                yield f"{altering} add column {_definition(column, value, is_strict=table.is_strict)}"
            else:
                name, first = quote(column.name), _first(column, value)
                yield f"update {quote(table.name)} set {name} = {first} where {name} is not {first}"
        case ColumnRenamed(column, name):
            yield f"{altering} rename column {quote(column.name)} to {quote(name)}"
        case ColumnDropped() | ColumnRetyped() | NullsChanged():
            pass
        case GeneratedAltered() | ExpressionDropped():
            # A snapshot makes no generated columns there.
            pass
        case _:
            assert_never(change)


def _definition(column: PublishedColumn, value: str | None, *, is_strict: bool) -> str:
    definition = f"{quote(column.name)} {declare(column, is_strict=is_strict)}"
    if value is None:
        # Without a default SQLite adds no column that is not null, not even to an empty table.
        return definition
    is_required = "" if column.is_nullable else " not null"
    return f"{definition}{is_required} default {_first(column, value)}"


def _first(column: PublishedColumn, value: str | None) -> str:
    return _literal(None if value is None else stored_type(column.value_type_text).convert(value.encode()))


def _literal(value: SqliteValue) -> str:
    match value:
        case None:
            return "null"
        case bytes():
            return f"x'{value.hex()}'"
        case str():
            return quote_literal(value)
        case float() if math.isinf(value):
            return "9e999" if value > 0 else "-9e999"
        case _:
            return repr(value)
