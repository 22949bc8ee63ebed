"""Prepare a SQLite subscriber for a snapshot: empty tables, and the list of chunks to copy.

No foreign keys are created: SQLite enforces them only on request, and cannot add one to an existing table.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from rowtide.copying.chunks import Key
from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.sqlite.types import stored_type
from rowtide.replication.articles import Article
from rowtide.replication.errors import SubscriberTableConstrained, SubscriberTableExists
from rowtide.replication.snapshot.table_details import TableDetails, UniqueConstraint
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.sync_types import IfExists
from rowtide.replication.targets.new_subscription import NewSnapshot
from rowtide.replication.targets.sqlite.progress import CHUNKS, STATEMENTS, SUBSCRIPTIONS

_CLEARING = {
    IfExists.DELETE: "delete from {}",
    IfExists.TRUNCATE: "delete from {}",
    IfExists.DROP: "drop table {}",
}


def make_tables(connection: sqlite3.Connection, articles: Sequence[Article], snapshot: NewSnapshot) -> None:
    """Create the tables, or empty existing ones, in the caller's transaction.

    Raises `SubscriberTableExists`, `SubscriberTableConstrained`.
    """
    for article in articles:
        is_present = find_table(connection, article.table) is not None
        if is_present:
            _clear(connection, article, snapshot.if_exists)
        if not is_present or snapshot.if_exists is IfExists.DROP:
            connection.execute(create_table(article))


def record_snapshot(
    connection: sqlite3.Connection, guid: str, articles: Sequence[Article], snapshot: NewSnapshot
) -> None:
    """Record the chunks to copy, and the statements to run afterwards, in the caller's transaction."""
    is_kept = snapshot.if_exists in (IfExists.KEEP, IfExists.DELETE, IfExists.TRUNCATE)
    pairs = [] if is_kept else zip(articles, snapshot.details, strict=True)
    statements = [statement for article, details in pairs for statement in constrain(article, details)]
    connection.execute(
        f"update {SUBSCRIPTIONS} set snapshot_status = ? where subscription_guid = ?", (SnapshotStatus.COPYING, guid)
    )
    connection.executemany(
        f"insert into {STATEMENTS} values (?, ?, ?)",
        [(guid, place, statement) for place, statement in enumerate(statements)],
    )
    connection.executemany(
        f"insert into {CHUNKS} (subscription_guid, article_id, chunk, low, high) values (?, ?, ?, ?, ?)",
        [
            (guid, chunk.member_id, chunk.number, encode_key(chunk.low), encode_key(chunk.high))
            for chunk in snapshot.chunks
        ],
    )


def create_table(article: Article) -> str:
    """Return the statement that creates an article's table with its key, without other constraints."""
    lines = [
        f"{quote(column.name)} {stored_type(column.value_type_text).declaration}"
        f"{'' if column.is_nullable else ' not null'}"
        for column in article.columns
    ]
    if article.key_columns:
        lines.append(f"primary key ({', '.join(quote(column.name) for column in article.key_columns)})")
    return f"create table {quote(article.table)} (\n    " + ",\n    ".join(lines) + "\n)"


def constrain(article: Article, details: TableDetails) -> Iterator[str]:
    """Return the statements that create indexes for a table's unique constraints."""
    for constraint in _published(article, details):
        if not constraint.is_deferrable:
            columns = ", ".join(map(quote, constraint.columns))
            yield f"create unique index {quote(constraint.name)} on {quote(article.table)} ({columns})"


def find_unmade(articles: Sequence[Article], snapshot: NewSnapshot) -> tuple[str, ...]:
    """Return the unique constraints for which no index is created, in readable form.

    SQLite checks each row at once, and would refuse what the publisher checks at the end of a statement or transaction.
    """
    return tuple(
        f"{constraint.name} of {article.schema}.{article.table}"
        for article, details in zip(articles, snapshot.details, strict=True)
        for constraint in _published(article, details)
        if constraint.is_deferrable
    )


def _published(article: Article, details: TableDetails) -> Iterator[UniqueConstraint]:
    published = {column.name for column in article.columns}
    return (constraint for constraint in details.unique if published.issuperset(constraint.columns))


def encode_key(key: Key | None) -> str | None:
    """Return a chunk's bound as it is stored."""
    return None if key is None else json.dumps(key)


def decode_key(text: str | None) -> Key | None:
    """Read a bound stored by `encode_key`."""
    return None if text is None else tuple(json.loads(text))


def _clear(connection: sqlite3.Connection, article: Article, if_exists: IfExists) -> None:
    name = f"{article.schema}.{article.table}"
    if if_exists is IfExists.FAIL:
        raise SubscriberTableExists(name)
    if if_exists is not IfExists.DROP:
        found = connection.execute(_UNIQUE, (article.table,)).fetchall()
        if found:
            raise SubscriberTableConstrained(name, ", ".join(f"unique index {row[0]}" for row in found))
    if if_exists in _CLEARING:
        connection.execute(_CLEARING[if_exists].format(quote(article.table)))


_UNIQUE = "select name from pragma_index_list(?) where \"unique\" and origin <> 'pk' order by name"
