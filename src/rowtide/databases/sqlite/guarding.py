"""rowtide's own tables in a SQLite file: their formats, and their guards against other programs.

A file has no users, so this guards against mistakes: triggers refuse writes unless a flag is set, which is a row of
another table. The row exists only within rowtide's transactions, so other programs never see it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from rowtide.core.formats import PresentStore, StoredFormat, StoreFormat, format_row, parse_definition
from rowtide.databases.sqlite.catalogue import has_table
from rowtide.databases.sqlite.connect import open_url, path_of
from rowtide.databases.sqlite.errors import FileNotOpened, translated
from rowtide.databases.sqlite.sql_text import quote, quote_literal
from rowtide.databases.urls import DatabaseUrl, parse_url

WRITING = "__sysWriting"
"""Has a row while rowtide writes to the tables of its clock and of tracking."""
ALL_WRITES = ("insert", "update", "delete")
CHANGES = ("update", "delete")
"""The guarded operations of a table into which triggers insert within statements of other programs."""


def create_flag(connection: sqlite3.Connection) -> None:
    """Create the flag's table if it does not exist, in the caller's transaction."""
    connection.execute(f"create table if not exists {WRITING} (is_writing integer not null)")


def guard(connection: sqlite3.Connection, table: str, events: Iterable[str] = ALL_WRITES) -> None:
    """Guard a table, in the caller's transaction; an older guard is replaced."""
    for statement in guard_statements(table, events):
        connection.execute(statement)


def guard_statements(table: str, events: Iterable[str] = ALL_WRITES, *, flag: str = WRITING) -> Iterator[str]:
    """Yield the statements that guard a table."""
    message = quote_literal(f"table {table} is rowtide's own: no program may write to it")
    for event in events:
        name = quote(f"{table}_guard_{event}")
        yield f"drop trigger if exists {name}"
        yield (
            f"create trigger {name} before {event} on {quote(table)} "
            f"when not exists (select 1 from {quote(flag)}) begin select raise(abort, {message}); end"
        )


@contextmanager
def writing(connection: sqlite3.Connection, flag: str = WRITING) -> Iterator[None]:
    """Write to guarded tables, in the caller's transaction; an error undoes the flag with the rest of it.

    Without the flag's table nothing is guarded.
    """
    if has_flag(connection, flag):
        connection.execute(f"insert into {quote(flag)} values (1)")
    yield
    if has_flag(connection, flag):
        connection.execute(f"delete from {quote(flag)}")


def has_flag(connection: sqlite3.Connection, flag: str) -> bool:
    """Whether a flag's table exists."""
    return connection.execute("select 1 from main.sqlite_schema where name = ?", (flag,)).fetchone() is not None


def format_creation(view: str, own: StoreFormat) -> str:
    """Return the statement that records a format if the file has none of this name."""
    return f"create view if not exists {quote(view)} as {format_row(own.recorded)}"


def read_format(connection: sqlite3.Connection, view: str) -> StoredFormat | None:
    """Return the recorded format, from the catalogue; None without one."""
    statement = "select sql from main.sqlite_schema where type = 'view' and name = ?"
    row = connection.execute(statement, (view,)).fetchone()
    return parse_definition(None if row is None else row[0])


def raise_format(connection: sqlite3.Connection, view: str, recorded: StoredFormat) -> None:
    """Record a later format in the transaction of the migration's step."""
    connection.execute(f"drop view {quote(view)}")
    connection.execute(f"create view {quote(view)} as {format_row(recorded)}")


def find_store(url: str | DatabaseUrl, own: StoreFormat, view: str, table: str) -> PresentStore | None:
    """Return what a feature keeps in a file with its format, None if the file lacks a table of the feature's.

    Steps begin transactions in connections of their own. Raises `FileNotOpened`, `SqliteTooOld`.
    """
    with closing(open_url(url)) as connection, translated(path := path_of(connection)):
        if not has_table(connection, table):
            return None
        return PresentStore(own, path, read_format(connection, view), partial(_changing, url))


@contextmanager
def migrating_alone(url: str) -> Iterator[None]:
    """Let no other process migrate a file of the folder meanwhile; wait for one that does. Raises `FileNotOpened`.

    The folder is locked, not the file: closing another descriptor of the file would end SQLite's own locks.
    """
    path = Path(parse_url(url).database or "").absolute()
    try:
        descriptor = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise FileNotOpened(str(path), error.strerror or str(error)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _changing(url: str | DatabaseUrl) -> Iterator[sqlite3.Connection]:
    """Yield a file in one transaction, which is committed at the end."""
    with closing(open_url(url)) as connection, translated(path_of(connection)):
        connection.execute("begin immediate")
        yield connection
        connection.execute("commit")
