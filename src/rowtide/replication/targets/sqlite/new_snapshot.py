"""Prepare a SQLite subscriber for a snapshot: empty tables, and the list of chunks to copy.

No foreign keys are created: SQLite enforces them only on request, and cannot add one to an existing table.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rowtide.copying.chunks import Chunk, Key, uncut
from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.sql_text import quote
from rowtide.databases.sqlite.values import stored_type
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import ArticleTableRenamed, Followed
from rowtide.replication.errors.delivery import CopyRefused
from rowtide.replication.errors.subscribing import SubscriberTableExists
from rowtide.replication.snapshot.table_details import TableDetails, UniqueConstraint
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.subscription_settings import IfExists
from rowtide.replication.targets.sqlite import restorations
from rowtide.replication.targets.sqlite.alterations import ChangeNotMade, follow
from rowtide.replication.targets.sqlite.files import code_of
from rowtide.replication.targets.sqlite.own_tables import find_whole, require_fitting, switch_off
from rowtide.replication.targets.sqlite.progress import CHUNKS, STATEMENTS, SUBSCRIPTIONS
from rowtide.replication.targets.subscriber_kind import NewSnapshot, NewSubscription

_CLEARING = {
    IfExists.DELETE: "delete from {}",
    IfExists.TRUNCATE: "delete from {}",
    IfExists.DROP: "drop table {}",
}


def make_tables(connection: sqlite3.Connection, new: NewSubscription, snapshot: NewSnapshot) -> None:
    """Create the tables, or empty existing ones and drop their triggers for the copy; record what is to be copied.

    In the caller's transaction. Raises `SubscriberTableExists`, `SubscriberTablesUnfit`.
    """
    articles, if_exists = new.articles, snapshot.if_exists
    _rename(connection, new)
    present = [article for article in articles if find_table(connection, article.table) is not None]
    if present and if_exists is IfExists.FAIL:
        raise SubscriberTableExists(", ".join(article.qualified_name for article in present))
    kept = [] if if_exists is IfExists.DROP else present
    if not new.altered:
        require_fitting(connection, kept)
    if if_exists in (IfExists.DROP, IfExists.FAIL):
        restorations.discard(connection, new.guid)
    restorations.record(connection, new.guid, switch_off(connection, kept))
    for article in present if if_exists in _CLEARING else ():
        connection.execute(_CLEARING[if_exists].format(quote(article.table)))
    for followed in new.altered:
        if followed.article in kept:
            _alter(connection, new.guid, followed)
    pairs = [pair for pair in zip(articles, snapshot.details, strict=True) if pair[0] not in kept]
    for article, _ in pairs:
        connection.execute(create_table(article))
    _record(connection, new.guid, uncut(snapshot.chunks, find_whole(connection, kept)))
    _add_constraints(connection, new.guid, pairs)


def _rename(connection: sqlite3.Connection, new: NewSubscription) -> None:
    """Give a table that is copied again the name that the published one has by now."""
    if new.renamed is None:
        return
    (_, table), article = new.renamed
    if find_table(connection, table) is not None and find_table(connection, article.table) is None:
        connection.execute(f"alter table {quote(table)} rename to {quote(article.table)}")


def _alter(connection: sqlite3.Connection, guid: str, followed: Followed) -> None:
    """Bring an empty table, which has its name already, through the changes of the published one."""
    article = followed.article
    named = replace(followed.before, schema=article.schema, table=article.table)
    changes = tuple(change for change in followed.changes if not isinstance(change, ArticleTableRenamed))
    try:
        follow(connection, guid, replace(followed, before=named, changes=changes))
    except ChangeNotMade as found:
        raise CopyRefused(article.qualified_name, code_of(found.error), str(found.error)) from found.error


def renew_constraints(
    connection: sqlite3.Connection, guid: str, details: Sequence[tuple[Article, TableDetails]]
) -> None:
    """Record the constraints that tables have now, in the caller's transaction: they were altered since.

    Only of tables that get any: those that were there have their own.
    """
    query = f"select article_id from {STATEMENTS} where subscription_guid = ? and article_id is not null"
    constrained = {article_id for (article_id,) in connection.execute(query, (guid,))}
    connection.execute(f"delete from {STATEMENTS} where subscription_guid = ? and article_id is not null", (guid,))
    _add_constraints(connection, guid, [pair for pair in details if pair[0].article_id in constrained])


def _add_constraints(
    connection: sqlite3.Connection, guid: str, details: Sequence[tuple[Article, TableDetails]]
) -> None:
    statements = [(article.article_id, text) for article, found in details for text in constrain(article, found)]
    connection.executemany(
        f"insert into {STATEMENTS} (subscription_guid, place, article_id, statement) values (?, ?, ?, ?)",
        [(guid, index, *known) for index, known in enumerate(statements)],
    )


def _record(connection: sqlite3.Connection, guid: str, chunks: Sequence[Chunk]) -> None:
    connection.execute(
        f"update {SUBSCRIPTIONS} set snapshot_status = ? where subscription_guid = ?", (SnapshotStatus.COPYING, guid)
    )
    connection.executemany(
        f"insert into {CHUNKS} (subscription_guid, article_id, chunk, low, high) values (?, ?, ?, ?, ?)",
        [(guid, chunk.member_id, chunk.number, encode_key(chunk.low), encode_key(chunk.high)) for chunk in chunks],
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
        f"{constraint.name} of {article.qualified_name}"
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
