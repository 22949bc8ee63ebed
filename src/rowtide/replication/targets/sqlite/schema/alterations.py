"""A schema change of an article in a SQLite file, as statements. Pure.

A column whose type has to be another, or which has to take nulls, is replaced by a new one: SQLite alters no column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import assert_never

from rowtide.databases.sqlite.keys import SqliteValue
from rowtide.databases.sqlite.quoting import quote, quote_literal
from rowtide.databases.sqlite.types import Affinity, stored_type
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

_REPLACING = "rowtide_replacing"


def alter(table: str, present: Mapping[str, Affinity], change: SchemaChange) -> Iterator[str]:
    """Yield the statements that make a change in a table; `present` are its columns, by lower-case name."""
    altering = f"alter table {quote(table)}"
    match change:
        case TableRenamed(_, name):
            if name != table:
                yield f"{altering} rename to {quote(name)}"
        case ColumnAdded(column, value, _):
            if column.name.lower() not in present:
                yield f"{altering} add column {_definition(column, value)}"
            else:
                name, first = quote(column.name), _first(column, value)
                yield f"update {quote(table)} set {name} = {first} where {name} is not {first}"
        case ColumnDropped(column):
            if column.name.lower() in present:
                yield f"{altering} drop column {quote(column.name)}"
        case ColumnRenamed(column, name):
            yield f"{altering} rename column {quote(column.name)} to {quote(name)}"
        case ColumnRetyped(column):
            if present.get(column.name.lower()) not in stored_type(column.value_type_text).keeping:
                yield from _replace(table, column)
        case NullsChanged(column):
            if column.is_nullable:
                yield from _replace(table, column)
        case GeneratedAltered() | ExpressionDropped():
            # A snapshot makes no generated columns there.
            pass
        case _:
            assert_never(change)


def _replace(table: str, column: PublishedColumn) -> Iterator[str]:
    name, declaration = quote(column.name), stored_type(column.value_type_text).declaration
    yield f"alter table {quote(table)} add column {_REPLACING} {declaration}"
    yield f"update {quote(table)} set {_REPLACING} = {name}"
    yield f"alter table {quote(table)} drop column {name}"
    yield f"alter table {quote(table)} rename column {_REPLACING} to {name}"


def _definition(column: PublishedColumn, value: str | None) -> str:
    stored = stored_type(column.value_type_text)
    definition = f"{quote(column.name)} {stored.declaration}"
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
