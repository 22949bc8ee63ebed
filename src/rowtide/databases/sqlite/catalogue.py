"""A SQLite file's catalogue: tables, columns, keys and unique keys."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from rowtide.core.values import frozen
from rowtide.databases.sqlite.sql_text import IndexText, fold, parse_index, quote

_EXPRESSION = -2
_ROWID = -1
ROWID_NAMES = ("rowid", "_rowid_", "oid")
_GENERATED = (2, 3)
_CREATE_TRIGGER = "create trigger"


@frozen
class Column:
    """A column of a table; `key_ordinal` is its position in the primary key, from 1."""

    name: str
    type_text: str
    is_nullable: bool
    default: str | None
    key_ordinal: int | None
    is_generated: bool


@frozen
class UniqueTerm:
    """A term of a unique key: a quoted column or an SQL expression, with its collation."""

    expression: str
    collation: str
    is_column: bool = True


@frozen
class UniqueKey:
    """A unique key; `where` is the condition of a partial index."""

    terms: tuple[UniqueTerm, ...]
    where: str | None = None

    @property
    def is_of_columns(self) -> bool:
        """Whether all of its terms are columns."""
        return self.where is None and all(term.is_column for term in self.terms)


@frozen
class Table:
    """A table; `rowid` is a name for its rowid, None if it has no rowid or no free name for it.

    `is_rowid_key`: the primary key is the rowid. `unique_keys` include the primary key and the rowid.
    """

    name: str
    columns: tuple[Column, ...]
    rowid: str | None
    is_rowid_key: bool
    is_strict: bool
    unique_keys: tuple[UniqueKey, ...]

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The primary key's columns, in the key's order; empty without a primary key."""
        in_key = [column for column in self.columns if column.key_ordinal is not None]
        return tuple(sorted(in_key, key=lambda column: column.key_ordinal or 0))

    def has_unique_key(self, column: Column) -> bool:
        """Whether the column is unique by itself."""
        wanted = [quote(column.name)]
        return any(key.is_of_columns and [term.expression for term in key.terms] == wanted for key in self.unique_keys)

    def find_column(self, name: str) -> Column | None:
        """Return a column by its name, in any case."""
        return next((column for column in self.columns if fold(column.name) == fold(name)), None)


def find_table(connection: sqlite3.Connection, name: str) -> Table | None:
    """Return a table of the main database by its name, in any case.

    None for views, virtual tables, SQLite's own tables, and names that do not exist.
    """
    listed = connection.execute(
        "select name, wr, strict from pragma_table_list "
        # Not `like`, for which an underscore is any letter.
        "where schema = 'main' and type = 'table' and lower(name) = lower(?) and substr(name, 1, 7) <> 'sqlite_'",
        (name,),
    ).fetchone()
    if listed is None:
        return None
    found, is_without_rowid, is_strict = listed
    columns = _columns(connection, found)
    rowid = None if is_without_rowid else _rowid_name(columns)
    is_rowid_key = not is_without_rowid and _is_rowid_key(connection, found, columns)
    # An integer primary key is never null, although the catalogue does not say so.
    if is_rowid_key:
        columns = tuple(
            replace(column, is_nullable=column.is_nullable and not column.key_ordinal) for column in columns
        )
    return Table(
        found,
        columns,
        rowid,
        is_rowid_key,
        bool(is_strict),
        _unique_keys(connection, found, _row_address(columns, rowid, is_rowid_key=is_rowid_key)),
    )


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether the file has a table, whose name is given as it is stored."""
    statement = "select 1 from main.sqlite_schema where type = 'table' and name = ?"
    return connection.execute(statement, (name,)).fetchone() is not None


def list_relations(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the main database's relations, name to kind: table, view, virtual, shadow.

    SQLite's own tables are omitted; a virtual table stores its rows in shadow tables.
    """
    statement = "select name, type from pragma_table_list where schema = 'main' and substr(name, 1, 7) <> 'sqlite_'"
    return dict(connection.execute(f"{statement} order by lower(name)").fetchall())


def read_triggers(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """Return the triggers of a table, name to SQL; undoes the upper case that SQLite gives their first words."""
    statement = "select name, sql from main.sqlite_schema where type = 'trigger' and lower(tbl_name) = lower(?)"
    return {
        name: _CREATE_TRIGGER + sql.removeprefix(_CREATE_TRIGGER.upper())
        for name, sql in connection.execute(statement, (table,))
    }


def _columns(connection: sqlite3.Connection, table: str) -> tuple[Column, ...]:
    rows = connection.execute(f"pragma main.table_xinfo({quote(table)})").fetchall()
    return tuple(
        Column(name, type_text, not is_not_null, default, ordinal or None, hidden in _GENERATED)
        for _, name, type_text, is_not_null, default, ordinal, hidden in rows
    )


def _rowid_name(columns: tuple[Column, ...]) -> str | None:
    taken = {fold(column.name) for column in columns}
    return next((name for name in ROWID_NAMES if name not in taken), None)


def _is_rowid_key(connection: sqlite3.Connection, table: str, columns: tuple[Column, ...]) -> bool:
    """Whether the primary key is the rowid: a single integer column without its own index."""
    keys = [column for column in columns if column.key_ordinal is not None]
    if len(keys) != 1 or keys[0].type_text.lower() != "integer":
        return False
    return all(origin != "pk" for *_, origin, _ in connection.execute(f"pragma main.index_list({quote(table)})"))


def _row_address(columns: tuple[Column, ...], rowid: str | None, *, is_rowid_key: bool) -> str | None:
    return next(quote(column.name) for column in columns if column.key_ordinal) if is_rowid_key else rowid


def _unique_keys(connection: sqlite3.Connection, table: str, row_address: str | None) -> tuple[UniqueKey, ...]:
    keys = [] if row_address is None else [UniqueKey((UniqueTerm(row_address, "binary"),))]
    for _, index, is_unique, *_ in connection.execute(f"pragma main.index_list({quote(table)})").fetchall():
        if is_unique:
            keys.append(_unique_key(connection, index))
    # Sorted: triggers that are made from them are compared as texts, and SQLite lists indexes by when they were made.
    return tuple(sorted(keys, key=repr))


def _unique_key(connection: sqlite3.Connection, index: str) -> UniqueKey:
    schema = "select sql from main.sqlite_schema where type = 'index' and name = ?"
    sql = (connection.execute(schema, (index,)).fetchone() or (None,))[0]
    text = parse_index(sql) if sql is not None else IndexText((), None)
    terms = []
    for place, number, name, _, collation, is_key in connection.execute(f"pragma main.index_xinfo({quote(index)})"):
        if is_key and number != _ROWID:
            is_column = number != _EXPRESSION
            expression = quote(name) if is_column else text.terms[place]
            terms.append(UniqueTerm(expression, collation.lower(), is_column))
    return UniqueKey(tuple(terms), text.where)
