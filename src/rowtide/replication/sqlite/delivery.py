"""Delivery to a SQLite subscriber: a statement for each call, a transaction with the file's lock for each batch."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import Position
from rowtide.core.records import Operation
from rowtide.databases.sqlite.connect import LOCK_DEADLINE_S
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.delivery import BatchUndone, Progress, Skipped
from rowtide.replication.encoding import Arguments
from rowtide.replication.errors import AgentReplaced, CommandRefused, RowNotFound
from rowtide.replication.skip_errors import NOTHING_SKIPPED, SkipErrors
from rowtide.replication.sqlite import progress
from rowtide.replication.sqlite.files import SubscriberFile, code_of
from rowtide.replication.sqlite.statements import Statement, bitmap_of, describe_key, statement

_ENCODING = "encoding"
_ROW_COUNT = "row count"
_KEPT_STATEMENTS = 512
"""There is one for each bitmap that comes, of a wide table any number."""


class SqliteDelivery:
    """A hold on a SQLite subscriber; see `Delivery`."""

    def __init__(self, file: SubscriberFile, subscriber: str, guid: str, skips: SkipErrors = NOTHING_SKIPPED) -> None:
        self._skips = skips
        self._skipped: list[Skipped] = []
        self._one_by_one = False
        self._file = file
        self._subscriber = subscriber
        self._guid = guid
        self._statements: dict[tuple[str, Operation, bytes | None], Statement] = {}
        with file.transaction() as connection:
            self._progress = progress.take_over(connection, guid, describe_holder())

    @classmethod
    def open(
        cls,
        subscription: Subscription,
        _articles: Sequence[Article] = (),
        skips: SkipErrors = NOTHING_SKIPPED,
        *,
        patience_s: float = LOCK_DEADLINE_S,
    ) -> SqliteDelivery:
        """Open the file, and take the place of any agent before; `patience_s` is how long locks are waited for.

        Raises `FileNotOpened`, `FileBusy`, `SubscriberUnprepared`, `SubscriberFileFailed`.
        """
        file = SubscriberFile(subscription.subscriber, patience_s=patience_s)
        try:
            return cls(file, subscription.subscriber, subscription.guid, skips)
        except BaseException:
            file.close()
            raise

    @property
    def progress(self) -> Progress:
        return self._progress

    def begin(self, *, one_by_one: bool = False) -> None:
        """See `Delivery`. Raises `FileBusy`, `SubscriberFileReplaced` and `SubscriberFileFailed` too, as all below."""
        self._one_by_one = one_by_one
        self._skipped = []
        with self._file.undone_by_errors():
            self._file.begin()
            found = progress.find_difference(self._file.connection, self._guid, self._progress)
            if found is not None:
                raise AgentReplaced(self._subscriber, found)

    def run(self, lsn: int, article: Article, operation: Operation, arguments: Arguments) -> None:
        error = self._run_within_savepoint(article, operation, arguments)
        if error is None:
            return
        if self._one_by_one and self._skips.covers(error) and self._file.connection.in_transaction:
            self._file.connection.execute("rollback to call")
            self._file.connection.execute("release call")
            self._skipped.append(Skipped(lsn, error))
            return
        self._file.undo()
        if self._skips.covers(error) and not self._one_by_one:
            raise BatchUndone
        raise error

    def end(self, reached: Position) -> Sequence[Skipped]:
        with self._file.undone_by_errors():
            progress.advance(self._file.connection, self._guid, reached)
            self._file.commit()
        self._progress = Progress(reached, self._progress.batch + 1, self._progress.epoch)
        return self._skipped

    def close(self) -> None:
        self._file.close()

    def _run_within_savepoint(
        self, article: Article, operation: Operation, arguments: Arguments
    ) -> RowtideError | None:
        """Run a call; return its error. Of those that may be skipped, each has a savepoint."""
        if self._one_by_one and self._skips:
            self._file.connection.execute("savepoint call")
        known = self._statement(article, operation, arguments)
        try:
            count = self._file.connection.execute(known.sql, known.bind(arguments)).rowcount
        except (sqlite3.Error, UnicodeDecodeError) as error:
            return self._explain(error, article, operation, arguments)
        if known.is_for_one_row and count != 1:
            return _miscounted(count, article, operation, arguments)
        if self._one_by_one and self._skips:
            self._file.connection.execute("release call")
        return None

    def _statement(self, article: Article, operation: Operation, arguments: Arguments) -> Statement:
        bitmap = bitmap_of(article, operation, arguments)
        known = self._statements.get((article.article_id, operation, bitmap))
        if known is None:
            if len(self._statements) >= _KEPT_STATEMENTS:
                self._statements.clear()
            known = self._statements[article.article_id, operation, bitmap] = statement(article, operation, bitmap)
        return known

    def _explain(
        self, error: sqlite3.Error | UnicodeDecodeError, article: Article, operation: Operation, arguments: Arguments
    ) -> RowtideError:
        if isinstance(error, UnicodeDecodeError):
            return _refused(_ENCODING, str(error), article, operation, arguments)
        failure = self._file.find_failure(error)
        return failure or _refused(code_of(error), str(error), article, operation, arguments)


def _refused(code: str, reason: str, article: Article, operation: Operation, arguments: Arguments) -> CommandRefused:
    key = describe_key(article, operation, arguments)
    return CommandRefused(f"{article.schema}.{article.table}", key, operation.name.lower(), code, reason)


def _miscounted(count: int, article: Article, operation: Operation, arguments: Arguments) -> RowtideError:
    """A constraint with `on conflict ignore` drops an insert in silence; without a unique key rows can be double."""
    if count == 0 and operation is not Operation.INSERT:
        key = describe_key(article, operation, arguments)
        return RowNotFound(f"{article.schema}.{article.table}", key, operation.name.lower())
    return _refused(_ROW_COUNT, f"it was about one row and changed {count}", article, operation, arguments)
