"""What was switched off in a SQLite subscriber's own tables during a copy, and the statements that restore it.

They are recorded in the transaction that alters, and run in the one that ends the snapshot. A subscription that never
came to its end leaves its own to the next of the same tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from rowtide.core.values import frozen
from rowtide.replication.errors.subscribing import RestorationRefused
from rowtide.replication.targets.sqlite.files import code_of

RESTORATIONS = "MSrestorations"

CREATION = f"""
create table if not exists {RESTORATIONS} (
    place integer primary key, subscription_guid text not null, article_id text not null, statement text not null)
"""
"""The statement that creates the table of restorations."""


@frozen
class SqliteRestoration:
    """A statement that restores something of an article's table."""

    article_id: str
    statement: str


def record(connection: sqlite3.Connection, guid: str, restorations: Iterable[SqliteRestoration]) -> None:
    """Record restorations, in the caller's transaction."""
    connection.executemany(
        f"insert into {RESTORATIONS} (subscription_guid, article_id, statement) values (?, ?, ?)",
        [(guid, each.article_id, each.statement) for each in restorations],
    )


def adopt(connection: sqlite3.Connection, guid: str, earlier: str) -> None:
    """Take over what an earlier subscription to the same tables left, in the caller's transaction."""
    connection.execute(f"update {RESTORATIONS} set subscription_guid = ? where subscription_guid = ?", (guid, earlier))


def discard(connection: sqlite3.Connection, guid: str) -> None:
    """Forget a subscription's restorations, because its tables are created."""
    connection.execute(f"delete from {RESTORATIONS} where subscription_guid = ?", (guid,))


def restore(connection: sqlite3.Connection, guid: str) -> None:
    """Restore everything, in the caller's transaction. Raises `RestorationRefused`."""
    query = f"select statement from {RESTORATIONS} where subscription_guid = ? order by place"
    for (statement,) in connection.execute(query, (guid,)).fetchall():
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            raise RestorationRefused(statement, code_of(error), str(error)) from error
    discard(connection, guid)
