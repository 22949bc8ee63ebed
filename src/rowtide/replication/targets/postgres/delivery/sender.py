"""Calls sent to a PostgreSQL subscriber as prepared statements, and the meaning of refusals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NoReturn

import psycopg

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.core.row_values import shown
from rowtide.databases.postgres.encodings import find_codec, holds
from rowtide.databases.postgres.errors import find_outage
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.batches import Call
from rowtide.replication.distribution.calls.encoding import Arguments
from rowtide.replication.distribution.calls.inserted_rows import InsertedRows
from rowtide.replication.distribution.calls.pieces import Failure
from rowtide.replication.distribution.delivery import BatchUndone, CallNotHeld, Progress
from rowtide.replication.errors.delivery import AgentReplaced, BatchRefused, CommandRefused, RowNotFound
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.calls import array_procedures, procedures, wide_rows
from rowtide.replication.targets.postgres.calls.array_literals import array_literal
from rowtide.replication.targets.postgres.calls.statements import statement
from rowtide.replication.targets.postgres.delivery.deadlocks import DeadlockWatch
from rowtide.replication.targets.postgres.delivery.pipeline import Pipeline, Refused
from rowtide.replication.targets.postgres.prepared_transactions import PreparedName

_BEGIN, _BEGIN_STREAM, _END = b"begin_batch", b"begin_stream", b"end_batch"
_ROW_NOT_FOUND = "20598"
_CHARACTER_NOT_HELD = "22P05"
_SENT_AT_ONCE = 10_000
_DEFER = "set constraints all deferred"
"""Defers constraints. The publisher checks a deferrable one after each statement; the log has single rows."""
RESET_ORIGIN = "select pg_replication_origin_xact_reset()"
"""Without it a commit would have the time of the session's first."""
_MOST_BYTES = (1 << 30) - (1 << 20)
"""PostgreSQL's limit of a message is one gigabyte; a larger one ends the session."""
_LARGE_BYTES = 1 << 25
_TOO_LARGE = ("54000", "XX000")
"""SQLSTATEs for a row that exceeds the server's memory allocation limit."""
_MAX_ARRAY_BYTES = 1 << 20
"""Limit of a call's arrays, of which the subscriber holds several copies in memory."""


class Sender:
    """Sends the calls of consecutive batches over a connection, which it closes."""

    def __init__(
        self,
        connection: psycopg.Connection,
        subscriber: str,
        *,
        has_origin: bool = False,
        watch: DeadlockWatch | None = None,
    ) -> None:
        """`has_origin`: the session has a replication origin. `watch` looks for deadlocks while calls run."""
        self._subscriber = subscriber
        self._has_origin = has_origin
        self._codec = find_codec(connection)
        self._pipeline = Pipeline(connection, watch)
        self._calls: dict[tuple[str, Operation], bytes] = {}
        self._array_calls: dict[tuple[str, Operation], bytes] = {}
        self._wide: set[tuple[str, Operation]] = set()
        self._prepared = 0
        self._sent: list[Call] = []
        self._sent_before = 0
        self._is_repeatable = False
        self._prepare_own()

    def begin(self, guid: bytes, known: Progress, *, is_deferred: bool, is_repeatable: bool) -> None:
        """Begin a batch. With `is_deferred`, deferrable constraints are checked at its end.

        With `is_repeatable`, a refusal rolls the batch back and raises `BatchUndone`; otherwise it raises the call's
        error.
        """
        opening = ["begin", *([_DEFER] if is_deferred else ()), *([RESET_ORIGIN] if self._has_origin else ())]
        for sql_text in opening:
            self._pipeline.execute(sql_text)
        self._pipeline.run(_BEGIN, [guid, b"%d" % known.epoch, b"%d" % known.position.value])
        self._sent_before = len(opening) + 1
        self._is_repeatable = is_repeatable

    def begin_stream(self, guid: bytes, known: Progress, *, is_first: bool, lock_timeout_s: int) -> None:
        """Begin one stream's part of a batch, repeatable; its first stream locks the progress row for all."""
        opening = ["begin", _DEFER, f"set local lock_timeout = '{lock_timeout_s}s'"]
        opening += [RESET_ORIGIN] if self._has_origin else []
        for sql_text in opening:
            self._pipeline.execute(sql_text)
        name = _BEGIN if is_first else _BEGIN_STREAM
        self._pipeline.run(name, [guid, b"%d" % known.epoch, b"%d" % known.position.value])
        self._sent_before = len(opening) + 1
        self._is_repeatable = True

    def send(self, call: Call) -> None:
        """Send a call."""
        name = self._calls.get((call.article.article_id, call.operation)) or self._prepare(call)
        self._sent.append(call)
        self._run(name, call)
        if len(self._sent) >= _SENT_AT_ONCE:
            # Calls are kept until they are answered: of a transaction of millions, not all.
            self.synchronize()

    def send_arrays(self, article: Article, operation: Operation, calls: Sequence[Arguments]) -> None:
        """Send calls of one article and operation at once, in a repeatable batch."""
        arrays = [array_literal(values) for values in zip(*calls, strict=True)]
        if sum(map(len, arrays)) > _MAX_ARRAY_BYTES and len(calls) > 1:
            half = len(calls) // 2
            self.send_arrays(article, operation, calls[:half])
            self.send_arrays(article, operation, calls[half:])
            return
        name = self._array_calls.get((article.article_id, operation)) or self._prepare_arrays(article, operation)
        self._pipeline.run(name, arrays)
        self._pipeline.push()

    def copy(self, article: Article, rows: Sequence[InsertedRows]) -> None:
        """Insert rows by COPY, in a repeatable batch. Raises as `synchronize`."""
        self.synchronize()
        names = ", ".join(quote(column.name) for column in article.columns)
        table = quote_qualified(article.schema, article.table)
        refused = self._pipeline.copy(f"copy {table} ({names}) from stdin", (one.as_copy_text() for one in rows))
        if refused is not None:
            self._require_order(refused)
            self._undo()
            raise BatchUndone

    def send_cascaded(self, call: Call, tables: Collection[str]) -> None:
        """Tell sp_MSreplraiserror, before a delete, which tables its cascade reaches.

        Later deletes there may find no row.
        """
        self._sent.append(call)
        self._pipeline.execute(procedures.TELL_CASCADED, [array_literal([name.encode() for name in sorted(tables)])])

    def try_piece(self, piece: Sequence[Call]) -> Failure | None:
        """Run calls within a savepoint, all or none; return the one that failed."""
        for call in piece:
            if (call.article.article_id, call.operation) not in self._calls:
                self._prepare(call)
        self.synchronize()
        self._pipeline.execute("savepoint piece")
        for call in piece:
            self._run(self._calls[call.article.article_id, call.operation], call)
        self._pipeline.execute("release savepoint piece")
        refused = self._pipeline.synchronize()
        if refused is None:
            return None
        self._require_order(refused)
        self._pipeline.execute("rollback to savepoint piece")
        self._pipeline.synchronize()
        place = refused.place - 1
        return Failure(place, self._explain(refused, place, piece))

    def alter(self, statements: Sequence[str], *, calls: Sequence[tuple[Article, Operation]] = ()) -> Refused | None:
        """Run statements that alter tables; return the first that is refused, the batch rolled back then.

        `calls` are prepared by them: those of an article that was altered.
        """
        self.synchronize()
        for one in statements:
            self._pipeline.execute(one)
        for article, operation in calls:
            self._pipeline.prepare(b"", statement(article, operation))
        refused = self._pipeline.synchronize()
        if refused is not None:
            self._require_order(refused)
            self._undo()
        return refused

    def forget(self, article: Article) -> None:
        """Prepare an article's calls again, which was altered."""
        for known in (self._calls, self._array_calls):
            for operation in Operation:
                known.pop((article.article_id, operation), None)
        self._wide -= {(article.article_id, operation) for operation in Operation}

    def synchronize(self) -> None:
        """Wait until everything sent has run. Raises `BatchUndone`, or the error of the refused call."""
        refused = self._pipeline.synchronize()
        sent, self._sent = self._sent, []
        before, self._sent_before = self._sent_before, 0
        if refused is None:
            return
        self._require_order(refused)
        if self._is_repeatable and refused.sqlstate != progress.FENCED:
            self._undo()
            raise BatchUndone
        raise self._explain(refused, refused.place - before, sent)

    def commit(self, guid: bytes, reached: Position) -> None:
        """Commit the batch with the position that it reaches. Raises as `synchronize`."""
        self._pipeline.run(_END, [guid, b"%d" % reached.value])
        failpoint("subscriber_commit.before")
        self._pipeline.execute("commit")
        self.synchronize()
        failpoint("subscriber_commit.after")

    def prepare(self, guid: bytes, name: PreparedName, reached: Position) -> None:
        """Prepare a stream's part for commit, with the position that the batch reaches. Raises as `synchronize`."""
        if name.stream == 0:
            self._pipeline.execute(progress.DECIDE_BATCH, [guid, b"%d" % reached.value, str(name.batch).encode()])
        self._pipeline.execute("set constraints all immediate")
        failpoint("stream_prepare.before")
        self._pipeline.execute(f"prepare transaction {quote_literal(str(name))}")
        self.synchronize()
        failpoint("stream_prepare.after")

    def end_prepared(self, sql_text: str) -> Refused | None:
        """Commit or roll back a prepared transaction; return its refusal."""
        self._pipeline.execute(sql_text)
        return self._pipeline.synchronize()

    def roll_back(self) -> None:
        """Roll back a stream's part after an error; the next can be begun."""
        self._pipeline.synchronize()
        self._sent.clear()
        self._undo()

    def close(self) -> None:
        """Close the connection; an uncommitted batch is rolled back."""
        self._pipeline.close()

    def _run(self, name: bytes, call: Call) -> None:
        article, operation, arguments = call.article, call.operation, call.arguments
        size = _size(arguments)
        if size > _MOST_BYTES:
            self._refuse_size(call, "the server takes at most a gigabyte at once")
        is_wide = (article.article_id, operation) in self._wide
        send = self._pipeline.run_large if size >= _LARGE_BYTES else self._pipeline.run
        send(name, wide_rows.pack(article, operation, arguments) if is_wide else arguments)

    def _prepare_own(self) -> None:
        self._pipeline.prepare(_BEGIN, progress.BEGIN_BATCH)
        self._pipeline.prepare(_BEGIN_STREAM, progress.BEGIN_STREAM)
        self._pipeline.prepare(_END, progress.END_BATCH)
        self.synchronize()

    def _prepare(self, call: Call) -> bytes:
        article, operation = call.article, call.operation
        self._prepared += 1
        name = b"call_%d" % self._prepared
        self._calls[article.article_id, operation] = name
        if operation is not Operation.TRUNCATE and wide_rows.is_wide(article, operation):
            self._wide.add((article.article_id, operation))
        self._sent.append(call)
        self._pipeline.prepare(name, statement(article, operation))
        return name

    def _prepare_arrays(self, article: Article, operation: Operation) -> bytes:
        self._prepared += 1
        name = b"array_call_%d" % self._prepared
        self._array_calls[article.article_id, operation] = name
        self._pipeline.prepare(name, array_procedures.call(article, operation))
        return name

    def _require_order(self, refused: Refused) -> None:
        """Raise the server's own failures, such as a full disk, which no command caused.

        A retry needs a new session.
        """
        outage = find_outage(refused.sqlstate, refused.message)
        if outage is not None:
            raise outage

    def _undo(self) -> None:
        """Roll back a batch; statements that were to be prepared after the refusal were not."""
        self._is_repeatable = False
        self._pipeline.execute("rollback")
        self._pipeline.execute("deallocate all")
        self._calls.clear()
        self._array_calls.clear()
        self._prepare_own()

    def _explain(self, refused: Refused, place: int, sent: Sequence[Call]) -> RowtideError:
        """Return the error for a refusal: of the call at that place, or of what came before or after all calls."""
        if refused.sqlstate == progress.FENCED:
            return AgentReplaced(self._subscriber, refused.message)
        if not 0 <= place < len(sent):
            return BatchRefused(refused.sqlstate, refused.message)
        lsn, command_id, article, operation, arguments = sent[place]
        table, key = article.qualified_name, procedures.key_of(article, operation, arguments)
        if refused.sqlstate in _TOO_LARGE and _size(arguments) >= _LARGE_BYTES:
            self._refuse_size(sent[place], f"the server says: {shown(refused.message)}")
        if refused.sqlstate == _ROW_NOT_FOUND:
            return RowNotFound(CommitLsn(lsn), command_id, table, key, operation.name.lower())
        command, reason = operation.name.lower(), refused.message
        if refused.sqlstate == _CHARACTER_NOT_HELD:
            reason += self._name_columns(article, arguments)
        return CommandRefused(CommitLsn(lsn), command_id, table, key, command, refused.sqlstate, reason)

    def _refuse_size(self, call: Call, reason: str) -> NoReturn:
        self._pipeline.synchronize()
        self._undo()
        raise CallNotHeld(call, f"its values take {_size(call.arguments):,} bytes; {reason}")

    def _name_columns(self, article: Article, arguments: Arguments) -> str:
        """Name the columns with values that the subscriber's encoding lacks, which the server does not do."""
        columns = article.columns
        named = dict.fromkeys(
            columns[place % len(columns)].name
            for place, value in enumerate(arguments)
            if value is not None and not holds(self._codec, value.decode(errors="ignore"))
        )
        return f", in column {', '.join(named)}" if named else ""


def _size(arguments: Arguments) -> int:
    return sum(len(value) for value in arguments if value is not None)
