"""Prepare a SQLite subscriber for delivery. Idempotent."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path

from rowtide.core.operations import Operation
from rowtide.databases.file_access import make_file
from rowtide.databases.sqlite.catalogue import Column, Table, find_table
from rowtide.databases.sqlite.connect import IN_MEMORY
from rowtide.databases.sqlite.errors import FileNotOpened
from rowtide.databases.sqlite.sql_text import fold
from rowtide.databases.sqlite.values import affinity, stored_type
from rowtide.databases.urls import parse_url
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.errors.subscribing import (
    ArticleTableMissing,
    ColumnAlters,
    ConstraintsUnsupported,
    NameShared,
    ProceduresUnsupported,
    StreamsUnsupported,
    SubscriberWithoutFile,
)
from rowtide.replication.targets.sqlite import progress, restorations
from rowtide.replication.targets.sqlite.files import SubscriberFile, path_of
from rowtide.replication.targets.sqlite.new_snapshot import find_unmade, make_tables
from rowtide.replication.targets.subscriber_kind import NewSubscription

_OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
_NO_FILES = (IN_MEMORY, ":memory:")
_OPTIONS = "file:"
"""Prefix of a path from which SQLite reads options."""


def address(url: str) -> str:
    """Return the URL of a subscriber as stored: with an absolute path, as agents may run in other directories.

    Raises `SubscriberWithoutFile`.
    """
    path = path_of(url)
    if path in _NO_FILES or path.startswith(_OPTIONS):
        raise SubscriberWithoutFile(str(parse_url(url)))
    return str(replace(parse_url(url), database=os.path.abspath(path)))


def prepare(url: str, subscription: NewSubscription) -> Sequence[str]:
    """Record progress and articles in a file, and create its tables for a snapshot, in one transaction.

    Returns the unique constraints that its tables do not get. A file that does not exist is created, but only for a
    snapshot. Raises `ArticleTableMissing`, `ColumnAlters`, `NameShared`, `ProceduresUnsupported`,
    `ConstraintsUnsupported`, `SubscriberTableExists`, `SubscriberTablesUnfit`, `FileNotOpened`, `FileBusy`,
    `SubscriberFileFailed`.
    """
    _require_own_places(subscription.articles)
    _require_no_procedures(subscription.articles)
    if subscription.constraints is not None:
        raise ConstraintsUnsupported(path_of(url))
    snapshot = subscription.snapshot
    if snapshot is not None:
        _make_file(url)
    with closing(SubscriberFile(url)) as file, file.transaction() as connection:
        progress.make_current(connection)
        for article in subscription.articles:
            other = progress.find_other(connection, article, subscription.publication)
            if other is not None:
                raise NameShared(article.table, article.qualified_name, other)
        progress.record(connection, subscription)
        if snapshot is None:
            restorations.restore(connection, subscription.guid)
        else:
            make_tables(connection, subscription, snapshot)
        for article in subscription.articles:
            _require_columns(connection, article)
    return () if snapshot is None else find_unmade(subscription.articles, snapshot)


def creations(_articles: Iterable[Article]) -> Sequence[str]:
    """Return the statements that create delivery's tables: the same for all articles."""
    return progress.CREATIONS


def require_streams(url: str, _guid: str, streams: int) -> None:
    """Require one stream. Raises `StreamsUnsupported`."""
    if streams > 1:
        raise StreamsUnsupported(path_of(url), streams)


def forget(url: str, guid: str, articles: Iterable[Article], *, is_added_again: bool) -> None:
    """Remove a subscription's record from a file; its tables stay, with the triggers that they had. Idempotent.

    In the middle of a copy that `is_added_again`, the triggers stay recorded for that. Raises `RestorationRefused`.
    """
    del articles  # A file has no procedures.
    with closing(SubscriberFile(url)) as file, file.transaction() as connection:
        if progress.is_made(connection) and not (is_added_again and progress.is_unfinished(connection, guid)):
            restorations.restore(connection, guid)
            progress.forget(connection, guid)


def _make_file(url: str) -> None:
    """Create an empty file, which is a database without tables."""
    path = path_of(url)
    try:
        make_file(Path(path))
    except OSError as error:
        raise FileNotOpened(path, error.strerror or str(error)) from error


def _require_own_places(articles: Iterable[Article]) -> None:
    """Raise `NameShared`: at the publisher, schemas and the case of ASCII letters distinguish tables and columns.

    Here not.
    """
    tables = {fold(name): f"rowtide's own {name}" for name in (*progress.OWN_TABLES, progress.FORMAT_VIEW)}
    for article in articles:
        name = article.qualified_name
        _claim(tables, article.table, name)
        columns: dict[str, str] = {}
        for column in article.columns:
            _claim(columns, column.name, f"{name}.{column.name}")


def _claim(taken: dict[str, str], name: str, owner: str) -> None:
    other = taken.setdefault(fold(name), owner)
    if other != owner:
        raise NameShared(name, other, owner)


def _require_no_procedures(articles: Iterable[Article]) -> None:
    for article, operation in product(articles, _OPERATIONS):
        procedure = article.command(operation).procedure
        if procedure is not None:
            raise ProceduresUnsupported(procedure, operation.name.lower(), article.qualified_name)


def _require_columns(connection: sqlite3.Connection, article: Article) -> None:
    table = find_table(connection, article.table)
    present = {fold(column.name): column for column in table.columns} if table is not None else {}
    missing = [column.name for column in article.columns if not _is_written(present.get(fold(column.name)))]
    if table is None or missing:
        raise ArticleTableMissing(article.qualified_name, ", ".join(missing))
    for column in article.columns:
        _require_kept(article, column, table, present[fold(column.name)])


def _is_written(column: Column | None) -> bool:
    return column is not None and not column.is_generated


def _require_kept(article: Article, published: PublishedColumn, table: Table, column: Column) -> None:
    stored = stored_type(published.value_type_text)
    if affinity(column.type_text, is_strict=table.is_strict) not in stored.keeping:
        raise ColumnAlters(
            article.qualified_name,
            published.name,
            column.type_text,
            published.type_text,
            stored.declaration,
        )
