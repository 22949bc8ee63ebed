"""Columns that SQLite's `alter table` does not alter: a table of another definition takes the place of the old one.

It is made from the old one's text, in the caller's transaction, so that what the file has of its own stays: defaults,
checks, indexes, triggers, the rows' ids. Views and triggers that do not fit any more are refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

from rowtide.databases.sqlite.catalogue import find_table, read_triggers
from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.sqlite.table_text import TableItem, TableText, item_of, nullable, parse_table, retyped
from rowtide.databases.sqlite.types import stored_type
from rowtide.replication.articles.articles import PublishedColumn

_NEW = "rowtide_replacing"
_STRICTLY = {"boolean": "integer"}
"""Declarations for which strict tables have another word."""


def declare(column: PublishedColumn, *, is_strict: bool) -> str:
    """Return the type that a column is declared with."""
    declaration = stored_type(column.value_type_text).declaration
    return _STRICTLY.get(declaration, declaration) if is_strict else declaration


def retype(connection: sqlite3.Connection, name: str, column: PublishedColumn) -> None:
    """Declare a column of a table with its type as it is now; values stay what they are, as far as that has them."""
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
    return item.column is not None and item.column.lower() == column.name.lower()


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
    kept = {item.column.lower() for item in new.items if item.column is not None}
    names = [quote(one.name) for one in table.columns if not one.is_generated and one.name.lower() in kept]
    if table.rowid is not None and not table.is_rowid_key:
        names.append(table.rowid)
    listed, numbered = ", ".join(names), _last_number(connection, table.name)
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
