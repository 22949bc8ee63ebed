"""Tracked tables of a SQLite file: finding them, their keys, and their names for triggers and queries."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence

from rowtide.core.values import frozen
from rowtide.databases.sqlite.catalogue import Column, Table, find_table
from rowtide.databases.sqlite.displacement import Displacement
from rowtide.databases.sqlite.sql_text import packing_expression, quote, quote_literal
from rowtide.tracking.changes import DeclaredColumn, DeclaredTable
from rowtide.tracking.errors import TableToTrackNotFound, TrackingKeyMissing
from rowtide.tracking.options import TrackedTable, TrackingKeyType, TrackingOptions

CHANGE_BSN = "__sysChangeTxBsn"
INSERT_BSN = "__sysInsertTxBsn"
CONTEXT = "__sysTrackingContext"
STAMPS = {CHANGE_BSN: "integer", INSERT_BSN: "integer", CONTEXT: "text"}


@frozen
class SqliteSubject:
    """A table, its key for tracking, and the tracked operations."""

    table: Table
    key: tuple[Column, ...]
    options: TrackingOptions

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def quoted(self) -> str:
        return quote(self.table.name)

    @property
    def literal(self) -> str:
        """The table's name as an SQL string literal."""
        return quote_literal(self.table.name)

    @property
    def user_columns(self) -> tuple[Column, ...]:
        """The columns that tracking did not add."""
        return tuple(column for column in self.table.columns if column.name not in STAMPS)

    @property
    def declared(self) -> DeclaredTable:
        """The user's columns with their declared types."""
        return DeclaredTable(
            self.name, tuple(DeclaredColumn(column.name, column.type_text) for column in self.user_columns)
        )

    @property
    def displacement(self) -> Displacement:
        """The rows that REPLACE would delete for a new row."""
        return Displacement(self.table, self.user_columns)

    @property
    def written_columns(self) -> tuple[str, ...]:
        """The quoted names that an update can set: an integer primary key also has the rowid's names."""
        return self.displacement.written_columns

    @property
    def key_names(self) -> tuple[str, ...]:
        """The quoted names of the key's columns."""
        names = [quote(column.name) for column in self.key]
        return (*names, *(self.displacement.rowid_names if self.has_rowid_key else ()))

    @property
    def has_rowid_key(self) -> bool:
        """Whether the key is the rowid."""
        return self.table.is_rowid_key and self.key == self.table.key_columns

    @property
    def has_nullable_key(self) -> bool:
        """Whether several rows can have one key: with a null in it, it is distinct from itself."""
        return any(column.is_nullable for column in self.key)

    @property
    def key_types(self) -> tuple[str, ...]:
        """The types by which another table stores values of the key as this one does, in key order."""
        # ANY means numeric where a table is not STRICT: the text 1 would become a number.
        return tuple(
            "blob" if self.table.is_strict and column.type_text.lower() == "any" else column.type_text
            for column in self.key
        )

    @property
    def key_collations(self) -> tuple[str, ...]:
        """The collations of the key's columns, in key order."""
        names = {quote(column.name) for column in self.key}
        unique = next(key for key in self.table.unique_keys if {term.expression for term in key.terms} == names)
        collations = {term.expression: term.collation for term in unique.terms}
        return tuple(collations[quote(column.name)] for column in self.key)

    def packed_key(self, alias: str) -> str:
        """Return the expression that packs the key of a row."""
        return packing_expression([f"{alias}.{quote(column.name)}" for column in self.key])

    def same_key(self, left: str, right: str) -> str:
        """Return the condition that two rows have the same key, by the table's collations.

        `right` may be `new` or `old`.
        """
        return _all_same(left, right, self.key)

    def same_row(self, left: str, right: str) -> str:
        """Return the condition that two aliases mean the same row."""
        if self.table.is_rowid_key or self.table.rowid is None:
            return _all_same(left, right, self.table.key_columns or self.key)
        return f"{left}.{self.table.rowid} = {right}.{self.table.rowid}"

    def key_differs(self) -> str:
        """Return the condition that an update changed the key's text, even if only in case or from 1 to 1.0."""
        differences = (
            f"old.{name} collate binary is not new.{name} or typeof(old.{name}) <> typeof(new.{name})"
            for name in (quote(column.name) for column in self.key)
        )
        return " or ".join(differences)


def _all_same(left: str, right: str, columns: Sequence[Column]) -> str:
    # SQLite reads an index for `is` too, but not in every plan: where there can be no null, `=`.
    return " and ".join(
        f"{left}.{name} {'is' if column.is_nullable else '='} {right}.{name}"
        for column, name in ((column, quote(column.name)) for column in columns)
    )


ROWGUID = "rowguid"


def subject_of(connection: sqlite3.Connection, tracked: TrackedTable) -> SqliteSubject:
    """Return a tracked table as it is now; raises `TableToTrackNotFound`, `TrackingKeyMissing`."""
    table = get_table(connection, tracked.name)
    return SqliteSubject(table, _key(table, tracked.key_type), tracked.options)


def key_of(table: Table, key_type: TrackingKeyType) -> tuple[Column, ...]:
    """Return the columns of a table's tracking key; empty if it has no such key."""
    return _KEYS[key_type](table)


def get_table(connection: sqlite3.Connection, name: str) -> Table:
    """Return a table by its name. Raises `TableToTrackNotFound`."""
    table = find_table(connection, name)
    if table is None:
        raise TableToTrackNotFound(name)
    return table


def _key(table: Table, key_type: TrackingKeyType) -> tuple[Column, ...]:
    key = key_of(table, key_type)
    if not key:
        raise TrackingKeyMissing(table.name, _KEY_WORDS[key_type])
    return key


def _rowguid(table: Table) -> tuple[Column, ...]:
    """Return the column `rowguid`, if it exists and is unique."""
    column = table.find_column(ROWGUID)
    if column is None:
        return ()
    return (column,) if table.has_unique_key(column) else ()


_KEY_WORDS = {TrackingKeyType.PRIMARY_KEY: "primary key", TrackingKeyType.ROWGUID: f"unique column {ROWGUID}"}
_KEYS: Mapping[TrackingKeyType, Callable[[Table], tuple[Column, ...]]] = {
    TrackingKeyType.PRIMARY_KEY: lambda table: table.key_columns,
    TrackingKeyType.ROWGUID: _rowguid,
}
