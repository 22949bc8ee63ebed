"""Guards of rowtide's own tables in a SQLite file: no program but rowtide writes to them.

A file has no users, so that a mistake is what is guarded against: triggers refuse what is written while a flag, a row
of another table, is not there. It is there only within rowtide's transactions, so nobody else ever sees it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rowtide.databases.sqlite.quoting import quote, quote_literal

WRITING = "__sysWriting"
"""Has a row while rowtide writes to the tables of its clock and of tracking."""
ALL_WRITES = ("insert", "update", "delete")
CHANGES = ("update", "delete")
"""What is guarded of a table that triggers insert into, in the statements of programs."""


def create_flag(connection: sqlite3.Connection) -> None:
    """Create the flag's table if it does not exist, in the caller's transaction."""
    connection.execute(f"create table if not exists {WRITING} (is_writing integer not null)")


def guard(
    connection: sqlite3.Connection, table: str, events: Iterable[str] = ALL_WRITES, *, flag: str = WRITING
) -> None:
    """Guard a table, in the caller's transaction; an older guard is replaced."""
    for statement in guard_statements(table, events, flag=flag):
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
