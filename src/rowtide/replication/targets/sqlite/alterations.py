"""Apply a schema change of an article to a table of a SQLite file, in the caller's transaction.

Where SQLite's `alter table` cannot alter a column, a table of another definition takes the place of the old one.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import assert_never

from rowtide.databases.sqlite.catalogue import Column, Table, find_table, read_triggers
from rowtide.databases.sqlite.sql_text import (
    TableItem,
    TableText,
    fold,
    item_of,
    nullable,
    parse_table,
    quote,
    quote_literal,
    retyped,
)
from rowtide.databases.sqlite.values import affinity, stored_type
from rowtide.databases.types.value_type import SqliteValue
from rowtide.replication.articles.articles import PublishedColumn
from rowtide.replication.articles.schema_changes import (
    ArticleTableRenamed,
    ColumnAdded,
    ColumnDropped,
    ColumnRenamed,
    ColumnRetyped,
    ExpressionDropped,
    Followed,
    GeneratedAltered,
    NullsChanged,
    SchemaChange,
)
from rowtide.replication.targets.sqlite import progress

_NEW = "rowtide_replacing"
_STRICTLY = {"boolean": "integer"}
"""Declarations for which strict tables have another word."""


def declare(column: PublishedColumn, *, is_strict: bool) -> str:
    """Return the type that a column is declared with."""
    declaration = stored_type(column.value_type_text).declaration
    return _STRICTLY.get(declaration, declaration) if is_strict else declaration


def retype(connection: sqlite3.Connection, name: str, column: PublishedColumn) -> None:
    """Declare a column of a table with its present type; values that the type has stay what they are."""
    table = find_table(connection, name)
    declaration = declare(column, is_strict=table is not None and table.is_strict)
    _rebuild(connection, name, lambda item: retyped(item, declaration) if _is(item, column) else item)


def allow_nulls(connection: sqlite3.Connection, name: str, column: PublishedColumn) -> None:
    """Let a column of a table take nulls."""
    _rebuild(connection, name, lambda item: nullable(item) if _is(item, column) else item)


def drop(connection: sqlite3.Connection, name: str, column: PublishedColumn) -> None:
    """Drop a column of a table, with the indexes and constraints that it is part of, as PostgreSQL does."""
    for index, statement in _indexes(connection, name):
        if item_of(statement).mentions(column.name):
            connection.execute(f"drop index {quote(index)}")
    try:
        connection.execute(f"alter table {quote(name)} drop column {quote(column.name)}")
    except sqlite3.OperationalError:
        # It is part of a constraint; or of something that refuses this, too.
        _rebuild(connection, name, lambda item: None if _is_of(item, column) else item)


def _is(item: TableItem, column: PublishedColumn) -> bool:
    return item.column is not None and fold(item.column) == fold(column.name)


def _is_of(item: TableItem, column: PublishedColumn) -> bool:
    """Whether an item of a table goes with a column; a primary key does not."""
    return _is(item, column) or (item.column is None and not item.is_primary_key and item.mentions(column.name))


def _rebuild(connection: sqlite3.Connection, name: str, edit: Callable[[TableItem], TableItem | None]) -> None:
    """Put a table of edited columns and constraints in the place of one."""
    table = find_table(connection, name)
    assert table is not None
    old = parse_table(_definition(connection, table.name))
    new = TableText(tuple(item for each in old.items if (item := edit(each)) is not None), old.options)
    triggers, indexes = read_triggers(connection, table.name).values(), _indexes(connection, table.name)
    kept = {fold(item.column) for item in new.items if item.column is not None}
    names = [quote(one.name) for one in table.columns if not one.is_generated and fold(one.name) in kept]
    if table.rowid is not None and not table.is_rowid_key:
        names.append(table.rowid)
    listed, numbered = ", ".join(names), _last_number(connection, table.name)
    # While the table is gone, views and triggers name one that is not there: without this setting SQLite refuses to
    # rename another one.
    connection.execute("pragma legacy_alter_table = on")
    try:
        connection.execute(new.create(_NEW))
        connection.execute(f"insert into {_NEW} ({listed}) select {listed} from {quote(table.name)}")
        connection.execute(f"drop table {quote(table.name)}")
        connection.execute(f"alter table {_NEW} rename to {quote(table.name)}")
    finally:
        connection.execute("pragma legacy_alter_table = off")
    if numbered is not None:
        connection.execute("update sqlite_sequence set seq = max(seq, ?) where name = ?", (numbered, table.name))
    _run(connection, (*(statement for _, statement in indexes), *triggers))
    # Has SQLite look whether all views and triggers still find their columns.
    first = next(item.column for item in new.items if item.column is not None)
    connection.execute(f"alter table {quote(table.name)} rename column {quote(first)} to {quote(first)}")


def _run(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(statement)


def _definition(connection: sqlite3.Connection, name: str) -> str:
    found = connection.execute("select sql from main.sqlite_schema where type = 'table' and name = ?", (name,))
    return str(found.fetchone()[0])


def _indexes(connection: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    """Return the indexes of a table that are no constraints': names and statements."""
    return connection.execute(
        "select name, sql from main.sqlite_schema "
        "where type = 'index' and lower(tbl_name) = lower(?) and sql is not null",
        (table,),
    ).fetchall()


def _last_number(connection: sqlite3.Connection, table: str) -> int | None:
    """Return the last number that AUTOINCREMENT gave; None without it."""
    if connection.execute("select 1 from main.sqlite_schema where name = 'sqlite_sequence'").fetchone() is None:
        return None
    found = connection.execute("select seq from sqlite_sequence where name = ?", (table,)).fetchone()
    return None if found is None else int(found[0])


def alter(table: Table, change: SchemaChange) -> Iterator[str]:
    """Yield the statements that make a change in a table, but for columns that need another table."""
    altering = f"alter table {quote(table.name)}"
    match change:
        case ArticleTableRenamed(_, name):
            if name != table.name:
                yield f"{altering} rename to {quote(name)}"
        case ColumnAdded(column, value, _):
            if table.find_column(column.name) is None:
                yield f"{altering} add column {_column_definition(column, value, is_strict=table.is_strict)}"
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


def _column_definition(column: PublishedColumn, value: str | None, *, is_strict: bool) -> str:
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


class ChangeNotMade(Exception):
    """SQLite's error for a change; what was changed before is to be rolled back."""

    def __init__(self, change: SchemaChange, error: sqlite3.Error) -> None:
        super().__init__(str(error))
        self.change = change
        self.error = error


def follow(connection: sqlite3.Connection, guid: str, followed: Followed) -> None:
    """Make an article's changes, and record the article for a subscription. Raises `ChangeNotMade`."""
    table = followed.before.table
    published = {column.name for column in followed.before.columns}
    for change in followed.changes:
        try:
            published = _rename(published, change)
            _make(connection, table, change)
        except sqlite3.Error as error:
            raise ChangeNotMade(change, error) from error
        table = change.table if isinstance(change, ArticleTableRenamed) else table
    progress.record_altered(connection, guid, followed.article)


def _rename(published: set[str], change: SchemaChange) -> set[str]:
    """Return the names of the published columns after a change.

    Raises SQLite's error for one that in the file would be another one: it would get its values.
    """
    match change:
        case ColumnAdded(column):
            before, name = published, column.name
        case ColumnRenamed(column, name):
            before = published - {column.name}
        case ColumnDropped(column):
            return published - {column.name}
        case _:
            return published
    for other in before:
        if fold(other) == fold(name):
            raise sqlite3.IntegrityError(f"the file has column {other}, and ignores case")
    return before | {name}


def _make(connection: sqlite3.Connection, name: str, change: SchemaChange) -> None:
    table = find_table(connection, name)
    if table is None:
        raise sqlite3.OperationalError(f"no such table: {name}")
    match change:
        case ColumnAdded(column):
            own = table.find_column(column.name)
            if own is not None and not _keeps(table, own, column):
                raise sqlite3.IntegrityError(f"the file has its own column {column.name}, which would alter values")
        case ColumnDropped(column) if table.find_column(column.name) is not None:
            drop(connection, table.name, column)
        case ColumnRetyped(column):
            own = table.find_column(column.name)
            if own is not None and not _keeps(table, own, column):
                retype(connection, table.name, column)
        case NullsChanged(column) if column.is_nullable:
            allow_nulls(connection, table.name, column)
        case _:
            pass
    for statement in alter(table, change):
        connection.execute(statement)


def _keeps(table: Table, own: Column, column: PublishedColumn) -> bool:
    """Whether a column of a table stores a published column's values unchanged."""
    return affinity(own.type_text, is_strict=table.is_strict) in stored_type(column.value_type_text).keeping
