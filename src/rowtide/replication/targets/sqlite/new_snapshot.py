"""Prepare a SQLite subscriber for a snapshot: empty tables, and the list of chunks to copy.

No foreign keys are created: SQLite enforces them only on request, and cannot add one to an existing table.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from rowtide.copying.chunks import Chunk, Key, uncut
from rowtide.databases.sqlite.catalogue import Column, find_table, read_triggers
from rowtide.databases.sqlite.sql_text import fold, quote
from rowtide.databases.sqlite.values import affinity, stored_type
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.articles.schema_changes import ArticleTableRenamed, Followed
from rowtide.replication.errors.delivery import CopyRefused
from rowtide.replication.errors.subscribing import SubscriberTableExists, SubscriberTablesUnfit
from rowtide.replication.snapshot.target import SnapshotStatus, TableDetails, UniqueConstraint
from rowtide.replication.subscription_settings import IfExists
from rowtide.replication.targets.sqlite import restorations
from rowtide.replication.targets.sqlite.alterations import ChangeNotMade, follow
from rowtide.replication.targets.sqlite.files import code_of
from rowtide.replication.targets.sqlite.progress import CHUNKS, STATEMENTS, SUBSCRIPTIONS
from rowtide.replication.targets.sqlite.restorations import SqliteRestoration
from rowtide.replication.targets.subscriber_kind import NewSnapshot, NewSubscription

# Tables that a SQLite file had before it subscribed: whether they fit, and their triggers, off while they are copied.
# A trigger would act on rows whose effects are copied too, and SQLite has no way to disable one: they are dropped,
# and created again when the snapshot is delivered. Foreign keys are not enforced by rowtide's connections; unique
# indexes stay.


def require_fitting(connection: sqlite3.Connection, kept: Sequence[Article]) -> None:
    """Raise `SubscriberTablesUnfit`, with everything in kept tables that published rows would not fit."""
    reasons = [f"{article.qualified_name}: {reason}" for article in kept for reason in _find_unfit(connection, article)]
    if reasons:
        raise SubscriberTablesUnfit("; ".join(reasons))


def find_whole(connection: sqlite3.Connection, kept: Sequence[Article]) -> Set[str]:
    """Return, by article id, the kept tables that must be copied in one chunk.

    Those that are unique by more than their key: it holds in one snapshot, not between several. Those with rows: a
    copy that a truncate tears begins again with an empty table.
    """
    return {
        article.article_id
        for article in kept
        if connection.execute(_UNIQUE_BESIDES_KEY, (article.table,)).fetchone() is not None
        or connection.execute(f"select 1 from {quote(article.table)} limit 1").fetchone() is not None
    }


def switch_off(connection: sqlite3.Connection, kept: Sequence[Article]) -> list[SqliteRestoration]:
    """Drop the triggers of kept tables, in the caller's transaction; return what creates them again."""
    restorations = []
    for article in kept:
        for name, statement in read_triggers(connection, article.table).items():
            connection.execute(f"drop trigger {quote(name)}")
            restorations.append(SqliteRestoration(article.article_id, statement))
    return restorations


def _find_unfit(connection: sqlite3.Connection, article: Article) -> Iterator[str]:
    table = find_table(connection, article.table)
    assert table is not None
    for published in article.columns:
        reason = _find_reason(published, table.find_column(published.name), is_strict=table.is_strict)
        if reason is not None:
            yield f"column {published.name} {reason}"
    known = {fold(column.name) for column in article.columns}
    if article.insert.call_format is not CallFormat.NONE:
        for column in table.columns:
            is_filled = column.is_nullable or column.default is not None or column.is_generated
            if fold(column.name) not in known and not is_filled:
                yield f"column {column.name} is not null, has no default and is not published"


def _find_reason(published: PublishedColumn, column: Column | None, *, is_strict: bool) -> str | None:
    """Return why a column does not take what is published; None if it does."""
    stored = stored_type(published.value_type_text)
    if column is None:
        return f"({stored.declaration}) is missing"
    if column.is_generated:
        return "is generated"
    if affinity(column.type_text, is_strict=is_strict) not in stored.keeping:
        return f"is declared {column.type_text}, which would change {published.type_text} values: {stored.declaration}"
    if published.is_nullable and not column.is_nullable:
        return "is not null, but published with nulls"
    return None


_UNIQUE_BESIDES_KEY = "select 1 from pragma_index_list(?) where \"unique\" and origin <> 'pk' limit 1"


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
