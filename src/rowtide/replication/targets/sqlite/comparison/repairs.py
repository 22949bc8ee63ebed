"""Repairs in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.databases.sqlite.catalogue import Table, UniqueKey, find_table
from rowtide.databases.sqlite.ddl_text import item_of
from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.sqlite.types import stored_type
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.targets.compared_rows import SubscribedRows
from rowtide.replication.targets.sqlite import progress
from rowtide.replication.targets.sqlite.comparison.rows import read_subscribed
from rowtide.replication.targets.sqlite.delivery.statements import statement
from rowtide.replication.targets.sqlite.files import SubscriberFile
from rowtide.replication.targets.sqlite.progress import REPAIRS
from rowtide.replication.targets.subscriber_kind import RepairRecord, RowCorrection

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
        with self._savepoint() as undo:
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

    def _release_values(self, change: RowCorrection) -> None:
        """Set values of unique indexes that an update changes to null, else to others that no row has."""
        table = find_table(self.file.connection, change.article.table)
        assert table is not None
        unique = {item for key in table.unique_keys for item in _words(key)}
        given = [name for name in change.columns if name.lower() in unique]
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
    """Return the names in a unique key, in lower case; a name in an expression counts too."""
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
    where = " and ".join(f"{quote(column.name)} = ?" for column in columns)
    kinds = [stored_type(column.value_type_text) for column in columns]
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
