"""The subscriber's side of a snapshot in a SQLite file: one transaction per chunk, one chunk at a time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from rowtide.copying.chunks import Chunk, CopiedChunk, CopyForm, format_snapshot, parse_snapshot
from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.databases.postgres.copying import read_rows
from rowtide.databases.sqlite.errors import LOCK_DEADLINE_S
from rowtide.databases.sqlite.sql_text import quote
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import ColumnAdded, ColumnDropped, CustomSql, Followed
from rowtide.replication.distribution.delivery_interface import AlterationRefused, Delivery
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import AgentReplaced, CopyRefused, CustomScriptFailed
from rowtide.replication.snapshot.table_details import TableDetails
from rowtide.replication.snapshot.target import SnapshotStatus, SubscriptionSnapshot
from rowtide.replication.targets.sqlite import progress, restorations
from rowtide.replication.targets.sqlite.alterations import ChangeNotMade, follow
from rowtide.replication.targets.sqlite.delivery import SqliteDelivery
from rowtide.replication.targets.sqlite.files import SubscriberFile, code_of
from rowtide.replication.targets.sqlite.new_snapshot import decode_key, renew_constraints
from rowtide.replication.targets.sqlite.progress import CHUNKS, STATEMENTS, SUBSCRIPTIONS
from rowtide.replication.targets.sqlite.statements import run_script, statement


class SqliteSnapshotTarget:
    """A SQLite file that is copied to; see `OpenedSubscriber`."""

    def __init__(self, file: SubscriberFile, url: str, guid: str) -> None:
        self._file = file
        self._url = url
        self._guid = guid
        # A file has one writer: who reads the next chunk already waits here, and not for the file's lock.
        self._writing = threading.Lock()
        with file.transaction() as connection:
            self._epoch = progress.take_over(connection, guid, describe_holder()).epoch

    @classmethod
    def open(cls, subscription: Subscription, *, patience_s: float = LOCK_DEADLINE_S) -> SqliteSnapshotTarget:
        """Open the file and take over from any earlier agent. Raises as `SqliteDelivery.open`."""
        file = SubscriberFile(subscription.subscriber, patience_s=patience_s)
        try:
            return cls(file, subscription.subscriber, subscription.guid)
        except BaseException:
            file.close()
            raise

    def deliver(self, subscription: Subscription, articles: Sequence[Article]) -> Delivery:
        self.close()
        return SqliteDelivery.open(subscription, articles)

    def read_state(self) -> SubscriptionSnapshot:
        with self._file.undone_by_errors():
            # Whichever agent has come since: what it finds is how far the snapshot is.
            status, end = self._file.connection.execute(_STATUS, (self._guid,)).fetchone()
            rows = self._file.connection.execute(_ALL_CHUNKS, (self._guid,)).fetchall()
        missing, copied = [], []
        for article_id, number, low, high, snapshot, generation in rows:
            chunk = Chunk(article_id, number, decode_key(low), decode_key(high))
            if snapshot is None:
                missing.append(chunk)
            else:
                copied.append(CopiedChunk(chunk, parse_snapshot(snapshot), generation))
        return SubscriptionSnapshot(
            SnapshotStatus(status), None if end is None else Position(end), tuple(missing), tuple(copied)
        )

    def read_articles(self, articles: Sequence[Article]) -> tuple[Article, ...]:
        with self._file.undone_by_errors():
            return progress.read_articles(self._file.connection, self._guid, articles)

    def alter(self, followed: Followed) -> None:
        before = followed.before
        with self._file.transaction() as connection:
            self._require_own(connection)
            connection.execute(f"delete from {quote(before.table)}")
            connection.execute(_FORGET_CHUNKS, (self._guid, before.article_id))
            try:
                follow(connection, self._guid, followed)
            except ChangeNotMade as found:
                error = found.error
                if isinstance(found.change, ColumnAdded | ColumnDropped):
                    raise AlterationRefused(followed.article, found.change, str(error)) from error
                raise CopyRefused(before.qualified_name, code_of(error), str(error)) from error
            if followed.script is not None:
                self._run_script(connection, followed.article, followed.script)

    def _run_script(self, connection: sqlite3.Connection, article: Article, script: CustomSql) -> None:
        try:
            run_script(connection, script.text)
        except sqlite3.Error as error:
            raise CustomScriptFailed(script.name, article.qualified_name, script.lsn, str(error)) from error

    def choose_form(self, article: Article) -> CopyForm:  # noqa: ARG002 - of the protocol
        return CopyForm.TEXT

    @contextmanager
    def load(
        self,
        chunk: CopiedChunk,
        article: Article,
        form: CopyForm,  # noqa: ARG002 - the one that is chosen
    ) -> Iterator[Callable[[bytes], None]]:
        with self._writing, closing(SubscriberFile(self._url)) as file, file.transaction() as connection:
            self._require_own(connection)
            inserting = statement(article, Operation.INSERT)

            def write(block: bytes) -> None:
                try:
                    connection.executemany(inserting.sql, map(inserting.bind, read_rows(block)))
                except UnicodeDecodeError as error:
                    raise CopyRefused(article.qualified_name, "encoding", str(error)) from error
                except sqlite3.Error as error:
                    raise file.find_failure(error) or CopyRefused(
                        article.qualified_name, code_of(error), str(error)
                    ) from error

            yield write
            noted = (format_snapshot(chunk.snapshot), chunk.generation, self._guid, article.article_id)
            connection.execute(_NOTE_CHUNK, (*noted, chunk.chunk.number))

    def discard(self, article: Article) -> None:
        with self._file.transaction() as connection:
            self._require_own(connection)
            connection.execute(f"delete from {quote(article.table)}")
            connection.execute(_FORGET_CHUNKS, (self._guid, article.article_id))

    def begin_hand_over(self, end: Position, details: Sequence[tuple[Article, TableDetails]]) -> None:
        with self._file.transaction() as connection:
            self._require_own(connection)
            if details:
                renew_constraints(connection, self._guid, details)
            connection.execute(_BEGIN_HAND_OVER, (SnapshotStatus.HANDING_OVER, end.value, self._guid))

    def finish(self) -> None:
        with self._file.transaction() as connection:
            if connection.execute(_DUE, (self._guid, SnapshotStatus.HANDING_OVER)).fetchone() is not None:
                for (text,) in connection.execute(_STATEMENTS, (self._guid,)).fetchall():
                    self._constrain(connection, text)
                restorations.restore(connection, self._guid)
                for forgetting in _FORGET:
                    connection.execute(forgetting, (self._guid,))
                connection.execute(_FINISHED, (SnapshotStatus.DELIVERED, self._guid))

    def close(self) -> None:
        self._file.close()

    def _constrain(self, connection: sqlite3.Connection, text: str) -> None:
        try:
            connection.execute(text)
        except sqlite3.IntegrityError as error:
            raise CopyRefused(text, code_of(error), str(error)) from error

    def _require_own(self, connection: sqlite3.Connection) -> None:
        row = connection.execute(_HOLDER, (self._guid,)).fetchone()
        if row is None or row[0] != self._epoch:
            raise AgentReplaced(self._url, "no such subscription" if row is None else f"epoch {row[0]}, agent {row[1]}")


_STATUS = f"select snapshot_status, snapshot_end from {SUBSCRIPTIONS} where subscription_guid = ?"
_HOLDER = f"select epoch, agent from {SUBSCRIPTIONS} where subscription_guid = ?"
_ALL_CHUNKS = f"""
select article_id, chunk, low, high, transaction_snapshot, generation from {CHUNKS}
where subscription_guid = ? order by article_id, chunk
"""
_NOTE_CHUNK = f"""
update {CHUNKS} set transaction_snapshot = ?, generation = ?
where subscription_guid = ? and article_id = ? and chunk = ?
"""
_FORGET_CHUNKS = f"""
update {CHUNKS} set transaction_snapshot = null, generation = null where subscription_guid = ? and article_id = ?
"""
_BEGIN_HAND_OVER = f"update {SUBSCRIPTIONS} set snapshot_status = ?, snapshot_end = ? where subscription_guid = ?"
_DUE = f"""
select 1 from {SUBSCRIPTIONS}
where subscription_guid = ? and snapshot_status = ? and transaction_timestamp >= snapshot_end
"""
_STATEMENTS = f"select statement from {STATEMENTS} where subscription_guid = ? order by place"
_FORGET = tuple(f"delete from {table} where subscription_guid = ?" for table in (STATEMENTS, CHUNKS))
_FINISHED = f"update {SUBSCRIPTIONS} set snapshot_status = ?, snapshot_end = null where subscription_guid = ?"
