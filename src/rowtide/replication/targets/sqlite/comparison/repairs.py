"""Repairs in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.targets.compared_rows import SubscribedRows
from rowtide.replication.targets.repairing import RepairRecord, RowChange
from rowtide.replication.targets.sqlite import progress
from rowtide.replication.targets.sqlite.comparison.rows import read_subscribed
from rowtide.replication.targets.sqlite.delivery.statements import statement
from rowtide.replication.targets.sqlite.files import SubscriberFile
from rowtide.replication.targets.sqlite.progress import REPAIRS

_CALL = Command(CallFormat.CALL)
_NO_ROW = "it changes no row: a trigger leaves it out, or has deleted the row"


@dataclass(frozen=True, slots=True)
class SqliteRepair:
    """See `RepairTransaction`."""

    file: SubscriberFile
    guid: str
    subscribed: SubscribedRows

    def try_change(self, change: RowChange) -> str | None:
        """See `RepairTransaction`."""
        return self.try_together([change])

    def try_together(self, changes: Sequence[RowChange]) -> str | None:
        """See `RepairTransaction`; SQLite has no deferrable unique constraints, and no foreign key acts."""
        connection = self.file.connection
        connection.execute("savepoint repair")
        reason = None
        try:
            for change in changes:
                if _run(connection, change) != 1:
                    reason = _NO_ROW
                    break
        except (sqlite3.IntegrityError, UnicodeDecodeError) as error:
            reason = str(error)
        if reason is not None:
            connection.execute("rollback to repair")
        connection.execute("release repair")
        return reason

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
            progress.make_current(file.connection)
        yield SqliteRepair(file, subscription.guid, read_subscribed(file, subscription, articles))
        file.undo()


@dataclass(frozen=True, slots=True)
class SqliteOutbox:
    """See `RepairOutbox`."""

    file: SubscriberFile
    guid: str

    def read(self) -> Sequence[RepairRecord]:
        """See `RepairOutbox`."""
        if not progress.has_table(self.file.connection, REPAIRS):
            # It is of an earlier build.
            return ()
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


def _run(connection: sqlite3.Connection, change: RowChange) -> int:
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
