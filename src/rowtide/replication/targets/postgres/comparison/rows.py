"""The rows of a PostgreSQL database in one snapshot, as they are compared: a subscriber's, or the published ones.

Statements that read a table's rows to compare them; see the canonical text of `targets.compared_rows`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from rowtide.copying.chunk_statements import locking_name
from rowtide.copying.chunks import TransactionSnapshot, parse_snapshot
from rowtide.copying.present_tables import find_reader
from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import STREAM_SETTINGS, WHOLE_TABLES, open_url
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import PIN_PATH
from rowtide.databases.postgres.locks import LOCK_TIMEOUT_S
from rowtide.databases.postgres.operators import read_operators
from rowtide.databases.postgres.owners import read_by
from rowtide.databases.postgres.quoting import quote
from rowtide.databases.postgres.text_queries import running
from rowtide.databases.postgres.values import is_of_server, value_of
from rowtide.replication.articles.articles import Article
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.targets.compared_rows import (
    BY_HASH,
    NULL,
    SAMPLED,
    SEPARATOR,
    Buckets,
    Division,
    Fingerprint,
    Hashed,
    HashedRow,
    Order,
    Ranges,
    Row,
    SubscribedRows,
    TextForm,
    divide,
    make_ranges,
    runs_of,
)
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.comparison.read_tables import (
    CatalogueTable,
    ReadColumn,
    ReadTable,
    as_published,
    as_subscribed,
    find_by_id,
    find_by_name,
)
from rowtide.replication.targets.postgres.connecting import connect

_TYPES = {Order.NUMBER: "bigint", Order.UUID: "uuid"}
_MOST_RUNS = 32
"""Of adjacent buckets that are searched for by an index; of more, the table is read."""


def fingerprints(table: ReadTable, division: Division, *, with_checksum: bool) -> str:
    """Return the statement that counts rows and sums their hashes by bucket."""
    bucket = _bucket(table, division)
    checksum = f"sum({_hash(table.columns)})::text" if with_checksum else "null"
    query = f"select ({bucket})::bigint, count(*), {checksum}::text from {table.source}{_where(table)} group by 1"
    return read_by(table.reader, query, [("bucket", "bigint"), ("rows", "bigint"), ("checksum", "text")])


def sampled_rows(table: ReadTable, column: ReadColumn, percent: float) -> str:
    """Return the statement that finds texts between which equally many values lie, of a sample of the table's pages."""
    sample = f"select {column.value} as v from {table.source} tablesample system ({percent}){_where(table)}"
    placed = f"select v, row_number() over (order by v) as n, count(*) over () as of from ({sample}) as sample"
    is_bound = f"n in (1, of) or n % greatest(of / {SAMPLED}, 1) = 0"
    query = f"select v::text from ({placed}) as placed where v is not null and ({is_bound})"
    return read_by(table.reader, query, [("v", "text")])


def hashed_rows(table: ReadTable, division: Division, chosen: Collection[int]) -> str:
    """Return the statement that lists the rows of some buckets: hashes of key and row, and the key's texts.

    Their order is that of numbers, the same in every database.
    """
    key_hash = _hash(table.key)
    keys = "".join(f", {_text(column)}" for column in table.key)
    condition = _where(table, _bucket_condition(table, division, chosen))
    query = f"select {key_hash}, {_hash(table.columns)}{keys} from {table.source}{condition} order by 1"
    return read_by(table.reader, query, [("key", "bigint"), ("row", "bigint"), *_texts("k", table.key)])


def rows_by_key(table: ReadTable, *, is_locked: bool) -> str:
    """Return the statement that reads the texts of the rows with some keys; it takes an array per column of the key.

    `is_locked`: nobody else writes them until the transaction ends.
    """
    values = ", ".join(map(_text, table.columns))
    places = range(1, len(table.key) + 1)
    arrays = ", ".join(f"${place}::text[]" if table.reader is None else f"($1)[{place}]::text[]" for place in places)
    names = [f"k{index}" for index in range(len(table.key))]
    given = ", ".join(
        f"{value_of(f'given.{name}', column.type_text)} as {name}"
        for name, column in zip(names, table.key, strict=True)
    )
    same = " and ".join(
        f"t.{quote(column.name)} {table.equal.get(column.name, '=')} wanted.{name}"
        for name, column in zip(names, table.key, strict=True)
    )
    listed = f"select {given} from unnest({arrays}) as given ({', '.join(names)})"
    wanted = f"exists (select from ({listed}) as wanted where {same})"
    query = f"select {values} from {table.source} as t{_where(table, wanted)}{' for update' if is_locked else ''}"
    passed = ", ".join(f"${place}::text[]::text" for place in places)
    return read_by(table.reader, query, _texts("v", table.columns), f"array[{passed}]")


PAGES = """
select greatest(pg_relation_size(%s::oid::regclass), (
  select sum(pg_relation_size(relid)) from pg_partition_tree(%s::oid::regclass)
))::bigint / current_setting('block_size')::int
"""


def _texts(name: str, columns: Sequence[ReadColumn]) -> list[tuple[str, str]]:
    """Return names and types of a query's results that are the texts of columns."""
    return [(f"{name}{index}", "text") for index in range(len(columns))]


def _where(table: ReadTable, *others: str) -> str:
    conditions = [*([f"({table.condition})"] if table.condition is not None else []), *others]
    return f" where {' and '.join(conditions)}" if conditions else ""


def _bucket(table: ReadTable, division: Division) -> str:
    """Return the expression of a row's bucket."""
    if not isinstance(division, Hashed):
        column = _divided(table, division)
        ordered = f"{column.value}::bigint" if division.order is Order.NUMBER else column.value
        listed = ",".join(_bound(division, index) for index in range(len(division.bounds)))
        return f"coalesce(width_bucket({ordered}, '{{{listed}}}'::{_TYPES[division.order]}[]), 0)"
    return f"{_hash(table.key)} & {division.buckets - 1}" if division.buckets > 1 else "0"


def _bucket_condition(table: ReadTable, division: Division, chosen: Collection[int]) -> str:
    """Return the condition of rows in some buckets."""
    runs = list(runs_of(chosen))
    if isinstance(division, Hashed) or len(runs) > _MOST_RUNS:
        return f"{_bucket(table, division)} in ({', '.join(map(str, sorted(chosen)))})"
    column = _divided(table, division)
    return f"({' or '.join(f'({_range_condition(column, division, *run)})' for run in runs)})"


def _range_condition(column: ReadColumn, division: Ranges, first: int, last: int) -> str:
    """Return the condition of a run of buckets, which an index of the column finds."""
    value, type_ = column.value, _TYPES[division.order]
    is_low = f"{value} is null or " if first == 0 else f"{value} >= '{_bound(division, first - 1)}'::{type_} and "
    return is_low + (f"{value} < '{_bound(division, last)}'::{type_}" if last < len(division.bounds) else "true")


def _divided(table: ReadTable, division: Ranges) -> ReadColumn:
    (column,) = (read for read in table.key if read.published == division.column)
    return column


def _bound(division: Ranges, place: int) -> str:
    bound = division.bounds[place]
    return str(bound) if division.order is Order.NUMBER else f"{bound:032x}"


def _hash(columns: Sequence[ReadColumn]) -> str:
    text = f"concat({', '.join(map(_canonical, columns))})"
    return f"('x' || encode(substring(sha256(convert_to({text}, 'UTF8')) from 1 for 8), 'hex'))::bit(64)::bigint"


def _canonical(column: ReadColumn) -> str:
    match column.form:
        case TextForm.PLAIN:
            return f"coalesce({column.value}::text, '{NULL}') || '{SEPARATOR}'"
        case TextForm.BITS:
            # As SQLite keeps it: the number that the text of a real names; and minus zero is zero.
            text = f"encode(float8send({column.value}::text::double precision + 0.0), 'hex')"
        case _:
            text = _printed(column)
    # A composite value whose parts are null is no null.
    is_null = f"num_nulls({column.value})"
    return f"case {is_null} when 0 then octet_length(convert_to({text}, 'UTF8')) || ':' || {text} else '{NULL}' end"


def _text(column: ReadColumn) -> str:
    return f"case num_nulls({column.value}) when 0 then {_printed(column)} end"


def _printed(column: ReadColumn) -> str:
    """Return a value's text as the log has it: a cast would write true for t, and drop the blanks behind a char(n)."""
    return f"format('%s', {column.value})"


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
    tables: Mapping[str, ReadTable]
    is_locked: bool = False

    def read_buckets(self, article: Article, division: Division, *, with_checksum: bool) -> Buckets:
        """See `ComparedRows`."""
        statement = fingerprints(self.tables[article.article_id], division, with_checksum=with_checksum)
        with self._reading(article):
            rows = self.connection.execute(sql.SQL(statement)).fetchall()
        return {int(row[0]): Fingerprint(int(row[1]), None if row[2] is None else int(row[2])) for row in rows}

    def list_rows(self, article: Article, division: Division, chosen: Collection[int]) -> Iterator[HashedRow]:
        """See `ComparedRows`."""
        statement = hashed_rows(self.tables[article.article_id], division, chosen)
        with self._reading(article), self.connection.cursor(name="listed") as cursor:
            cursor.itersize = _ROWS_FETCHED
            for key_hash, row_hash, *key in cursor.execute(sql.SQL(statement)):
                yield HashedRow(key_hash, row_hash, _as_row(key))

    def find_rows(self, article: Article, keys: Sequence[Row]) -> Sequence[Row]:
        """See `ComparedRows`."""
        statement = rows_by_key(self.tables[article.article_id], is_locked=self.is_locked)
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
            (pages,) = self.connection.execute(sql.SQL(PAGES), (table.oid, table.oid)).fetchone() or (0,)
        percent = min(100.0, 100.0 * _PAGES_SAMPLED / max(pages, 1))
        possible: list[Ranges] = []
        with self._reading(article):
            for column in table.key:
                if column.order is not None:
                    statement = sampled_rows(table, column, percent)
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
    """

    rows: PostgresComparedRows
    begin: int
    snapshot: TransactionSnapshot
    unseen_since: datetime | None
    constraints: Mapping[str, str]


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
        found = [find_by_name(connection, article.schema, article.table) for article in articles]
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
    tables: dict[str, ReadTable] = {}
    constraints: dict[str, str] = {}
    with translated():
        for article in held:
            present = find_by_name(connection, article.schema, article.table)
            read = "the subscriber has no such table" if present is None else as_subscribed(article, present)
            _sort(article, _with_reader(connection, read), tables, constraints)
    return SubscribedRows(
        PostgresComparedRows(connection, tables, is_locked=for_update), known, status, held, constraints
    )


@contextmanager
def open_published(url: str, articles: Sequence[Article]) -> Iterator[PublishedRows]:
    """Read a publisher in one snapshot, in which the articles' tables cannot be truncated or altered."""
    settings = STREAM_SETTINGS | WHOLE_TABLES | {"lock_timeout": f"{LOCK_TIMEOUT_S}s"}
    with closing(open_url(url, application_name=_APPLICATION_NAME, settings=settings)) as connection:
        tables: dict[str, ReadTable] = {}
        constraints: dict[str, str] = {}
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
                read = as_published(article, found[article.article_id])
                _sort(article, _with_reader(connection, read), tables, constraints)
        unseen_since = since[0] if since is not None else None
        yield PublishedRows(
            PostgresComparedRows(connection, tables), int(begin[0]), snapshot, unseen_since, constraints
        )


def _with_reader(connection: _Connection, read: ReadTable | str) -> ReadTable | str:
    """Return a table with what reading it takes, where it or a type of its key belongs to others."""
    if isinstance(read, str):
        return read
    equal: Mapping[str, str] = {}
    if not all(is_of_server(column.type_text) for column in read.key):
        operators = read_operators(running(connection), read.source.removeprefix("only "))
        equal = {name: each.equal for name, each in operators.items()}
    return replace(read, reader=find_reader(connection, read.oid), equal=equal)


def _sort(article: Article, read: ReadTable | str, tables: dict[str, ReadTable], constraints: dict[str, str]) -> None:
    if isinstance(read, str):
        constraints[article.article_id] = read
    else:
        tables[article.article_id] = read


def _lock(
    connection: _Connection, articles: Sequence[Article], constraints: dict[str, str]
) -> Mapping[str, CatalogueTable]:
    """Begin a transaction in which tables stay as they are returned, except those with a constraint.

    They are locked before its snapshot is taken: one from before a truncate would find the table empty all the same.
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
) -> Mapping[str, CatalogueTable]:
    found: dict[str, CatalogueTable] = {}
    for article in articles:
        if article.article_id in constraints:
            continue
        present = find_by_id(connection, article.source_id)
        if present is None:
            constraints[article.article_id] = "it was dropped at the publisher"
        else:
            found[article.article_id] = present
    return found


def _try_locks(connection: _Connection, found: Mapping[str, CatalogueTable], constraints: dict[str, str]) -> bool:
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
