"""The rows that a new row would displace: REPLACE deletes them without firing triggers. Pure.

Triggers that fire before a write can find those rows by the conditions made here. In them `new` is the written row, and
`r` an existing one.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.core.values import frozen
from rowtide.databases.sqlite.catalogue import ROWID_NAMES, Column, Table, UniqueKey, UniqueTerm
from rowtide.databases.sqlite.sql_text import fold, quote, words_of


@frozen
class Displacement:
    """A table, and its user's own columns; unique keys of the column `beside` alone are omitted."""

    table: Table
    columns: Sequence[Column]
    beside: str | None = None

    @property
    def condition(self) -> str:
        """The condition that a row `r` conflicts with `new` on a unique key."""
        return "(" + " or ".join(self._collides(key) for key in self._keys) + ")"

    @property
    def written_columns(self) -> tuple[str, ...]:
        """The quoted names that an update can set: an integer primary key also has the rowid's names."""
        names = [quote(column.name) for column in self.columns if not column.is_generated]
        return (*names, *(self.rowid_names if self.table.is_rowid_key else ()))

    @property
    def rowid_names(self) -> tuple[str, ...]:
        """The names by which an update can set the rowid, besides that of an integer primary key."""
        taken = {fold(column.name) for column in self.table.columns}
        return () if self.table.rowid is None else tuple(name for name in ROWID_NAMES if name not in taken)

    @property
    def displacing_columns(self) -> tuple[str, ...]:
        """The quoted columns whose update can displace other rows."""
        keys = self._keys
        named = [term.expression for key in keys for term in key.terms]
        # `update of` fires for the columns that a statement names, and no statement names a generated column.
        generated = {quote(column.name) for column in self.table.columns if column.is_generated}
        if not all(key.is_of_columns for key in keys) or generated.intersection(named):
            return self.written_columns
        return tuple(dict.fromkeys([*named, *self.rowid_names]))

    @property
    def key_condition(self) -> str:
        """The condition that a row `r` has the primary key of `new`."""
        wanted = sorted(quote(column.name) for column in self.table.key_columns)
        keys = (key for key in self.table.unique_keys if key.is_of_columns)
        found = (key for key in keys if sorted(term.expression for term in key.terms) == wanted)
        return next((self._collides(key) for key in found), "false")

    @property
    def _keys(self) -> list[UniqueKey]:
        beside = None if self.beside is None else [quote(self.beside)]
        return [key for key in self.table.unique_keys if [term.expression for term in key.terms] != beside]

    def _collides(self, key: UniqueKey) -> str:
        """Return the condition that `r` and `new` are equal on a unique key. Names in expressions are those of `r`."""
        same = [
            f"{'r.' if term.is_column else ''}{term.expression} collate {term.collation} = {self._of_new(term)}"
            for term in key.terms
        ]
        limits = []
        if key.where is not None:
            limits = [f"({key.where})", f"(select {key.where} from {self._new_row(key.where)})"]
        return " and ".join([*same, *limits])

    def _of_new(self, term: UniqueTerm) -> str:
        if not term.is_column:
            return f"(select {term.expression} from {self._new_row(term.expression)})"
        column = next((column for column in self.columns if quote(column.name) == term.expression), None)
        return f"new.{term.expression}" if column is None else new_value(column)

    def _new_row(self, expression: str) -> str:
        """Return the new row's columns that an expression names.

        No others: a trigger that names a column keeps it from being dropped, and differs once one is added.
        """
        words = words_of(expression)
        named = [column for column in self.columns if fold(column.name) in words]
        values = [f"{new_value(column)} as {quote(column.name)}" for column in named]
        return f"(select {', '.join(values) or '1'})"


def new_value(column: Column) -> str:
    """Return a value of `new`; for a NOT NULL column, REPLACE substitutes the default for null."""
    name = f"new.{quote(column.name)}"
    return name if column.is_nullable or column.default is None else f"coalesce({name}, {column.default})"
