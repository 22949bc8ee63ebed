"""A publisher and a subscriber that is a SQLite file, delivered to in this process: in a line each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.replication.replicated_databases import PUBLICATION, Publishing
from builders.values.typed_tables import pinned_session
from rowtide.databases.postgres.catalogue import find_table
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.postgres.session_pool import keeping_sessions
from rowtide.databases.source_table import SourceColumn, SourceTable
from rowtide.databases.sqlite.sql_text import quote
from rowtide.databases.sqlite.values import stored_type
from rowtide.replication.subscription_settings import SyncType

Row = tuple[str | float | None, ...]
_TEXT_OF = {"boolean": ("f", "t")}


@dataclass
class FileSubscriber:
    """A SQLite file that changes are delivered to, and a program that works on it."""

    path: Path
    program: sqlite3.Connection

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, each in a transaction of its own; return the rows of the last."""
        return [self.program.execute(sql).fetchall() for sql in statements][-1]

    def copy_to(self, path: Path) -> None:
        """Make a backup."""
        with closing(sqlite3.connect(path)) as copy:
            self.program.backup(copy)

    def restore(self, copy: Path) -> None:
        """Move a backup in the place of the file."""
        self.program.close()
        for sidecar in self.path.parent.glob(f"{self.path.name}-*"):
            sidecar.unlink()
        copy.replace(self.path)
        self.program = sqlite3.connect(self.path, isolation_level=None)


@dataclass
class ReplicatedFile(Publishing):
    """A publisher, and one subscriber, a SQLite file that has the same tables."""

    subscriber: FileSubscriber

    @keeping_sessions()
    def begin(self, *definitions: str, at_file: Sequence[str] | None = None, **articles: Any) -> None:
        """As `publish`; and subscribe the file, which has the tables as they are declared for SQLite, or `at_file`."""
        self.publish(*definitions, **articles)
        made = at_file if at_file is not None else [declare(self.table(name)) for name in articles]
        if made:
            self.subscriber.execute(*made)
        self.subscribe()

    def subscribe(self, sync_type: SyncType = SyncType.REPLICATION_SUPPORT_ONLY, **options: Any) -> None:
        """Subscribe; by itself, with the tables and rows that the file has."""
        self.replication.add_subscription(PUBLICATION, self.subscriber.url, sync_type=sync_type, **options)

    def table(self, name: str) -> SourceTable:
        """Return a table of the publisher."""
        with open_engine(self.publisher.url).connect() as connection:
            return find_table(connection, name)

    def require_equal(self, *tables: str) -> None:
        """The subscriber's tables have the publisher's rows, each value as it is stored for its type."""
        for name in tables:
            table = self.table(name)
            assert self.stored(table, table.name) == self.published(table, quote_qualified(table.schema, table.name))

    def published(self, table: SourceTable, source: str) -> list[Row]:
        """Return rows as the publisher prints them under the log's settings; floating point numbers as such."""
        columns = stored_columns(table)
        printed = ", ".join(
            f"case when num_nonnulls({quote(column.name)}) = 1 then format('%s', {quote(column.name)}) end"
            for column in columns
        )
        with pinned_session(self.publisher.url) as session:
            rows = session.execute(f"select {printed} from {source}".encode()).fetchall()
        return _sorted(
            tuple(
                _number(value) if is_real(column.value_type_text) else value
                for value, column in zip(row, columns, strict=True)
            )
            for row in rows
        )

    def stored(self, table: SourceTable, target: str) -> list[Row]:
        """Return rows of the file, each value as the publisher would print it."""
        columns = stored_columns(table)
        names = ", ".join(quote(column.name) for column in columns)
        return _sorted(
            tuple(as_printed(value, column.value_type_text) for value, column in zip(row, columns, strict=True))
            for row in self.subscriber.execute(f"select {names} from {quote(target)}")
        )


def stored_columns(table: SourceTable) -> list[SourceColumn]:
    """Return the columns that are published."""
    return [column for column in table.columns if not column.is_generated]


def declare(table: SourceTable, *, suffix: str = "") -> str:
    """Return what makes a table at a SQLite subscriber."""
    parts = [
        f"{quote(column.name)} {stored_type(column.value_type_text).declaration}" for column in stored_columns(table)
    ]
    if table.key_columns:
        parts.append(f"primary key ({', '.join(quote(column.name) for column in table.key_columns)})")
    return f"create table {quote(table.name)} ({', '.join(parts)}){suffix}"


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def is_real(type_text: str) -> bool:
    """Tell whether a type is of floating point numbers."""
    return type_text in ("real", "double precision")


def _number(text: str | None) -> str | float | None:
    """Minus zero is zero in a column declared real."""
    return text if text is None or text == "NaN" else float(text) + 0.0


def as_printed(value: Any, type_text: str) -> str | float | None:
    """Return a value of the file as the publisher prints it; a floating point number as such."""
    match value:
        case int() | str() if type_text in _TEXT_OF:
            return _TEXT_OF[type_text][int(value)]
        case None | str() | float():
            return value
        case bytes():
            return "\\x" + value.hex()
        case _:
            return float(value) if is_real(type_text) else str(value)
