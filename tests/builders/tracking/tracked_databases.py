"""Databases with a program at work in them that knows nothing of rowtide, and with their tracking."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from rowtide.databases.sqlite.guarding import writing
from rowtide.tracking import Anchor, Change, ChangeTracking, Storage, TrackingKeyType, TrackingOptions

TABLE = "create table t (id integer primary key, name text, qty integer)"
Values = tuple[object, ...]


@dataclass(kw_only=True)
class TrackedDatabase(ABC):
    """What tests of tracking ask of any database; `seen` is the last anchor, `storage` where stamps are to be kept."""

    tracking: ChangeTracking
    seen: Anchor | None = None
    storage: Storage = Storage.ROW

    def enable(
        self,
        table: str = "t",
        key_type: TrackingKeyType = TrackingKeyType.PRIMARY_KEY,
        options: TrackingOptions = TrackingOptions.ALL,
    ) -> None:
        """Track a table, its stamps where this database's are."""
        self.tracking.enable_tracking(table, key_type, options, storage=self.storage)

    def changes(self, *tables: str) -> list[Values]:
        """Enumerate since the last time; return each change as (operation, values...)."""
        return [(str(change.operation), *change.row) for change in self.enumerate(*tables)]

    def enumerate(self, *tables: str) -> list[Change]:
        """As above, the changes themselves."""
        with self.tracking.changes(tables or ("t",), self.seen) as changes:
            found = list(changes)
        self.seen = changes.anchor
        return found

    def run(self, *statements: str) -> None:
        """Let the program run statements."""
        for statement in statements:
            self.ask(statement)

    def run_as_rowtide(self, statement: str) -> None:
        """Run a statement that writes to tables of tracking's own."""
        self.run(statement)

    @property
    @abstractmethod
    def address(self) -> str:
        """Return its URL."""

    @property
    @abstractmethod
    def guid_type(self) -> str:
        """Return the type in which this database keeps GUIDs."""

    @property
    @abstractmethod
    def packed_keys(self) -> str:
        """Return the query for the packed keys of tombstones."""

    @abstractmethod
    def ask(self, statement: str) -> list[Values]:
        """Let the program run a statement, and return its rows."""

    @abstractmethod
    def ask_elsewhere(self, statement: str) -> list[Values]:
        """Let another program run a statement."""

    @abstractmethod
    def system_table(self, name: str) -> str:
        """Return the name of a table of tracking, as SQL has it."""

    @property
    @abstractmethod
    def format_view(self) -> str:
        """Return the view that records the format, as SQL has it."""

    @abstractmethod
    def full_name(self, table: str) -> str:
        """Return the name under which a table is tracked."""

    @abstractmethod
    def catalogue(self) -> set[Values]:
        """Return what there is in the database: tables with their columns, triggers, functions, schemas."""

    @abstractmethod
    def drop_a_trigger(self) -> None:
        """Drop the trigger of deletes of the table `t`."""

    @abstractmethod
    def age_tombstones(self, days: int) -> None:
        """Make the tombstones that there are some days older."""


@dataclass(kw_only=True)
class TrackedFile(TrackedDatabase):
    """A SQLite file."""

    path: Path
    program: sqlite3.Connection

    @property
    def address(self) -> str:
        return f"sqlite:///{self.path}"

    @property
    def guid_type(self) -> str:
        return "text"

    @property
    def packed_keys(self) -> str:
        return "select __sysRK from __sysOCSDeletedRows"

    def ask(self, statement: str) -> list[Values]:
        return self.program.execute(statement).fetchall()

    def ask_elsewhere(self, statement: str) -> list[Values]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as other:
            return other.execute(statement).fetchall()

    def system_table(self, name: str) -> str:
        return name

    @property
    def format_view(self) -> str:
        return "__sysFormat"

    def full_name(self, table: str) -> str:
        return table

    def catalogue(self) -> set[Values]:
        names = self.ask("select type, name, tbl_name from sqlite_schema")
        columns = (
            ("column", name, column)
            for kind, name, _ in names
            if kind == "table"
            for _, column, *_ in self.ask(f"pragma table_info('{name}')")
        )
        return {*names, *columns}

    def drop_a_trigger(self) -> None:
        self.run("drop trigger __sysTracking_t_delete")

    def age_tombstones(self, days: int) -> None:
        self.run_as_rowtide(f"update __sysOCSDeletedRows set __sysDeletedTime = __sysDeletedTime - {days}")

    def run_as_rowtide(self, statement: str) -> None:
        with writing(self.program):
            self.run(statement)


@dataclass(kw_only=True)
class TrackedPostgres(TrackedDatabase):
    """A database of a PostgreSQL server."""

    url: str
    program: psycopg.Connection

    @property
    def address(self) -> str:
        return self.url

    @property
    def guid_type(self) -> str:
        return "uuid"

    @property
    def packed_keys(self) -> str:
        return f'select "__sysRK"::text from {self.system_table("__sysOCSDeletedRows")}'

    def ask(self, statement: str) -> list[Values]:
        return _rows(self.program, statement)

    def ask_elsewhere(self, statement: str) -> list[Values]:
        with self.session() as other:
            return _rows(other, statement)

    @contextmanager
    def session(self) -> Iterator[psycopg.Connection]:
        """Yield another program's connection; its transaction is committed at the end."""
        with psycopg.connect(self.url) as session:
            yield session

    def system_table(self, name: str) -> str:
        return f'rowtide_tracking."{name}"'

    @property
    def format_view(self) -> str:
        return self.system_table("rowtide_format")

    def full_name(self, table: str) -> str:
        return f"public.{table}"

    def catalogue(self) -> set[Values]:
        return set(self.ask(_CATALOGUE))

    def drop_a_trigger(self) -> None:
        self.run('drop trigger "__sysTracking_delete" on t')

    def age_tombstones(self, days: int) -> None:
        tombstones = self.system_table("__sysOCSDeletedRows")
        self.run(f'update {tombstones} set "__sysDeletedTime" = "__sysDeletedTime" - interval \'{days} days\'')


def _rows(connection: psycopg.Connection, statement: str) -> list[Values]:
    cursor = connection.execute(statement.encode())
    return [] if cursor.description is None else cursor.fetchall()


_CATALOGUE = """
select 'column', relname::text, attname::text
from pg_class c join pg_attribute a on attrelid = c.oid and not attisdropped
where relnamespace not in ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace, 'information_schema'::regnamespace)
union all select 'default', adrelid::regclass::text, adnum::text from pg_attrdef where adrelid >= 16384
union all select 'schema', nspname, '' from pg_namespace where oid >= 16384
union all select 'trigger', tgrelid::regclass::text, tgname from pg_trigger where not tgisinternal
union all select 'function', proname, '' from pg_proc where oid >= 16384
"""
