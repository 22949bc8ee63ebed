"""Databases in an encoding with letters that UTF-8 lacks: the server refuses to send a change that has one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from builders.capture.captured_databases import LoggedDatabase
from fixtures.servers import drop_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.log.store.state import ManifestState

TABLES = tuple(f"create table {name} (id int primary key, name text)" for name in ("item", "other", "third"))
_numbers = count(1)


@contextmanager
def open_western(server: EmbeddedServer, lake: Path) -> Iterator[LoggedDatabase]:
    """An empty database, not enabled yet."""
    name = f"western_{next(_numbers)}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(
            f"create database {name} encoding WIN1252 template template0 lc_collate 'C' lc_ctype 'C'".encode()
        )
        try:
            with psycopg.connect(server.url(name), autocommit=True, client_encoding="UTF8") as session:
                yield LoggedDatabase(server.url(name), lake, session)
        finally:
            drop_database(admin, name)


def unsendable(table: str, number: int) -> str:
    """Return a statement that writes a row which cannot be sent."""
    return f"insert into {table} values ({number}, E'\\x81')"


def write(database: LoggedDatabase, *statements: str) -> None:
    """Commit statements as one transaction."""
    with database.transaction() as transaction:
        for statement in statements:
            transaction.execute(statement.encode())


def write_around(database: LoggedDatabase, *tables: str) -> None:
    """Commit a transaction of which changes of some tables cannot be sent, with sendable ones of all around them."""
    write(
        database,
        "insert into other values (2)",
        "insert into item values (2)",
        "insert into third values (2)",
        *(unsendable(table, 3) for table in tables),
        "insert into other values (4)",
        "insert into item values (4)",
        "insert into third values (4)",
    )


def lacking(state: ManifestState) -> list[tuple[str, str]]:
    """Return the tables that lack a transaction, with its LSN."""
    members = {member.member_id: member.table for member in state.members}
    return [(members[one.member_id], str(one.lsn)) for one in state.incomplete]
