"""The rows of a SQLite subscriber in one snapshot, as they are compared.

In a file without write-ahead log, delivery waits while they are read.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from rowtide.core.values import frozen
from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.keys import SqliteValue
from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.sqlite.types import stored_type
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.targets.compared_rows import (
    WHOLE,
    Buckets,
    Division,
    Fingerprint,
    Hashed,
    HashedRow,
    Row,
    SubscribedRows,
    form_of,
    hash_parts,
    part_of,
)
from rowtide.replication.targets.sqlite import progress
from rowtide.replication.targets.sqlite.files import SubscriberFile

_ROWS_FETCHED = 5000


@frozen
class SqliteRows:
    """See `ComparedRows`; all rows of an article's table count."""

    file: SubscriberFile

    def read_buckets(self, article: Article, division: Division, *, with_checksum: bool) -> Buckets:
        """See `ComparedRows`."""
        if not with_checksum and division == WHOLE:
            (count,) = self.file.connection.execute(f"select count(*) from {quote(article.table)}").fetchone()
            return {0: Fingerprint(count, None)}
        counts: dict[int, int] = defaultdict(int)
        sums: dict[int, int] = defaultdict(int)
        hashed = _hashing(article.columns)
        places, find_bucket = _key_indexes(article), _bucketing(article, division)
        for row in self._read(article):
            bucket = find_bucket([row[place] for place in places])
            counts[bucket] += 1
            sums[bucket] += hashed(row)
        return {bucket: Fingerprint(count, sums[bucket]) for bucket, count in counts.items()}

    def list_rows(self, article: Article, division: Division, chosen: Collection[int]) -> Iterator[HashedRow]:
        """See `ComparedRows`."""
        connection, keys = self.file.connection, [quote(column.name) for column in article.key_columns]
        bucket, key_hash, row_hash = "rowtide_bucket", "rowtide_key_hash", "rowtide_row_hash"
        for name, columns, function in (
            (bucket, article.key_columns, _bucketing(article, division)),
            (key_hash, article.key_columns, _hashing(article.key_columns)),
            (row_hash, article.columns, _hashing(article.columns)),
        ):
            connection.create_function(name, len(columns), _of_arguments(function), deterministic=True)
        names = ", ".join(quote(column.name) for column in article.columns)
        # The file sorts, in temporary space where there is much.
        listed = (
            f"select {key_hash}({', '.join(keys)}), {row_hash}({names}), {', '.join(keys)} from {quote(article.table)} "
            f"where {bucket}({', '.join(keys)}) in ({', '.join(map(str, sorted(chosen)))}) order by 1"
        )
        for hash_of_key, hash_of_row, *key in connection.execute(listed):
            yield HashedRow(hash_of_key, hash_of_row, _as_texts(article.key_columns, key))

    def find_rows(self, article: Article, keys: Sequence[Row]) -> Sequence[Row]:
        """See `ComparedRows`."""
        types = [stored_type(column.value_type_text) for column in article.key_columns]
        # Whatever the column says: a and A are two rows at the publisher.
        pairs = zip(article.key_columns, types, strict=True)
        has_key = " and ".join(
            f"{quote(column.name)} = ?{' collate binary' if stored.is_text else ''}" for column, stored in pairs
        )
        names = ", ".join(quote(column.name) for column in article.columns)
        statement = f"select {names} from {quote(article.table)} where {has_key}"
        found: list[Row] = []
        for key in keys:
            values = [None if text is None else kind.convert(text) for kind, text in zip(types, key, strict=True)]
            rows = self.file.connection.execute(statement, values).fetchall()
            found += (_as_texts(article.columns, row) for row in rows)
        return found

    def _read(self, article: Article) -> Iterator[Sequence[SqliteValue]]:
        names = ", ".join(quote(column.name) for column in article.columns)
        cursor = self.file.connection.execute(f"select {names} from {quote(article.table)}")
        while rows := cursor.fetchmany(_ROWS_FETCHED):
            yield from rows


@contextmanager
def open_subscribed(subscription: Subscription, articles: Sequence[Article]) -> Iterator[SubscribedRows]:
    """Read a file in one snapshot. Raises `FileNotOpened`, `SubscriberUnprepared`, `SubscriberFileFailed`."""
    with closing(SubscriberFile(subscription.subscriber)) as file, file.undone_by_errors():
        file.connection.execute("begin")
        yield read_subscribed(file, subscription, articles)
        file.undo()


def read_subscribed(file: SubscriberFile, subscription: Subscription, articles: Sequence[Article]) -> SubscribedRows:
    """Return a file's rows, within a transaction."""
    known, status = progress.read(file.connection, subscription.guid)
    held = progress.read_articles(file.connection, subscription.guid, articles)
    described = ((article.article_id, _find_constraint(file, article)) for article in held)
    obstacles = {article_id: obstacle for article_id, obstacle in described if obstacle is not None}
    return SubscribedRows(SqliteRows(file), known, status, held, obstacles)


def _find_constraint(file: SubscriberFile, article: Article) -> str | None:
    table = find_table(file.connection, article.table)
    if table is None:
        return "the subscriber has no such table"
    present = {column.name.lower() for column in table.columns}
    missing = [column.name for column in article.columns if column.name.lower() not in present]
    return f"the subscriber's table has no column {', '.join(missing)}" if missing else None


def _key_indexes(article: Article) -> list[int]:
    return [article.columns.index(column) for column in article.key_columns]


def _hashing(columns: Sequence[PublishedColumn]) -> Callable[[Sequence[SqliteValue]], int]:
    kinds = [(form_of(column), _PRINTED.get(column.value_type_text, _text)) for column in columns]

    def hash_values(values: Sequence[SqliteValue]) -> int:
        pairs = zip(kinds, values, strict=True)
        return hash_parts(part_of(form, None if value is None else text(value)) for (form, text), value in pairs)

    return hash_values


def _bucketing(article: Article, division: Division) -> Callable[[Sequence[SqliteValue]], int]:
    """Return what finds the bucket of a key, given by its values."""
    if isinstance(division, Hashed):
        hashing, buckets = _hashing(article.key_columns), division.buckets
        return (lambda key: hashing(key) & buckets - 1) if buckets > 1 else lambda _key: 0
    place, ranges = article.key_columns.index(division.column), division

    def find_bucket(key: Sequence[SqliteValue]) -> int:
        value = key[place]
        return ranges.bucket_of(None if value is None else _text(value))

    return find_bucket


def _of_arguments(hashing: Callable[[Sequence[SqliteValue]], int]) -> Callable[..., int]:
    return lambda *values: hashing(values)


def _as_texts(columns: Sequence[PublishedColumn], values: Sequence[SqliteValue]) -> Row:
    return tuple(
        None if value is None else _PRINTED.get(column.value_type_text, _text)(value)
        for column, value in zip(columns, values, strict=True)
    )


def _text(value: SqliteValue) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _truth(value: SqliteValue) -> bytes:
    # Whatever else a program has put there is no truth value, and differs.
    return {0: b"f", 1: b"t"}.get(value, _text(value)) if isinstance(value, int) else _text(value)


def _number(value: SqliteValue) -> bytes:
    """Return a floating point number as PostgreSQL prints it."""
    if isinstance(value, float) and math.isinf(value):
        return b"Infinity" if value > 0 else b"-Infinity"
    text = repr(float(value)) if isinstance(value, int | float) else str(value)
    return text.removesuffix(".0").encode()


def _hexadecimal(value: SqliteValue) -> bytes:
    return b"\\x" + value.hex().encode() if isinstance(value, bytes) else _text(value)


_PRINTED: Mapping[str, Callable[[SqliteValue], bytes]] = {
    "boolean": _truth,
    "bytea": _hexadecimal,
    "real": _number,
    "double precision": _number,
}
