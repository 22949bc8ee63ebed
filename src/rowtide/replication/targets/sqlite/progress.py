"""Progress of a SQLite subscriber, written in the transactions that deliver changes, so that none is applied twice.

(SQL Server: MSreplication_subscriptions, MSreplication_objects.) Each agent increments the epoch when it starts. A
batch, which holds the file's write lock, is refused unless epoch and position are those that its agent knows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowtide.core.formats import Requirement, StoreFormat, require
from rowtide.core.lsn import Position
from rowtide.databases.sqlite.catalogue import has_table
from rowtide.databases.sqlite.connect import path_of
from rowtide.databases.sqlite.guarding import format_creation, read_format
from rowtide.databases.sqlite.sql_text import quote
from rowtide.replication.articles.articles import Article, decode_article, encode_article
from rowtide.replication.distribution.delivery_interface import DeliveryProgress, JoiningArticle
from rowtide.replication.errors.subscribing import SubscriberUnprepared
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.targets.sqlite import restorations

# What it needs of the publisher's side is not installed where only files are checked.
if TYPE_CHECKING:
    from rowtide.replication.targets.subscriber_kind import NewSubscription

FORMAT = StoreFormat("subscriber's metadata in the file")
FORMAT_VIEW = "MSreplication_format"
SUBSCRIPTIONS = "MSreplication_subscriptions"
OBJECTS = "MSreplication_objects"
CHUNKS = "MSsnapshot_chunks"
STATEMENTS = "MSsnapshot_statements"
ARTICLES = "MSreplication_articles"
REPAIRS = "MSrepairs"
OWN_TABLES = (SUBSCRIPTIONS, OBJECTS, CHUNKS, STATEMENTS, ARTICLES, REPAIRS, restorations.RESTORATIONS)
"""Names that no published table may have."""

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
    subscription_guid text not null, place integer not null, statement text not null, article_id text,
    primary key (subscription_guid, place))
""",
    f"""
create table if not exists {ARTICLES} (
    subscription_guid text not null, article_id text not null, definition text not null, joined_as text,
    primary key (subscription_guid, article_id))
""",
    f"""
create table if not exists {REPAIRS} (
    subscription_guid text not null, repair_id text not null, ordinal integer not null, record text not null,
    primary key (subscription_guid, repair_id, ordinal))
""",
    restorations.CREATION,
    format_creation(FORMAT_VIEW, FORMAT),
)
"""The statements that create delivery's tables at a subscriber. Idempotent."""


def make_current(connection: sqlite3.Connection) -> None:
    """Create delivery's tables that are missing, in the caller's transaction. Raises as `require_writable`."""
    require_writable(connection)
    for statement in CREATIONS:
        connection.execute(statement)


def require_writable(connection: sqlite3.Connection) -> None:
    """Raise `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` unless this build may write to a file's tables."""
    _look(connection, StoreFormat.require_writable)


def is_made(connection: sqlite3.Connection) -> bool:
    """Return whether the file has delivery's tables. Raises as `require_writable`, unless this build may read them."""
    return _look(connection, StoreFormat.require_readable)


def _look(connection: sqlite3.Connection, requirement: Requirement) -> bool:
    is_there = has_table(connection, SUBSCRIPTIONS)
    if is_there:
        require(requirement, FORMAT, path_of(connection), read_format(connection, FORMAT_VIEW))
    return is_there


def record(connection: sqlite3.Connection, subscription: NewSubscription) -> None:
    """Record a new subscription and its tables, in the caller's transaction.

    A file can subscribe to an article only once: an older record of the same article is deleted. Its subscription was
    interrupted while being added, or was dropped without contacting the file; what it left to be restored is kept.
    """
    for article in subscription.articles:
        lost = f"select subscription_guid from {OBJECTS} where article_id = ?"
        for (guid,) in connection.execute(lost, (article.article_id,)).fetchall():
            restorations.adopt(connection, subscription.guid, guid)
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
            (subscription.guid, article.article_id, article.qualified_name, article.table)
            for article in subscription.articles
        ],
    )
    for article in subscription.articles:
        # A backup of now says what the file has, however the tables are altered later.
        record_altered(connection, subscription.guid, article)


def record_altered(connection: sqlite3.Connection, guid: str, article: Article) -> None:
    """Record an article as the subscriber has it, after a schema change too, in the caller's transaction."""
    connection.execute(
        f"insert into {ARTICLES} (subscription_guid, article_id, definition) values (?, ?, ?) "
        "on conflict (subscription_guid, article_id) do update set definition = excluded.definition",
        (guid, article.article_id, encode_article(article)),
    )
    connection.execute(
        f"update {OBJECTS} set article = ?, object_name = ? where subscription_guid = ? and article_id = ?",
        (article.qualified_name, article.table, guid, article.article_id),
    )


def read(connection: sqlite3.Connection, guid: str) -> tuple[DeliveryProgress, SnapshotStatus]:
    """Return a subscription's progress and that of its snapshot. Raises `SubscriberUnprepared`."""
    statement = (
        f"select transaction_timestamp, batch, epoch, snapshot_status from {SUBSCRIPTIONS} where subscription_guid = ?"
    )
    row = connection.execute(statement, (guid,)).fetchone() if is_made(connection) else None
    if row is None:
        raise SubscriberUnprepared(guid)
    position, batch, epoch, status = row
    return DeliveryProgress(Position(position), batch, epoch), SnapshotStatus(status)


def find_status(connection: sqlite3.Connection, guid: str) -> str | None:
    """Return how far the snapshot of a subscription is; None if the file does not know it."""
    if not is_made(connection):
        return None
    query = f"select snapshot_status from {SUBSCRIPTIONS} where subscription_guid = ?"
    row = connection.execute(query, (guid,)).fetchone()
    return None if row is None else str(row[0])


def has_joined(connection: sqlite3.Connection, guid: str) -> bool:
    """Return whether the article of a joining subscription became one of its subscription's."""
    query = f"select 1 from {ARTICLES} where joined_as = ?"
    return is_made(connection) and connection.execute(query, (guid,)).fetchone() is not None


def attach(connection: sqlite3.Connection, guid: str, joining: JoiningArticle) -> bool:
    """Make a joining article one of a subscription's, in the caller's transaction; false if it has another position."""
    article, known = joining.article, (joining.guid, joining.since.value)
    query = f"select 1 from {SUBSCRIPTIONS} where subscription_guid = ? and transaction_timestamp = ?"
    if connection.execute(query, known).fetchone() is None:
        return False
    _remove(connection, joining.guid)
    connection.execute(
        f"insert into {OBJECTS} values (?, ?, ?, ?)",
        (guid, article.article_id, article.qualified_name, article.table),
    )
    record_altered(connection, guid, article)
    connection.execute(
        f"update {ARTICLES} set joined_as = ? where subscription_guid = ? and article_id = ?",
        (joining.guid, guid, article.article_id),
    )
    return True


def detach(connection: sqlite3.Connection, guid: str, article: Article) -> None:
    """Remove an article that left a subscription, in the caller's transaction; its rows stay. Idempotent."""
    if not is_made(connection):
        return
    require_writable(connection)
    for table in (OBJECTS, ARTICLES, CHUNKS):
        connection.execute(
            f"delete from {table} where subscription_guid = ? and article_id = ?", (guid, article.article_id)
        )
    statement = f"delete from {STATEMENTS} where subscription_guid = ? and instr(statement, ?) > 0"
    connection.execute(statement, (guid, f" on {quote(article.table)} ("))


def read_articles(connection: sqlite3.Connection, guid: str, articles: Sequence[Article]) -> tuple[Article, ...]:
    """Return articles as the subscriber has them, after the schema changes that it has applied."""
    rows = connection.execute(f"select article_id, definition from {ARTICLES} where subscription_guid = ?", (guid,))
    altered = {article_id: decode_article(definition) for article_id, definition in rows}
    return tuple(altered.get(article.article_id, article) for article in articles)


def list_recorded(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the guids of the recorded subscriptions."""
    if not is_made(connection):
        return frozenset()
    return frozenset(guid for (guid,) in connection.execute(f"select subscription_guid from {SUBSCRIPTIONS}"))


def find_other(connection: sqlite3.Connection, article: Article, publication: str) -> str | None:
    """Describe the record of another article that is delivered to the same place; None if there is none.

    It is of the publication itself where its subscription was dropped without contacting the file, or two articles
    change their names with each other.
    """
    if not is_made(connection):
        return None
    other = connection.execute(
        f"select o.article, s.publication from {OBJECTS} o left join {SUBSCRIPTIONS} s using (subscription_guid) "
        "where o.object_name = ? and o.article_id <> ?",
        (article.table, article.article_id),
    ).fetchone()
    if other is None:
        return None
    table, of = other
    return f"{table} of {'an earlier' if of == publication else 'another'} subscription, to {of},"


def is_unfinished(connection: sqlite3.Connection, guid: str) -> bool:
    """Return whether a subscription's snapshot is not delivered yet."""
    query = f"select 1 from {SUBSCRIPTIONS} where subscription_guid = ? and snapshot_status <> ?"
    return is_made(connection) and connection.execute(query, (guid, SnapshotStatus.DELIVERED)).fetchone() is not None


def take_over(connection: sqlite3.Connection, guid: str, agent: str) -> DeliveryProgress:
    """Increment the epoch for a starting agent, in the caller's transaction; return it with the progress.

    Raises `SubscriberUnprepared`, and as `require_writable`.
    """
    statement = (
        f"update {SUBSCRIPTIONS} set epoch = epoch + 1, agent = ? where subscription_guid = ? "
        "returning transaction_timestamp, batch, epoch, (julianday('now') - julianday(time)) * 86400"
    )
    require_writable(connection)
    rows = connection.execute(statement, (agent, guid)).fetchall() if is_made(connection) else []
    if not rows:
        raise SubscriberUnprepared(guid)
    position, batch, epoch, age_s = rows[0]
    return DeliveryProgress(Position(position), batch, epoch, age_s if batch else None)


def find_difference(connection: sqlite3.Connection, guid: str, known: DeliveryProgress) -> str | None:
    """Describe how the file's progress differs from what an agent knows; None if it does not."""
    statement = f"select epoch, transaction_timestamp, agent from {SUBSCRIPTIONS} where subscription_guid = ?"
    row = connection.execute(statement, (guid,)).fetchone() if has_table(connection, SUBSCRIPTIONS) else None
    if row is None:
        return "no such subscription"
    epoch, position, agent = row
    if (epoch, position) == (known.epoch, known.position.value):
        return None
    return f"epoch {epoch}, position {position}, agent {agent}"


def advance(connection: sqlite3.Connection, guid: str, reached: Position) -> None:
    """Write the position that a batch reaches, in its transaction."""
    connection.execute(
        f"update {SUBSCRIPTIONS} set transaction_timestamp = ?, batch = batch + 1, "
        "time = strftime('%Y-%m-%d %H:%M:%f', 'now') where subscription_guid = ?",
        (reached.value, guid),
    )


def forget(connection: sqlite3.Connection, guid: str) -> None:
    """Remove a subscription's record, in the caller's transaction; with the last one, the tables."""
    if not is_made(connection):
        return
    _remove(connection, guid)
    if connection.execute(f"select 1 from {SUBSCRIPTIONS}").fetchone() is None:
        for table in OWN_TABLES:
            connection.execute(f"drop table if exists {table}")
        connection.execute(f"drop view if exists {FORMAT_VIEW}")


def _remove(connection: sqlite3.Connection, guid: str) -> None:
    for table in OWN_TABLES:
        connection.execute(f"delete from {table} where subscription_guid = ?", (guid,))
