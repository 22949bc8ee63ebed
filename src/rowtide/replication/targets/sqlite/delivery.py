"""Delivery to a SQLite subscriber: one statement per call, one write transaction per batch."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.databases.sqlite.errors import LOCK_DEADLINE_S
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import ColumnRetyped, CustomSql, Followed
from rowtide.replication.distribution.calls.arguments import Arguments
from rowtide.replication.distribution.calls.ordered import OrderedCalls, ProcedureCall
from rowtide.replication.distribution.calls.skipped_commands import SkipErrors
from rowtide.replication.distribution.delivery_interface import (
    AlterationRefused,
    BatchUndone,
    CallNotStorable,
    DeliveryProgress,
    JoiningArticle,
    JoiningMoved,
)
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import (
    AgentReplaced,
    CommandError,
    CommandRefused,
    CustomScriptFailed,
    RowNotFound,
)
from rowtide.replication.targets.sqlite import progress
from rowtide.replication.targets.sqlite.alterations import ChangeNotMade, follow
from rowtide.replication.targets.sqlite.files import SubscriberFile, code_of
from rowtide.replication.targets.sqlite.statements import Statement, bitmap_of, describe_key, run_script, statement
from rowtide.replication.targets.sqlite.subscriber import require_streams

_ENCODING = "encoding"
_ROW_COUNT = "row count"
_KEPT_STATEMENTS = 512
"""Limit of cached statements: each bitmap needs its own, and a wide table can have any number."""


class SqliteDelivery:
    """A connection that delivers to a SQLite subscriber; see `Delivery`."""

    def __init__(self, file: SubscriberFile, subscription: Subscription) -> None:
        self._skips = SkipErrors.parse(subscription.settings.skip_errors)
        self._skipped: list[CommandError] = []
        self._one_by_one = False
        self._file = file
        self._subscriber = subscription.subscriber
        self._guid = subscription.guid
        self._statements: dict[tuple[str, Operation, bytes | None], Statement] = {}
        with file.transaction() as connection:
            self._progress = progress.take_over(connection, self._guid, describe_holder())

    @classmethod
    def open(
        cls,
        subscription: Subscription,
        _articles: Sequence[Article] = (),
        *,
        patience_s: float = LOCK_DEADLINE_S,
    ) -> SqliteDelivery:
        """Open the file and take over from any earlier agent; `patience_s` is the busy timeout.

        Raises `StreamsUnsupported`, `FileNotOpened`, `FileBusy`, `SubscriberUnprepared`, `SubscriberFileFailed`.
        """
        require_streams(subscription.subscriber, subscription.guid, subscription.settings.streams)
        file = SubscriberFile(subscription.subscriber, patience_s=patience_s)
        try:
            return cls(file, subscription)
        except BaseException:
            file.close()
            raise

    @property
    def progress(self) -> DeliveryProgress:
        return self._progress

    def begin(self, *, one_by_one: bool = False, committed_us: int | None = None) -> None:  # noqa: ARG002 - not kept
        """See `Delivery`.

        This and the following methods also raise `FileBusy`, `SubscriberFileReplaced`, `SubscriberFileFailed`.
        """
        self._one_by_one = one_by_one
        self._skipped = []
        with self._file.undone_by_errors():
            self._file.begin()
            # An upgrade may have migrated the file since the last batch.
            progress.require_writable(self._file.connection)
            # The fence: after a takeover by another agent, or in a restored copy of the file, epoch or position are
            # others.
            found = progress.find_difference(self._file.connection, self._guid, self._progress)
            if found is not None:
                raise AgentReplaced(self._subscriber, found)

    def begin_early(self) -> None:
        """Never: the file's other writers would wait."""

    def run(self, calls: OrderedCalls) -> None:
        for call in calls:
            self._run(call)

    def _run(self, call: ProcedureCall) -> None:
        error = self._run_within_savepoint(call)
        if error is None:
            return
        if self._one_by_one and self._skips.covers(error) and self._file.connection.in_transaction:
            self._file.connection.execute("rollback to call")
            self._file.connection.execute("release call")
            self._skipped.append(error)
            return
        self._file.undo()
        if self._skips.covers(error) and not self._one_by_one:
            raise BatchUndone
        raise error

    def alter(self, followed: Followed) -> None:
        for change in followed.changes:
            if isinstance(change, ColumnRetyped) and not change.keeps_texts:
                self._file.undo()
                kind = change.column.type_text
                reason = f"column {change.column.name} became {kind}, in which the texts of its values may be others"
                raise AlterationRefused(followed.article, change, reason)
        article = followed.article
        if any(command.procedure is not None for command in (article.insert, article.update, article.delete)):
            self._file.undo()
            raise AlterationRefused(article, None, "a SQLite file has no procedures")
        try:
            follow(self._file.connection, self._guid, followed)
        except ChangeNotMade as found:
            self._file.undo()
            error = found.error
            failure = self._file.find_failure(error)
            raise failure or AlterationRefused(followed.article, found.change, str(error)) from error
        if followed.script is not None:
            self._run_script(followed.article, followed.script)
        self._statements.clear()

    def join(self, joining: JoiningArticle) -> None:
        with self._file.undone_by_errors():
            if not progress.attach(self._file.connection, self._guid, joining):
                raise JoiningMoved

    def _run_script(self, article: Article, script: CustomSql) -> None:
        try:
            run_script(self._file.connection, script.text)
        except sqlite3.Error as error:
            self._file.undo()
            name = article.qualified_name
            failure = self._file.find_failure(error)
            raise failure or CustomScriptFailed(script.name, name, script.lsn, str(error)) from error

    def flush(self) -> None:
        """No effect: each call runs at once."""

    def end(self, reached: Position) -> Sequence[CommandError]:
        with self._file.undone_by_errors():
            # In the transaction of the rows: after a crash the file has both or neither.
            progress.advance(self._file.connection, self._guid, reached)
            self._file.commit()
        self._progress = self._progress.after_batch(reached)
        return self._skipped

    def close(self) -> None:
        self._file.close()

    def _run_within_savepoint(self, call: ProcedureCall) -> RowtideError | None:
        """Run a call that may be skipped in a savepoint of its own; return its error."""
        if self._one_by_one and self._skips:
            self._file.connection.execute("savepoint call")
        known = self._statement(call.article, call.operation, call.arguments)
        try:
            count = self._file.connection.execute(known.sql, known.bind(call.arguments)).rowcount
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) == sqlite3.SQLITE_TOOBIG:
                self._file.undo()
                raise CallNotStorable(call, self._describe_limit()) from error
            return self._explain(error, call)
        if known.is_for_one_row and count != 1:
            return _miscounted(count, call)
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

    def _describe_limit(self) -> str:
        most = self._file.connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
        return f"a row takes more than {most:,} bytes, the most that SQLite holds"

    def _explain(self, error: sqlite3.Error | UnicodeDecodeError, call: ProcedureCall) -> RowtideError:
        if isinstance(error, UnicodeDecodeError):
            return _refused(_ENCODING, str(error), call)
        failure = self._file.find_failure(error)
        return failure or _refused(code_of(error), str(error), call)


def _refused(code: str, reason: str, call: ProcedureCall) -> CommandRefused:
    return CommandRefused(*_error_fields(call), code, reason)


def _miscounted(count: int, call: ProcedureCall) -> CommandError:
    """Return the error of a wrong row count: `on conflict ignore` drops inserts silently, and keys may be missing."""
    if count == 0 and call.operation is not Operation.INSERT:
        return RowNotFound(*_error_fields(call))
    return _refused(_ROW_COUNT, f"it was about one row and changed {count}", call)


def _error_fields(call: ProcedureCall) -> tuple[CommitLsn, int, str, str, str]:
    """Return the fields that identify a call in an error."""
    lsn, command_id, article, operation, arguments = call
    key = describe_key(article, operation, arguments)
    return CommitLsn(lsn), command_id, article.qualified_name, key, operation.name.lower()
