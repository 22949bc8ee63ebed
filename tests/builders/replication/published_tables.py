"""Published tables under random changes: what they are now, what is published of them, and how they are altered."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import psycopg

KEYS = 12
"""Rows of a table have keys up to this, so that they meet."""
DOMAINS = {"amount": "int check (value >= 0)", "label": "varchar(20)"}
TYPES = ("int", "bigint", "text", "varchar(20)", "numeric(12,3)", *DOMAINS)
"""Of columns that are added."""
_WIDER = {"int": "bigint", "smallint": "int", "varchar(20)": "text", "numeric(12,3)": "numeric(20,5)", "label": "text"}
_RETYPED = {
    "int": "text",
    "bigint": "numeric(20,5)",
    "numeric(12,3)": "numeric(12,4)",
    "amount": "bigint",
    "varchar(20)": "label",
}
"""With other texts, for which a file's table is copied again."""
_BASE = {"id": "int", "u": "int", "parent": "int", "w": "int"}
_DEFINITION = "id int primary key, u int unique deferrable, parent int, w int unique"

Rows = Sequence[tuple[Any, ...]]
Session = psycopg.Connection[tuple[Any, ...]]


@dataclass
class PublishedTable:
    """A table as it is now.

    `columns`: their types. `key`: by which rows are ordered. `fixed`: columns that are not altered. `chosen`: the
    published ones, None if all are, also those that are added. `condition`: a column and what holds for it in the rows
    that are published. `is_whole`: no subscriber is copying it.
    """

    name: str
    columns: dict[str, str]
    key: tuple[str, ...] = ("id",)
    fixed: frozenset[str] = frozenset(_BASE)
    chosen: frozenset[str] | None = None
    condition: tuple[str, str] | None = None
    is_whole: bool = False

    @property
    def published(self) -> list[str]:
        return [name for name in self.columns if self.chosen is None or name in self.chosen]

    @property
    def where(self) -> str | None:
        """The row filter, as it is given for the article."""
        return None if self.condition is None else " ".join(self.condition)

    @property
    def loose(self) -> list[str]:
        """The columns that can be altered."""
        return [name for name in self.columns if name not in self.fixed]

    def select(self, names: Sequence[str]) -> str:
        """Return what shows columns of all rows as texts, on either kind of database, in the order of the key."""
        shown = ", ".join(f"cast({name} as text)" for name in names)
        return f"select {shown} from {self.name} order by {', '.join(f'{self.name}.{name}' for name in self.key)}"

    def select_published(self) -> str:
        """Return what shows at the publisher what a subscriber's table shows."""
        query = self.select(self.published)
        return query if self.where is None else query.replace(" order by ", f" where {self.where} order by ")

    def creation(self) -> str:
        """Return the statement that makes one of `small_table`, whose other columns are parts of unique keys, too."""
        added = "".join(f", {name} {self.columns[name]}" for name in self.loose)
        added += "".join(f", unique (id, {name})" for name in self.loose)
        return f"create table {self.name} ({_DEFINITION}{added})"

    def add(self, name: str, type_text: str) -> None:
        self.columns[name] = type_text

    def drop(self, name: str) -> None:
        del self.columns[name]

    def rename_column(self, name: str, new: str) -> None:
        self.columns = {new if known == name else known: of for known, of in self.columns.items()}
        if self.chosen is not None and name in self.chosen:
            self.chosen = self.chosen - {name} | {new}
        if self.condition is not None and self.condition[0] == name:
            self.condition = (new, self.condition[1])


def small_table(name: str, **added: str) -> PublishedTable:
    """A table of few keys, with a unique value that moves between rows."""
    return PublishedTable(name, {**_BASE, **added})


def random_value(chosen: random.Random, type_text: str, *, or_null: bool = True) -> str:
    """Return an expression of a value of a column that was added."""
    number = chosen.randint(0, 9)
    if or_null and number == 0:
        return "null"
    is_text = type_text in {"text", "varchar(20)", "label"}
    return f"'text {number} ''{'x' * chosen.choice([1, 9])}'" if is_text else str(number)


def random_condition(chosen: random.Random, table: PublishedTable) -> tuple[str, str] | None:
    """Return a row filter over a column that stays, or over one that is renamed and widened, or none."""
    if chosen.random() < 0.5:
        return None
    numbers = [name for name in table.published if table.columns[name] in {"int", "bigint"}]
    tests = (f"> {chosen.randint(1, 5)}", f"between 2 and {chosen.randint(3, 9)}", "is not null", "not in (1, 4, 7)")
    return chosen.choice(numbers), chosen.choice(tests)


def change_rows(chosen: random.Random, table: PublishedTable) -> str:
    """Return a random change of rows of one of `small_table`."""
    number, other = chosen.randint(1, KEYS), chosen.randint(1, KEYS)
    names = list(table.columns)
    values = [str(number), str(100 + chosen.randint(1, KEYS)), str(other), "null"]
    values += [random_value(chosen, table.columns[name]) for name in names[len(values) :]]
    name, first = table.name, str(1000 * number + 1)
    statements = [
        f"insert into {name} ({', '.join(names)}) select {', '.join(values)} where {_without(name, values)}",
        f"insert into {name} (id) select generate_series(1, 60) + {1000 * number} where {_without(name, [first])}",
        f"update {name} set parent = {other} where id = {number}",
        f"update {name} set u = {2 * 100 + number + other} - u where u in ({100 + number}, {100 + other})",
        (
            f"update {name} set w = {number} where id = {other} and {number} <> all (select w from {name} where w > 0);"
            f" update {name} set w = -w where w in ({number}, {other}); "
            f"update {name} set w = {number + other} + w where w in (-{number}, -{other})"
        ),
        f"update {name} set id = {other} where id = {number} and {_without(name, [str(other)])}",
        f"delete from {name} where id = {number}",
        f"delete from {name} where id > {500 + 1000 * other}",
    ]
    statements += [
        f"update {name} set {column} = {random_value(chosen, table.columns[column])} where id <= {number}"
        for column in table.loose
    ]
    return f"truncate {name}" if chosen.random() < 0.02 else chosen.choice(statements)


def _without(name: str, values: Sequence[str]) -> str:
    """Return the condition that a table has neither the key nor the unique value of a row."""
    taken = f"id = {values[0]}" + (f" or u = {values[1]}" if len(values) > 1 else "")
    return f"not exists (select from {name} where {taken})"


@dataclass
class SchemaChanges:
    """Random changes of tables' schemas."""

    chosen: random.Random
    names: count[int] = field(default_factory=lambda: count(3))

    def make(self, connection: Session, table: PublishedTable) -> None:
        """Alter a table."""
        self.chosen.choice(list(self._possible(table)))(connection, table)

    def _possible(self, table: PublishedTable) -> Iterator[Callable[[Session, PublishedTable], None]]:
        yield from (self._add, self._rename)
        if table.loose:
            yield self._rename_column
        if self._droppable(table):
            yield self._drop
        if self._widened(table):
            yield self._widen
        if self._retyped(table):
            yield self._retype
        yield self._add_numbered

    def _droppable(self, table: PublishedTable) -> list[str]:
        """A column of the row filter is not: its article would stop."""
        kept = None if table.condition is None else table.condition[0]
        return [name for name in table.loose if name != kept]

    def _widened(self, table: PublishedTable) -> list[str]:
        return [name for name in table.loose if table.columns[name] in _WIDER]

    def _retyped(self, table: PublishedTable) -> list[str]:
        """By another type a row filter would not fit its column."""
        return [name for name in self._droppable(table) if table.columns[name] in _RETYPED]

    def _add(self, connection: Session, table: PublishedTable) -> None:
        name, type_text = f"c{next(self.names)}", self.chosen.choice(TYPES)
        default = f" default {random_value(self.chosen, type_text, or_null=False)}"
        clause = self.chosen.choice(["", default, f"{default} not null"])
        _run(connection, f"alter table {table.name} add column {name} {type_text}{clause}")
        _run(connection, f"alter table {table.name} alter column {name} drop not null")
        table.add(name, type_text)

    def _drop(self, connection: Session, table: PublishedTable) -> None:
        name = self.chosen.choice(self._droppable(table))
        _run(connection, f"alter table {table.name} drop column {name}")
        table.drop(name)

    def _rename_column(self, connection: Session, table: PublishedTable) -> None:
        name, new = self.chosen.choice(table.loose), f"c{next(self.names)}"
        _run(connection, f"alter table {table.name} rename column {name} to {new}")
        table.rename_column(name, new)

    def _widen(self, connection: Session, table: PublishedTable) -> None:
        name = self.chosen.choice(self._widened(table))
        self._give(connection, table, name, _WIDER[table.columns[name]])

    def _retype(self, connection: Session, table: PublishedTable) -> None:
        name = self.chosen.choice(self._retyped(table))
        self._give(connection, table, name, _RETYPED[table.columns[name]])

    def _give(self, connection: Session, table: PublishedTable, name: str, type_text: str) -> None:
        _run(connection, f"alter table {table.name} alter column {name} type {type_text}")
        if (table.columns[name], type_text) not in {("smallint", "int"), ("int", "bigint"), ("varchar(20)", "text")}:
            table.is_whole = False
        table.columns[name] = type_text

    def _add_numbered(self, connection: Session, table: PublishedTable) -> None:
        """Add and rename columns before one with a value for each row, for which all subscribers copy the table."""
        if table.loose:
            self._rename_column(connection, table)
        self._add(connection, table)
        name = f"c{next(self.names)}"
        _run(connection, f"alter table {table.name} add column {name} bigserial")
        _run(connection, f"alter table {table.name} alter column {name} drop not null")
        table.add(name, "bigint")
        table.is_whole = False

    def _rename(self, connection: Session, table: PublishedTable) -> None:
        new = f"t{next(self.names)}"
        _run(connection, f"alter table {table.name} rename to {new}")
        table.name = new


def _run(connection: Session, sql_text: str) -> None:
    connection.execute(sql_text.encode())
