"""Random transactions that interleave, with DDL among them that rewrites no rows, and the tables after each commit."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import psycopg
from psycopg import errors

Session = psycopg.Connection[tuple[Any, ...]]

REFUSALS = (
    errors.LockNotAvailable,
    errors.UniqueViolation,
    errors.InvalidSavepointSpecification,
    errors.DuplicateColumn,
)
"""What ends a transaction here: another one is in the way, or the step makes no sense now."""

_LITERALS: Mapping[str, Callable[[random.Random], str]] = {
    "integer": lambda chance: str(chance.randint(-9, 9)),
    "bigint": lambda chance: str(chance.randint(-(2**62), 2**62)),
    "text": lambda chance: f"'{'é' * chance.randint(0, 3)}'",
    "boolean": lambda chance: chance.choice(("true", "false")),
    "numeric(10,2)": lambda chance: f"{chance.randint(-999, 999) / 100}",
    "character varying(9)": lambda chance: f"'{chance.randint(0, 999)}'",
    "character varying(99)": lambda chance: f"'{'x' * chance.randint(0, 99)}'",
}
_SESSIONS, _KEYS = 3, 12
_LOCK_TIMEOUT = "30ms"


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A table by its oid: the numbers and names of its columns when it was made; the first one, `id`, is the key."""

    oid: int
    instance: str
    columns: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Contents:
    """A table at a time: which of the captured columns it has still, by place, and their values in rows by key."""

    places: tuple[int, ...]
    rows: Mapping[int, tuple[object, ...]]


class RandomHistory:
    """Sessions that write to tables, a statement at a time and in turn. Use as a context manager."""

    def __init__(self, url: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self._url = url
        self._stack = ExitStack()
        self._made = 0
        self.tables: tuple[CapturedTable, ...] = ()
        self.contents: dict[int, dict[str, Contents]] = {}
        """The tables, by instance, after the commit of each transaction id, as far as they could be read."""

    def __enter__(self) -> RandomHistory:
        self._observer = self._stack.enter_context(psycopg.connect(self._url, autocommit=True, prepare_threshold=None))
        self._sessions = [
            self._stack.enter_context(psycopg.connect(self._url, prepare_threshold=None)) for _ in range(_SESSIONS)
        ]
        for session in (self._observer, *self._sessions):
            session.execute(f"set lock_timeout = '{_LOCK_TIMEOUT}'".encode())
            session.commit()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def make_tables(self, count: int) -> list[str]:
        """Make tables of random columns, and return their names."""
        names = [f"t{number}" for number in range(count)]
        for name in names:
            columns = ", ".join(self._new_column() for _ in range(self._chance.randint(1, 5)))
            self._observer.execute(f"create table {name} (id integer primary key, {columns})".encode())
        self.tables = tuple(self._describe(name) for name in names)
        return names

    def step(self) -> None:
        """Let one session do one thing, and perhaps end its transaction; what is refused ends it too."""
        session, table = self._chance.choice(self._sessions), self._chance.choice(self.tables)
        acts = (self._insert, self._update, self._update_key, self._delete, self._alter, self._truncate, self._save)
        act = self._chance.choices(acts, (8, 6, 2, 3, 2, 0.3, 2))[0]
        try:
            session.execute(act(session, table).encode())
        except REFUSALS:
            session.rollback()
            return
        if self._chance.random() < 0.3:
            self._commit(session)
        elif self._chance.random() < 0.1:
            session.rollback()

    def commit_all(self) -> None:
        """Commit every transaction that is open."""
        for session in self._sessions:
            self._commit(session)

    def _commit(self, session: Session) -> None:
        (xid,) = session.execute("select pg_current_xact_id_if_assigned()::text").fetchall()[0]
        session.commit()
        if xid is not None:
            read = {table.instance: self._read(table) for table in self.tables}
            self.contents[int(xid)] = {name: found for name, found in read.items() if found is not None}

    def _read(self, table: CapturedTable) -> Contents | None:
        """Return a table's contents, None while an open transaction alters or truncates it."""
        present = {number: name for number, name, _ in self._columns(self._observer, table.oid)}
        places = tuple(place for place, number in enumerate(table.columns) if number in present)
        captured = ", ".join(present[number] for number in table.columns if number in present)
        query = f"select {captured} from {self._name(self._observer, table)}"
        try:
            return Contents(places, {row[0]: row for row in self._observer.execute(query.encode())})
        except errors.LockNotAvailable:
            return None

    def _insert(self, session: Session, table: CapturedTable) -> str:
        columns = self._some_columns(session, table)
        names = ", ".join(["id", *(name for name, _ in columns)])
        values = ", ".join([str(self._key()), *(self._literal(type_text) for _, type_text in columns)])
        return f"insert into {self._name(session, table)} ({names}) values ({values})"

    def _update(self, session: Session, table: CapturedTable) -> str:
        columns = self._some_columns(session, table)
        settings = [f"{name} = {self._literal(type_text)}" for name, type_text in columns] or ["id = id"]
        matching = self._chance.choice((f"id = {self._key()}", f"id % 3 = {self._chance.randrange(3)}"))
        return f"update {self._name(session, table)} set {', '.join(settings)} where {matching}"

    def _update_key(self, session: Session, table: CapturedTable) -> str:
        return f"update {self._name(session, table)} set id = {self._key()} where id = {self._key()}"

    def _delete(self, session: Session, table: CapturedTable) -> str:
        return f"delete from {self._name(session, table)} where id = {self._key()}"

    def _truncate(self, session: Session, table: CapturedTable) -> str:
        return f"truncate {self._name(session, table)}"

    def _save(self, _session: Session, _table: CapturedTable) -> str:
        return self._chance.choice(("savepoint here", "rollback to here"))

    def _alter(self, session: Session, table: CapturedTable) -> str:
        """Return a statement that changes the table's shape and none of its rows."""
        alter = f"alter table {self._name(session, table)}"
        columns = [(name, type_text) for _, name, type_text in self._columns(session, table.oid) if name != "id"]
        name, type_text = self._chance.choice(columns or [("id", "integer")])
        changes = [
            f"{alter} add column {self._new_column()}",
            f"{alter} add column {self._new_column()} default null",
            f"{alter} rename to t{self._number()}",
            f"create index on {self._name(session, table)} (id)",
        ]
        if columns:
            changes += [f"{alter} rename column {name} to c{self._number()}", f"{alter} drop column {name}"]
            changes += [f"{alter} alter column {name} set default {self._literal(type_text)}"]
        if type_text == "character varying(9)":
            changes += [f"{alter} alter column {name} type varchar(99)"] * 3
        return self._chance.choice(changes)

    def _some_columns(self, session: Session, table: CapturedTable) -> list[tuple[str, str]]:
        columns = [(name, type_text) for _, name, type_text in self._columns(session, table.oid) if name != "id"]
        return self._chance.sample(columns, self._chance.randint(0, len(columns)))

    def _describe(self, name: str) -> CapturedTable:
        ((oid,),) = self._observer.execute("select %s::regclass::oid::bigint", (name,)).fetchall()
        columns = {number: column for number, column, _ in self._columns(self._observer, oid)}
        return CapturedTable(oid, f"public_{name}", columns)

    @staticmethod
    def _columns(session: Session, oid: int) -> list[tuple[int, str, str]]:
        return session.execute(_COLUMNS, (oid,)).fetchall()

    @staticmethod
    def _name(session: Session, table: CapturedTable) -> str:
        ((name,),) = session.execute("select %s::bigint::oid::regclass::text", (table.oid,)).fetchall()
        return str(name)

    def _new_column(self) -> str:
        return f"c{self._number()} {self._chance.choice(sorted(_LITERALS))}"

    def _number(self) -> int:
        self._made += 1
        return self._made + 100

    def _key(self) -> int:
        return self._chance.randint(1, _KEYS)

    def _literal(self, type_text: str) -> str:
        return "null" if self._chance.random() < 0.15 else _LITERALS[type_text](self._chance)


_COLUMNS = """
select attnum::int, attname::text, format_type(atttypid, atttypmod)
from pg_attribute where attrelid = %s and attnum > 0 and not attisdropped order by attnum
"""
