"""Delivery to a SQLite subscriber: one statement per call, one write transaction per batch."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.databases.sqlite.errors import LOCK_DEADLINE_S
from rowtide.databases.sqlite.sql_text import quote
from rowtide.databases.sqlite.values import stored_type
from rowtide.databases.types.value_type import SqliteValue, StoredType
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.articles.call_formats import ArgumentGroup, parts_of
from rowtide.replication.articles.schema_changes import ColumnRetyped, CustomSql, Followed
from rowtide.replication.distribution.calls.arguments import Arguments
from rowtide.replication.distribution.calls.ordered import OrderedCalls, ProcedureCall
from rowtide.replication.distribution.calls.skipping import SkipErrors
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
from rowtide.replication.targets.sqlite.subscriber import require_streams

# Statements that replace procedures at a SQLite subscriber. For every call format, a statement takes the call's
# arguments and does what the generated procedure does at a PostgreSQL subscriber. Where that evaluates the bitmap,
# there is one statement per bitmap. Scripts of several statements in a SQLite file, within the caller's transaction.


@frozen
class Parameter:
    """A parameter of a statement: the position of its argument in the call, from 0, and its conversion to a value."""

    place: int
    convert: Callable[[bytes], SqliteValue]


@frozen
class Statement:
    """A statement and its parameters, in order. With `is_for_one_row`, it must affect exactly one row."""

    sql: str
    parameters: tuple[Parameter, ...]
    is_for_one_row: bool = True

    def bind(self, arguments: Arguments) -> list[SqliteValue]:
        """Return the values of a call's arguments. Raises `UnicodeDecodeError` for a text that is not valid."""
        values: list[SqliteValue] = []
        for parameter in self.parameters:
            argument = arguments[parameter.place]
            values.append(None if argument is None else parameter.convert(argument))
        return values


def bitmap_of(article: Article, operation: Operation, arguments: Arguments) -> bytes | None:
    """Return the bitmap among a call's arguments, in PostgreSQL's text form; None if its format has none."""
    return arguments[-1] if operation is Operation.UPDATE and _has_bitmap(article) else None


def statement(article: Article, operation: Operation, bitmap: bytes | None = None) -> Statement:
    """Return the statement for an operation; for an update with a bitmap format, the one for this bitmap."""
    match operation:
        case Operation.INSERT:
            return _insert(article)
        case Operation.UPDATE:
            return _update(article, bitmap)
        case Operation.DELETE:
            return _on_row(article, operation, f"delete from {quote(article.table)} as t", ())
        case _:
            return Statement(f"delete from {quote(article.table)}", (), is_for_one_row=False)


def describe_key(article: Article, operation: Operation, arguments: Arguments) -> str:
    """Return a call's key in readable form; a truncate is about all rows."""
    if operation is Operation.TRUNCATE:
        return "any"
    values = [arguments[place] for place in _key_indexes(article, operation)]
    return ", ".join(
        f"{column.name} = {'NULL' if value is None else value.decode(errors='replace')}"
        for column, value in zip(article.key_columns, values, strict=True)
    )


def _insert(article: Article) -> Statement:
    names = ", ".join(quote(column.name) for column in article.columns)
    marks = ", ".join("?" * len(article.columns))
    parameters = tuple(_parameter(column, index) for index, column in enumerate(article.columns))
    return Statement(f"insert into {quote(article.table)} ({names}) values ({marks})", parameters)


def _update(article: Article, bitmap: bytes | None) -> Statement:
    parts = parts_of(Operation.UPDATE, article.update.call_format)
    first = len(article.columns) if parts[0] is ArgumentGroup.OLD else 0
    given = [
        (column, first + index)
        for index, column in enumerate(article.columns)
        if bitmap is None or _is_set(bitmap, index)
    ]
    values = [f"{quote(column.name)} = ?" for column, _ in given] or [_itself(article)]
    change = f"update {quote(article.table)} as t set {', '.join(values)}"
    return _on_row(article, Operation.UPDATE, change, [_parameter(column, place) for column, place in given])


def _itself(article: Article) -> str:
    """Return an assignment for an update that changed nothing: its row must exist all the same, and triggers fire."""
    others = (column for column in article.columns if column.key_ordinal is None)
    name = quote(next(others, article.columns[0]).name)
    return f"{name} = t.{name}"


def _on_row(article: Article, operation: Operation, change: str, parameters: Sequence[Parameter]) -> Statement:
    """Return a statement for the row with the old key.

    Its columns are qualified with their table: SQLite would take the unqualified name of a dropped column for a string.
    """
    types = [_type(column) for column in article.key_columns]
    # Whatever the column says: a and A, or a with a blank behind it, are two rows at the publisher.
    marks = ["? collate binary" if stored.is_text else "?" for stored in types]
    columns = zip(article.key_columns, marks, strict=True)
    has_key = " and ".join(f"t.{quote(column.name)} = {mark}" for column, mark in columns)
    places = zip(article.key_columns, _key_indexes(article, operation), strict=True)
    keys = [_parameter(column, place) for column, place in places]
    return Statement(f"{change} where {has_key}", (*parameters, *keys))


def _key_indexes(article: Article, operation: Operation) -> list[int]:
    """Return the positions of the key by which a call finds its row; for an insert, the inserted key."""
    in_row = [article.columns.index(column) for column in article.key_columns]
    parts = parts_of(operation, article.command(operation).call_format)
    if operation is Operation.INSERT or parts[0] is ArgumentGroup.OLD:
        return in_row
    first = len(article.columns) if parts[0] is not ArgumentGroup.OLD_KEY else 0
    return list(range(first, first + len(in_row)))


def _is_set(bitmap: bytes, place: int) -> bool:
    return bool(bytes.fromhex(bitmap[2:].decode())[place // 8] >> place % 8 & 1)


def _has_bitmap(article: Article) -> bool:
    return ArgumentGroup.BITMAP in parts_of(Operation.UPDATE, article.update.call_format)


def _parameter(column: PublishedColumn, place: int) -> Parameter:
    return Parameter(place, _type(column).convert)


def _type(column: PublishedColumn) -> StoredType:
    return stored_type(column.value_type_text)


_DENIED = frozenset(
    {sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH}
)
"""What would end the transaction, or lead out of the file."""


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Run the statements of a script; those that begin or end transactions are refused."""
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action in _DENIED else sqlite3.SQLITE_OK)
    try:
        for statement in split(script):
            connection.execute(statement)
    finally:
        connection.set_authorizer(None)


def split(script: str) -> Iterator[str]:
    """Yield the statements of a script; the semicolons within a trigger's body do not end it. Pure."""
    statement = ""
    for part in script.split(";"):
        statement += part
        if sqlite3.complete_statement(f"{statement};"):
            if statement.strip():
                yield statement
            statement = ""
        else:
            statement += ";"
    rest = statement.removesuffix(";")
    if rest.strip():
        yield rest


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
