"""Tables that a SQLite file had before it subscribed: whether they fit, and their triggers, off while they are copied.

A trigger would act on rows whose effects are copied too, and SQLite has no way to disable one: they are dropped, and
created again when the snapshot is delivered. rowtide's connections enforce no foreign keys; unique indexes stay.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence, Set

from rowtide.databases.sqlite.catalogue import Column, find_table, read_triggers
from rowtide.databases.sqlite.sql_text import fold, quote
from rowtide.databases.sqlite.values import affinity, stored_type
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.errors.subscribing import SubscriberTablesUnfit
from rowtide.replication.targets.sqlite.restorations import SqliteRestoration


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
