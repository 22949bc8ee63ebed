"""The rows of a SQLite subscriber in one snapshot, as they are compared, and their repairs."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.databases.sqlite.catalogue import Table, UniqueKey, find_table, read_triggers
from rowtide.databases.sqlite.sql_text import fold, item_of, quote
from rowtide.databases.sqlite.values import stored_type
from rowtide.databases.types.registry import kind_of
from rowtide.databases.types.value_type import SqliteValue, TypeKind
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.targets.compared_rows import (
    WHOLE,
    Buckets,
    Division,
    Fingerprint,
    Hashed,
    HashedRow,
    RepairRecord,
    Row,
    RowCorrection,
    SubscribedRows,
    form_of,
    hash_parts,
    part_of,
    replace_updates,
)
from rowtide.replication.targets.sqlite import progress
from rowtide.replication.targets.sqlite.files import SubscriberFile
from rowtide.replication.targets.sqlite.progress import REPAIRS
from rowtide.replication.targets.sqlite.statements import statement

_ROWS_FETCHED = 5000


@frozen
class SqliteComparedRows:
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
    constraints = {article_id: constraint for article_id, constraint in described if constraint is not None}
    return SubscribedRows(SqliteComparedRows(file), known, status, held, constraints)


def _find_constraint(file: SubscriberFile, article: Article) -> str | None:
    table = find_table(file.connection, article.table)
    if table is None:
        return "the subscriber has no such table"
    present = {fold(column.name) for column in table.columns}
    missing = [column.name for column in article.columns if fold(column.name) not in present]
    return f"the subscriber's table has no column {', '.join(missing)}" if missing else None


def _key_indexes(article: Article) -> list[int]:
    return [article.columns.index(column) for column in article.key_columns]


def _hashing(columns: Sequence[PublishedColumn]) -> Callable[[Sequence[SqliteValue]], int]:
    kinds = [(form_of(column), _PRINTED.get(kind_of(column.value_type_text), _text)) for column in columns]

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
        None if value is None else _PRINTED.get(kind_of(column.value_type_text), _text)(value)
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


_PRINTED: Mapping[TypeKind, Callable[[SqliteValue], bytes]] = {
    TypeKind.BOOLEAN: _truth,
    TypeKind.BYTES: _hexadecimal,
    TypeKind.FLOAT: _number,
}


_CALL = Command(CallFormat.CALL)
_NO_ROW = "it changes no row: a trigger leaves it out, or has deleted the row"


@frozen
class SqliteRepair:
    """See `RepairTransaction`."""

    file: SubscriberFile
    guid: str
    subscribed: SubscribedRows

    def try_change(self, change: RowCorrection) -> str | None:
        """See `RepairTransaction`."""
        with self._savepoint() as undo:
            try:
                reason = None if _run(self.file.connection, change) == 1 else _NO_ROW
            except (sqlite3.IntegrityError, UnicodeDecodeError) as error:
                reason = str(error)
            if reason is not None:
                undo()
        return reason

    def try_together(self, changes: Sequence[RowCorrection]) -> Mapping[RowCorrection, str]:
        """See `RepairTransaction`; SQLite has no deferrable unique constraints, and no foreign key acts."""
        refused = self._try_all(changes)
        moved = {one for one in refused if one.operation is Operation.UPDATE and self._is_replaceable(one.article)}
        if not moved:
            return refused
        # Checks may leave no free value that a row could get for a moment.
        deletions, insertions = replace_updates(changes, moved)
        return refused if self._try_all(insertions, after=deletions) else {}

    def _try_all(
        self, changes: Sequence[RowCorrection], *, after: Sequence[RowCorrection] = ()
    ) -> dict[RowCorrection, str]:
        """Make all changes or none; return why some are refused."""
        with self._savepoint() as undo:
            for change in after:
                self.try_change(change)
            for change in changes:
                self._release_values(change)
            waiting: Sequence[RowCorrection] = changes
            while True:
                tried = {change: self.try_change(change) for change in waiting}
                refused = {change: reason for change, reason in tried.items() if reason is not None}
                if not refused or len(refused) == len(waiting):
                    break
                waiting = list(refused)
            if refused:
                undo()
        return refused

    def _is_replaceable(self, article: Article) -> bool:
        """Whether nobody sees that a row is deleted and inserted instead of updated."""
        table = find_table(self.file.connection, article.table)
        published = {fold(column.name) for column in article.columns}
        own = [column for column in table.columns if fold(column.name) not in published] if table is not None else []
        is_seen = bool(read_triggers(self.file.connection, article.table))
        return not is_seen and all(column.is_generated for column in own)

    def _release_values(self, change: RowCorrection) -> None:
        """Set values of unique indexes that an update changes to null, else to others that no row has."""
        table = find_table(self.file.connection, change.article.table)
        assert table is not None
        unique = {item for key in table.unique_keys for item in _words(key)}
        given = [name for name in change.columns if fold(name) in unique]
        if change.operation is not Operation.UPDATE or not given:
            return
        free = [_free_value(table, name) for name in given]
        for values in (["null"] * len(given), free):
            pairs = zip(given, values, strict=True)
            texts = ", ".join(f"{quote(name)} = {value}" for name, value in pairs)
            with self._savepoint() as undo:
                try:
                    _run_at_key(self.file.connection, change, f"update {quote(table.name)} set {texts}")
                except sqlite3.IntegrityError:
                    undo()
                else:
                    return

    @contextmanager
    def _savepoint(self) -> Iterator[Callable[[], object]]:
        """Begin a savepoint; yield what undoes it."""
        connection = self.file.connection
        connection.execute("savepoint repair")
        yield lambda: connection.execute("rollback to repair")
        connection.execute("release repair")

    def commit(self, records: Sequence[RepairRecord]) -> None:
        """See `RepairTransaction`."""
        rows = [(self.guid, one.repair_id, one.ordinal, one.record) for one in records]
        self.file.connection.executemany(f"insert into {REPAIRS} values (?, ?, ?, ?)", rows)
        self.file.commit()


@contextmanager
def open_repair(subscription: Subscription, articles: Sequence[Article]) -> Iterator[SqliteRepair]:
    """Begin a repair with the file's write lock; rolled back unless it is committed.

    Raises `FileNotOpened`, `FileBusy`, `SubscriberUnprepared`, `SubscriberFileFailed`.
    """
    with closing(SubscriberFile(subscription.subscriber)) as file, file.undone_by_errors():
        file.begin()
        if progress.list_recorded(file.connection):
            progress.require_writable(file.connection)
        yield SqliteRepair(file, subscription.guid, read_subscribed(file, subscription, articles))
        file.undo()


@frozen
class SqliteOutbox:
    """See `RepairOutbox`."""

    file: SubscriberFile
    guid: str

    def read(self) -> Sequence[RepairRecord]:
        """See `RepairOutbox`."""
        return [RepairRecord(*row) for row in self.file.connection.execute(_RECORDS, (self.guid,))]

    def forget(self, records: Sequence[RepairRecord]) -> None:
        """See `RepairOutbox`."""
        with self.file.transaction() as connection:
            connection.executemany(_FORGET, [(self.guid, one.repair_id, one.ordinal) for one in records])


@contextmanager
def open_outbox(subscription: Subscription) -> Iterator[SqliteOutbox]:
    """Open what repairs have left in a file. Raises `FileNotOpened`, `SubscriberFileFailed`."""
    with closing(SubscriberFile(subscription.subscriber)) as file, file.undone_by_errors():
        yield SqliteOutbox(file, subscription.guid)


def _words(key: UniqueKey) -> frozenset[str]:
    """Return the names in a unique key, folded; a name in an expression counts too."""
    texts = [*(term.expression for term in key.terms), *([] if key.where is None else [key.where])]
    return frozenset().union(*(item_of(text).names for text in texts))


def _free_value(table: Table, name: str) -> str:
    """Return the expression of a value that no row has; a column that is not strict takes any."""
    column = table.find_column(name)
    words = "" if column is None or not table.is_strict else column.type_text.lower()
    if words in ("int", "integer", "real"):
        return f"(select min({quote(name)}) from {quote(table.name)}) - 1"
    return "lower(hex(randomblob(16)))" if words == "text" else "randomblob(16)"


def _run_at_key(connection: sqlite3.Connection, change: RowCorrection, updating: str) -> None:
    columns = change.article.key_columns
    kinds = [stored_type(column.value_type_text) for column in columns]
    # Whatever the column says: a and A are two rows at the publisher.
    pairs = zip(columns, kinds, strict=True)
    where = " and ".join(
        f"{quote(column.name)} = ?{' collate binary' if kind.is_text else ''}" for column, kind in pairs
    )
    key = [None if text is None else kind.convert(text) for kind, text in zip(kinds, change.key, strict=True)]
    connection.execute(f"{updating} where {where}", key)


def _run(connection: sqlite3.Connection, change: RowCorrection) -> int:
    whole = replace(change.article, insert=_CALL, update=_CALL, delete=_CALL)
    known = statement(whole, change.operation)
    arguments = {
        Operation.INSERT: change.row,
        Operation.UPDATE: (*change.row, *change.key),
        Operation.DELETE: change.key,
    }[change.operation]
    return connection.execute(known.sql, known.bind(list(arguments))).rowcount


_RECORDS = f"select repair_id, ordinal, record from {REPAIRS} where subscription_guid = ? order by repair_id, ordinal"
_FORGET = f"delete from {REPAIRS} where subscription_guid = ? and repair_id = ? and ordinal = ?"
