"""Scripts of several statements in a SQLite file, within the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

_DENIED = frozenset(
    {sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH}
)
"""What would end the transaction, or lead out of the file."""


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run the statements of a script; those that begin or end transactions are refused."""
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action in _DENIED else sqlite3.SQLITE_OK)
    try:
        for statement in split(script):
            connection.execute(statement)
    finally:
        connection.set_authorizer(None)


def split(script: str) -> Iterator[str]:
    """Yield the statements of a script; the semicolons within a trigger's body do not end it. Pure."""
    statement = ""
    for part in script.split(";"):
        statement += part
        if sqlite3.complete_statement(f"{statement};"):
            if statement.strip():
                yield statement
            statement = ""
        else:
            statement += ";"
    rest = statement.removesuffix(";")
    if rest.strip():
        yield rest
