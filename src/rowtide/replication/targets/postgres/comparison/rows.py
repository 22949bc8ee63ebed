"""The rows of a PostgreSQL database in one snapshot, as they are compared: a subscriber's, or the published ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from rowtide.copying.chunks import TransactionSnapshot, locking_name, parse_snapshot
from rowtide.copying.present_tables import find_reader
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import LOCK_TIMEOUT_S
from rowtide.databases.postgres.connect import open_url
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import PIN_PATH
from rowtide.databases.postgres.quoting import read_operators, running
from rowtide.databases.postgres.session_settings import STREAM_SETTINGS, WHOLE_TABLES
from rowtide.databases.postgres.values import is_of_server
from rowtide.replication.articles.articles import Article
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.targets.compared_rows import (
    BY_HASH,
    Buckets,
    Division,
    Fingerprint,
    HashedRow,
    Ranges,
    Row,
    SubscribedRows,
    divide,
    make_ranges,
)
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.comparison import read_tables
from rowtide.replication.targets.postgres.connecting import connect

_Connection = psycopg.Connection[tuple[Any, ...]]
_APPLICATION_NAME = "rowtide validation"
_ROWS_FETCHED = 5000
_PAGES_SAMPLED = 1000
_XID_MASK = 0xFFFFFFFF
"""Sessions show only the lower 32 bits of transaction ids."""


@frozen
class PostgresComparedRows:
    """See `ComparedRows`. `tables` are the articles' by id; with `is_locked`, nobody else writes the rows found."""

    connection: _Connection
    tables: Mapping[str, read_tables.ReadTable]
    is_locked: bool = False

    def read_buckets(self, article: Article, division: Division, *, with_checksum: bool) -> Buckets:
        """See `ComparedRows`."""
        statement = read_tables.fingerprints(self.tables[article.article_id], division, with_checksum=with_checksum)
        with self._reading(article):
            rows = self.connection.execute(sql.SQL(statement)).fetchall()
        return {int(row[0]): Fingerprint(int(row[1]), None if row[2] is None else int(row[2])) for row in rows}

    def list_rows(self, article: Article, division: Division, chosen: Collection[int]) -> Iterator[HashedRow]:
        """See `ComparedRows`."""
        statement = read_tables.hashed_rows(self.tables[article.article_id], division, chosen)
        with self._reading(article), self.connection.cursor(name="listed") as cursor:
            cursor.itersize = _ROWS_FETCHED
            for key_hash, row_hash, *key in cursor.execute(sql.SQL(statement)):
                yield HashedRow(key_hash, row_hash, _as_row(key))

    def find_rows(self, article: Article, keys: Sequence[Row]) -> Sequence[Row]:
        """See `ComparedRows`."""
        statement = read_tables.rows_by_key(self.tables[article.article_id], is_locked=self.is_locked)
        arrays = [[_as_text(value) for value in values] for values in zip(*keys, strict=True)]
        with self._reading(article):
            rows = psycopg.RawCursor(self.connection).execute(sql.SQL(statement), arrays).fetchall()
        return [_as_row(row) for row in rows]

    def read_key(self, article: Article, texts: Sequence[str]) -> Row:
        """Return a key, given by texts as SQL reads them, as the log has it. Raises `ValueError`."""
        columns = self.tables[article.article_id].key
        values = ", ".join(f"format('%s', ${index}::{column.type_text})" for index, column in enumerate(columns, 1))
        try:
            with self.connection.transaction():
                row = psycopg.RawCursor(self.connection).execute(sql.SQL(f"select {values}"), list(texts)).fetchone()
        except psycopg.DataError as error:
            raise ValueError(error.diag.message_primary) from error
        assert row is not None
        return _as_row(row)

    def divide(self, article: Article) -> Division:
        """Return how an article's rows are divided to be compared. It costs a sample of the table's pages."""
        table = self.tables[article.article_id]
        if not any(column.order for column in table.key):
            return BY_HASH
        with translated():
            (pages,) = self.connection.execute(sql.SQL(read_tables.PAGES), (table.oid, table.oid)).fetchone() or (0,)
        percent = min(100.0, 100.0 * _PAGES_SAMPLED / max(pages, 1))
        possible: list[Ranges] = []
        with self._reading(article):
            for column in table.key:
                if column.order is not None:
                    statement = read_tables.sampled_rows(table, column, percent)
                    texts = (str(text).encode() for (text,) in self.connection.execute(sql.SQL(statement)))
                    possible.append(make_ranges(column.published, column.order, texts))
        return divide(possible)

    @contextmanager
    def _reading(self, article: Article) -> Iterator[None]:
        """Read a table; then return to rowtide's path, if the owner's code ran and may have set another."""
        with translated():
            yield
            if self.tables[article.article_id].reader is not None:
                self.connection.execute(PIN_PATH)

    def unfiltered(self) -> PostgresComparedRows:
        """Return all rows of the tables, also those that a filter excludes."""
        return replace(self, tables={name: replace(table, condition=None) for name, table in self.tables.items()})


@frozen
class PublishedRows:
    """The published rows in one snapshot of the publisher.

    `constraints` say why an article's rows cannot be read as the subscriber has them, by id. What is before the log
    position `begin` is seen by the snapshot, unless its commit has waited since `unseen_since`; None if none has.
    `unpublished` are columns that an article's table has now, and the article has not, by its id.
    """

    rows: PostgresComparedRows
    begin: int
    snapshot: TransactionSnapshot
    unseen_since: datetime | None
    constraints: Mapping[str, str]
    unpublished: Mapping[str, tuple[str, ...]]


@contextmanager
def open_subscribed(subscription: Subscription, articles: Sequence[Article]) -> Iterator[SubscribedRows]:
    """Read a subscriber in one snapshot. Raises `ConnectionFailed`, `SubscriberUnprepared`."""
    opened = connect(
        subscription.subscriber, application_name=_APPLICATION_NAME, settings=STREAM_SETTINGS | WHOLE_TABLES
    )
    with closing(opened) as connection:
        if progress.list_recorded(connection):
            # No agent of this build may have opened it since another one did.
            progress.make_current(connection)
        yield _read_between_batches(connection, subscription, articles)


def _read_between_batches(
    connection: _Connection, subscription: Subscription, articles: Sequence[Article]
) -> SubscribedRows:
    """Begin a snapshot that has each batch whole.

    The streams of a batch commit one after the other, the one with the position first.
    """
    has_streams = progress.has_streams(connection, subscription.guid)
    while True:
        with _holding_off(subscription) if has_streams else nullcontext():
            with translated():
                _begin_with_locks(connection, articles)
            subscribed = read_subscribed(connection, subscription, articles)
        if has_streams or not progress.has_streams(connection, subscription.guid):
            return subscribed
        # The first batch in streams of all.
        has_streams = True
        connection.execute("rollback")


def _begin_with_locks(connection: _Connection, articles: Sequence[Article]) -> None:
    """Begin a transaction in which no other session truncates or rewrites the articles' tables.

    They are locked before its snapshot is taken: to an earlier one, a table that was rewritten since is empty.
    """
    while True:
        found = [read_tables.find_by_name(connection, article.schema, article.table) for article in articles]
        present = [table for table in found if table is not None]
        for table in present:
            # It creates a function, which the transaction may not.
            find_reader(connection, table.oid)
        connection.execute("begin isolation level repeatable read read only")
        try:
            for table in present:
                locking = locking_name(table.schema, table.table, is_partitioned=table.is_partitioned)
                connection.execute(sql.SQL(locking))
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            connection.execute("rollback")
        else:
            return


@contextmanager
def _holding_off(subscription: Subscription) -> Iterator[None]:
    """Wait for the end of a batch, and let none begin."""
    with closing(connect(subscription.subscriber, application_name=_APPLICATION_NAME)) as connection:
        with translated():
            connection.execute("begin")
        progress.read(connection, subscription.guid, for_update=True)
        yield


def read_subscribed(
    connection: _Connection, subscription: Subscription, articles: Sequence[Article], *, for_update: bool = False
) -> SubscribedRows:
    """Return a subscriber's rows, within a transaction; `for_update`: neither a batch nor others write them."""
    known, status = progress.read(connection, subscription.guid, for_update=for_update)
    held = progress.read_articles(connection, subscription.guid, articles)
    tables: dict[str, read_tables.ReadTable] = {}
    constraints: dict[str, str] = {}
    with translated():
        for article in held:
            present = read_tables.find_by_name(connection, article.schema, article.table)
            read = (
                "the subscriber has no such table" if present is None else read_tables.as_subscribed(article, present)
            )
            _sort(article, _with_reader(connection, read), tables, constraints)
    return SubscribedRows(
        PostgresComparedRows(connection, tables, is_locked=for_update), known, status, held, constraints
    )


@contextmanager
def open_published(url: str, articles: Sequence[Article]) -> Iterator[PublishedRows]:
    """Read a publisher in one snapshot, in which the articles' tables cannot be truncated or altered."""
    settings = STREAM_SETTINGS | WHOLE_TABLES | {"lock_timeout": f"{LOCK_TIMEOUT_S}s"}
    with closing(open_url(url, application_name=_APPLICATION_NAME, settings=settings)) as connection:
        tables: dict[str, read_tables.ReadTable] = {}
        constraints: dict[str, str] = {}
        unpublished: dict[str, tuple[str, ...]] = {}
        with translated():
            begin = connection.execute("select (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
            assert begin is not None
            found = _lock(connection, articles, constraints)
            row = connection.execute("select pg_current_snapshot()::text").fetchone()
            assert row is not None
            snapshot = parse_snapshot(row[0])
            unfinished = [xid & _XID_MASK for xid in snapshot.in_progress]
            since = connection.execute(_UNSEEN_SINCE, {"xids": unfinished}).fetchone()
        for article in articles:
            if article.article_id not in constraints:
                present = found[article.article_id]
                unpublished[article.article_id] = read_tables.list_unpublished(article, present)
                read = read_tables.as_published(article, present)
                _sort(article, _with_reader(connection, read), tables, constraints)
        unseen_since = since[0] if since is not None else None
        yield PublishedRows(
            PostgresComparedRows(connection, tables), int(begin[0]), snapshot, unseen_since, constraints, unpublished
        )


def _with_reader(connection: _Connection, read: read_tables.ReadTable | str) -> read_tables.ReadTable | str:
    """Return a table with what reading it takes, where it or a type of its key belongs to others."""
    if isinstance(read, str):
        return read
    equal: Mapping[str, str] = {}
    if not all(is_of_server(column.type_text) for column in read.key):
        operators = read_operators(running(connection), read.source.removeprefix("only "))
        equal = {name: each.equal for name, each in operators.items()}
    return replace(read, reader=find_reader(connection, read.oid), equal=equal)


def _sort(
    article: Article,
    read: read_tables.ReadTable | str,
    tables: dict[str, read_tables.ReadTable],
    constraints: dict[str, str],
) -> None:
    if isinstance(read, str):
        constraints[article.article_id] = read
    else:
        tables[article.article_id] = read


def _lock(
    connection: _Connection, articles: Sequence[Article], constraints: dict[str, str]
) -> Mapping[str, read_tables.CatalogueTable]:
    """Begin a transaction in which tables stay as they are returned, except those with a constraint.

    They are locked before its snapshot is taken: to an earlier snapshot, a table that was truncated since is empty.
    """
    while True:
        found = _find(connection, articles, constraints)
        for present in found.values():
            find_reader(connection, present.oid)
        connection.execute("begin isolation level repeatable read read only")
        if _try_locks(connection, found, constraints) and _find(connection, articles, constraints) == found:
            return found
        connection.execute("rollback")


def _find(
    connection: _Connection, articles: Sequence[Article], constraints: dict[str, str]
) -> Mapping[str, read_tables.CatalogueTable]:
    found: dict[str, read_tables.CatalogueTable] = {}
    for article in articles:
        if article.article_id in constraints:
            continue
        present = read_tables.find_by_id(connection, article.source_id)
        if present is None:
            constraints[article.article_id] = "it was dropped at the publisher"
        else:
            found[article.article_id] = present
    return found


def _try_locks(
    connection: _Connection, found: Mapping[str, read_tables.CatalogueTable], constraints: dict[str, str]
) -> bool:
    """Lock tables by the names that they had; return whether all could be."""
    for article_id, present in found.items():
        locking = locking_name(present.schema, present.table, is_partitioned=present.is_partitioned)
        try:
            connection.execute(sql.SQL(locking))
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return False
        except psycopg.errors.LockNotAvailable:
            constraints[article_id] = f"another session has it locked at the publisher for {LOCK_TIMEOUT_S} s"
            return False
    return True


def _as_row(values: Sequence[str | None]) -> Row:
    return tuple(None if value is None else value.encode() for value in values)


def _as_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


# What is seen idle can only commit after everything that is in the log now. Other roles' times may be hidden.
_UNSEEN_SINCE = """
select min(coalesce(xact_start, clock_timestamp() - interval '10 minutes')) - interval '1 minute'
from pg_stat_activity
where datname = current_database() and backend_xid::text::bigint = any(%(xids)s)
  and state is distinct from 'idle in transaction' and state is distinct from 'idle in transaction (aborted)'
"""
