"""Delivery to a SQLite subscriber: a statement for each call, a transaction with the file's lock for each batch."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.core.records import Operation
from rowtide.databases.sqlite.connect import begin_immediate
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.articles import Article
from rowtide.replication.distribution.delivery import Progress
from rowtide.replication.encoding import Arguments
from rowtide.replication.errors import AgentReplaced, CommandRefused, RowNotFound, SubscriberFileReplaced
from rowtide.replication.sqlite import progress
from rowtide.replication.sqlite.files import code_of, connect, find_failure, identify, path_of, translated
from rowtide.replication.sqlite.statements import Statement, bitmap_of, describe_key, statement

_ENCODING = "encoding"
_ROW_COUNT = "row count"


class SqliteDelivery:
    """A hold on a SQLite subscriber; see `Delivery`."""

    def __init__(
        self, connection: sqlite3.Connection, subscriber: str, file: tuple[int, int] | None, guid: str
    ) -> None:
        self._connection = connection
        self._subscriber = subscriber
        self._path = path_of(subscriber)
        self._file = file
        self._guid = guid
        with translated(self._path):
            self._progress = progress.take_over(connection, guid, describe_holder())
        self._statements: dict[tuple[str, Operation, bytes | None], Statement] = {}

    @classmethod
    def open(cls, url: str, guid: str) -> SqliteDelivery:
        """Open the file, and take the place of any agent before.

        Raises `FileNotOpened`, `FileBusy`, `SubscriberUnprepared`, `SubscriberFileFailed`.
        """
        file = identify(path_of(url))
        connection = connect(url)
        try:
            return cls(connection, url, file, guid)
        except BaseException:
            connection.close()
            raise

    @property
    def progress(self) -> Progress:
        return self._progress

    def begin(self) -> None:
        """See `Delivery`. Raises `FileBusy` and `SubscriberFileReplaced` too."""
        with self._undone_by_errors(), translated(self._path):
            begin_immediate(self._connection)
            # Who restores a file moves another in its place: this connection would write to the one from before.
            if identify(self._path) != self._file:
                raise SubscriberFileReplaced(self._path)
            found = progress.find_difference(self._connection, self._guid, self._progress)
            if found is not None:
                raise AgentReplaced(self._subscriber, found)

    def run(self, article: Article, operation: Operation, arguments: Arguments) -> None:
        bitmap = bitmap_of(article, operation, arguments)
        known = self._statements.get((article.article_id, operation, bitmap))
        if known is None:
            known = statement(article, operation, bitmap)
            self._statements[article.article_id, operation, bitmap] = known
        with self._undone_by_errors():
            try:
                count = self._connection.execute(known.sql, known.bind(arguments)).rowcount
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise self._explain(error, article, operation, arguments) from error
            if known.is_for_one_row and count != 1:
                raise _miscounted(count, article, operation, arguments)

    def end(self, reached: Position) -> None:
        with self._undone_by_errors(), translated(self._path):
            progress.advance(self._connection, self._guid, reached)
            failpoint("sqlite_subscriber_commit.before")
            self._connection.commit()
            failpoint("sqlite_subscriber_commit.after")
        self._progress = Progress(reached, self._progress.batch + 1, self._progress.epoch)

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _undone_by_errors(self) -> Iterator[None]:
        """Give the file's lock back at once: the agent may pause before it closes."""
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise

    def _explain(
        self, error: sqlite3.Error | UnicodeDecodeError, article: Article, operation: Operation, arguments: Arguments
    ) -> RowtideError:
        if isinstance(error, UnicodeDecodeError):
            return _refused(_ENCODING, str(error), article, operation, arguments)
        failure = find_failure(self._path, error)
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
