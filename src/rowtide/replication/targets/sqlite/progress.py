"""How far a SQLite subscriber is: written in the transactions that bring the changes, so that none comes twice.

(SQL Server: MSreplication_subscriptions, MSreplication_objects.) Each agent raises the epoch when it starts. A batch,
which holds the file's write lock, is refused where the epoch or the position is not the one that its agent knows.
"""

from __future__ import annotations

import sqlite3

from rowtide.core.lsn import Position
from rowtide.replication.articles import Article
from rowtide.replication.distribution.delivery import Progress
from rowtide.replication.errors import SubscriberUnprepared
from rowtide.replication.targets.new_subscription import NewSubscription

SUBSCRIPTIONS = "MSreplication_subscriptions"
OBJECTS = "MSreplication_objects"
CHUNKS = "MSsnapshot_chunks"
STATEMENTS = "MSsnapshot_statements"
OWN_TABLES = (SUBSCRIPTIONS, OBJECTS, CHUNKS, STATEMENTS)
"""No published table can have one of these names."""

CREATIONS = (
    f"""
create table if not exists {SUBSCRIPTIONS} (
    subscription_guid text primary key not null, publication text not null, publisher_system text not null,
    transaction_timestamp integer not null, batch integer not null default 0, epoch integer not null default 0,
    agent text, time text not null default (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    snapshot_status text not null default 'delivered', snapshot_end integer)
""",
    f"""
create table if not exists {OBJECTS} (
    subscription_guid text not null, article_id text not null, article text not null,
    object_name text not null collate nocase, primary key (subscription_guid, article_id))
""",
    f"""
create table if not exists {CHUNKS} (
    subscription_guid text not null, article_id text not null, chunk integer not null, low text, high text,
    transaction_snapshot text, generation integer, primary key (subscription_guid, article_id, chunk))
""",
    f"""
create table if not exists {STATEMENTS} (
    subscription_guid text not null, place integer not null, statement text not null,
    primary key (subscription_guid, place))
""",
)
"""The statements that make what delivery needs at a subscriber, each without effect where it is there."""


def record(connection: sqlite3.Connection, subscription: NewSubscription) -> None:
    """Note a new subscription and its tables, in the caller's transaction.

    A file subscribes to an article once: what is noted of another subscription to one of them is lost. It was being
    made when that was interrupted, or was dropped without asking the file.
    """
    for article in subscription.articles:
        lost = f"select subscription_guid from {OBJECTS} where article_id = ?"
        for (guid,) in connection.execute(lost, (article.article_id,)).fetchall():
            _remove(connection, guid)
    connection.execute(
        f"insert into {SUBSCRIPTIONS} (subscription_guid, publication, publisher_system, transaction_timestamp) "
        "values (?, ?, ?, ?)",
        (
            subscription.guid,
            subscription.publication,
            subscription.publisher_system,
            subscription.position.value,
        ),
    )
    connection.executemany(
        f"insert into {OBJECTS} values (?, ?, ?, ?)",
        [
            (subscription.guid, article.article_id, f"{article.schema}.{article.table}", article.table)
            for article in subscription.articles
        ],
    )


def list_recorded(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the guids of the subscriptions that are noted."""
    if not _is_made(connection):
        return frozenset()
    return frozenset(guid for (guid,) in connection.execute(f"select subscription_guid from {SUBSCRIPTIONS}"))


def find_other(connection: sqlite3.Connection, article: Article) -> str | None:
    """Return the table of another article that is delivered to the same place, None where there is none."""
    if not _is_made(connection):
        return None
    other = connection.execute(
        f"select article from {OBJECTS} where object_name = ? and article_id <> ?", (article.table, article.article_id)
    ).fetchone()
    return other[0] if other is not None else None


def take_over(connection: sqlite3.Connection, guid: str, agent: str) -> Progress:
    """Raise the epoch for an agent that starts, in the caller's transaction; return it with what is reached.

    Raises `SubscriberUnprepared`.
    """
    statement = (
        f"update {SUBSCRIPTIONS} set epoch = epoch + 1, agent = ? where subscription_guid = ? "
        "returning transaction_timestamp, batch, epoch"
    )
    rows = connection.execute(statement, (agent, guid)).fetchall() if _is_made(connection) else []
    if not rows:
        raise SubscriberUnprepared(guid)
    position, batch, epoch = rows[0]
    return Progress(Position(position), batch, epoch)


def find_difference(connection: sqlite3.Connection, guid: str, known: Progress) -> str | None:
    """Return what the file has in the place of what an agent knows, None where that is still so."""
    statement = f"select epoch, transaction_timestamp, agent from {SUBSCRIPTIONS} where subscription_guid = ?"
    row = connection.execute(statement, (guid,)).fetchone() if _is_made(connection) else None
    if row is None:
        return "no such subscription"
    epoch, position, agent = row
    if (epoch, position) == (known.epoch, known.position.value):
        return None
    return f"epoch {epoch}, position {position}, agent {agent}"


def advance(connection: sqlite3.Connection, guid: str, reached: Position) -> None:
    """Write what a batch reached, in its transaction."""
    connection.execute(
        f"update {SUBSCRIPTIONS} set transaction_timestamp = ?, batch = batch + 1, "
        "time = strftime('%Y-%m-%d %H:%M:%f', 'now') where subscription_guid = ?",
        (reached.value, guid),
    )


def forget(connection: sqlite3.Connection, guid: str) -> None:
    """Remove what is noted of a subscription, in the caller's transaction; the last one takes the tables along."""
    if not _is_made(connection):
        return
    _remove(connection, guid)
    if connection.execute(f"select 1 from {SUBSCRIPTIONS}").fetchone() is None:
        for table in OWN_TABLES:
            connection.execute(f"drop table {table}")


def _remove(connection: sqlite3.Connection, guid: str) -> None:
    for table in OWN_TABLES:
        connection.execute(f"delete from {table} where subscription_guid = ?", (guid,))


def _is_made(connection: sqlite3.Connection) -> bool:
    statement = "select 1 from main.sqlite_schema where type = 'table' and name = ?"
    return connection.execute(statement, (SUBSCRIPTIONS,)).fetchone() is not None
