"""Calls sent to a PostgreSQL subscriber as prepared statements: one by one, as arrays, or by COPY."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import NoReturn

import psycopg

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.core.redaction import shown
from rowtide.databases.postgres.functions import OWN_PATH, USERS_PATH
from rowtide.databases.postgres.owner_functions import DEFERRED
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.databases.postgres.typed_values import find_codec
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.arguments import InsertedRows
from rowtide.replication.distribution.calls.ordered import Calls, OrderedCalls, ProcedureCall
from rowtide.replication.distribution.calls.runs import MAX_CALLS, CallRun, RunBuilder
from rowtide.replication.distribution.calls.skipped_commands import NOTHING_SKIPPED, Failure, RetriedCalls, SkipErrors
from rowtide.replication.distribution.delivery_interface import BatchUndone, CallNotStorable, DeliveryProgress
from rowtide.replication.errors.delivery import AgentReplaced, BatchRefused, CommandError
from rowtide.replication.errors.subscribing import OwnerTriggersDeferred
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.calls import array_procedures, procedures, statements
from rowtide.replication.targets.postgres.calls.procedures import array_literal
from rowtide.replication.targets.postgres.calls.written_table import Writer
from rowtide.replication.targets.postgres.delivery.deadlock_watch import DeadlockWatch
from rowtide.replication.targets.postgres.delivery.pipeline import (
    LARGE_BYTES,
    FailedStatement,
    Pipeline,
    explain_call,
    is_too_large,
    require_order,
    size_of,
)
from rowtide.replication.targets.postgres.delivery.table_relations import SetPlan
from rowtide.replication.targets.postgres.progress import PreparedName
from rowtide.replication.targets.postgres.writing_rights import WrittenTables

_BEGIN, _BEGIN_STREAM, _END = b"begin_batch", b"begin_stream", b"end_batch"
_OWN = {_BEGIN: progress.BEGIN_BATCH, _BEGIN_STREAM: progress.BEGIN_STREAM, _END: progress.END_BATCH}
_SENT_AT_ONCE = 10_000
_FEWEST_AS_ARRAYS = 3
"""Least number of calls sent as arrays."""
FEWEST_AS_COPY = 1000
"""Least number of inserts sent by COPY, which waits for all that was sent before."""
_DEFER = "set constraints all deferred"
"""Defers constraints. The publisher checks a deferrable one after each statement; the log has single rows."""
RESET_ORIGIN = "select pg_replication_origin_xact_reset()"
"""Without it a commit would have the time of the session's first."""
_MOST_BYTES = (1 << 30) - (1 << 20)
"""PostgreSQL's limit of a message is one gigabyte; a larger one ends the session."""
_MAX_ARRAY_BYTES = 1 << 20
"""Limit of a call's arrays, of which the subscriber holds several copies in memory."""


class Sender:
    """Sends the calls of consecutive batches over a connection, which it closes."""

    def __init__(
        self,
        connection: psycopg.Connection,
        subscriber: str,
        written: WrittenTables,
        plan: SetPlan,
        *,
        edited: Set[tuple[str, Operation]] = frozenset(),
        skips: SkipErrors = NOTHING_SKIPPED,
        has_origin: bool = False,
        watch: DeadlockWatch | None = None,
    ) -> None:
        """`plan` says what may be sent many at a time, `skips` for which errors a call is skipped; `edited` are
        operations, by article id, whose procedures users have edited.

        `has_origin`: the session has a replication origin. `watch` looks for deadlocks while calls run.
        """
        self._subscriber = subscriber
        self._written = written
        self._plan = plan
        self._skips = skips
        self._gatherer: RunBuilder | None = None
        self._pieces: RetriedCalls | None = None
        self._edited = edited
        self._changed_by: Writer | None = None
        self._has_origin = has_origin
        self._codec = find_codec(connection)
        self._pipeline = Pipeline(connection, watch)
        self._calls: dict[tuple[str, Operation], bytes] = {}
        self._array_calls: dict[tuple[str, Operation], bytes] = {}
        self._prepared = 0
        self._sent: list[ProcedureCall] = []
        self._sent_before = 0
        self._is_repeatable = False
        self._prepare_own()

    def begin(self, guid: bytes, known: DeliveryProgress, *, one_by_one: bool) -> None:
        """Begin a batch, whose calls are sent many at a time where the plan says so.

        Then, and where errors are skipped, a refusal rolls the batch back and raises `BatchUndone`; with `one_by_one`
        it raises the call's error, or the call is skipped.
        """
        is_set_based, is_skipping = bool(self._plan.groups) and not one_by_one, bool(self._skips) and one_by_one
        self._gatherer = self._make_gatherer() if is_set_based else None
        self._pieces = RetriedCalls(self._try_piece, self._skips) if is_skipping else None
        # Deferrable constraints are checked at the end; not where errors are skipped: no command is to blame there.
        opening = ["begin", *self._written.beginning, *(() if is_skipping else [_DEFER])]
        opening += [RESET_ORIGIN] if self._has_origin else []
        for sql_text in opening:
            self._pipeline.execute(sql_text)
        self._changed_by = None
        # The fence: it locks the progress row until the commit, and is refused if another agent has raised the epoch or
        # moved the position since.
        self._run_own(_BEGIN, [guid, b"%d" % known.epoch, b"%d" % known.position.value])
        self._sent_before = len(opening) + 1
        # A refused batch is rolled back without an error only where it can be sent in another way. One by one, the
        # refusal is the call's own, and is raised.
        self._is_repeatable = is_set_based or (bool(self._skips) and not one_by_one)
        if is_skipping:
            self.synchronize()

    def begin_stream(self, guid: bytes, known: DeliveryProgress, *, is_first: bool, lock_timeout_s: int) -> None:
        """Begin one stream's part of a batch, repeatable; its first stream locks the progress row for all."""
        self._gatherer = self._make_gatherer() if self._plan.groups else None
        opening = ["begin", *self._written.beginning, _DEFER, f"set local lock_timeout = '{lock_timeout_s}s'"]
        opening += [RESET_ORIGIN] if self._has_origin else []
        for sql_text in opening:
            self._pipeline.execute(sql_text)
        self._changed_by = None
        name = _BEGIN if is_first else _BEGIN_STREAM
        self._run_own(name, [guid, b"%d" % known.epoch, b"%d" % known.position.value])
        self._sent_before = len(opening) + 1
        self._is_repeatable = True

    def _make_gatherer(self) -> RunBuilder:
        return RunBuilder(self._plan.groups, self._plan.combinable, self._plan.copied)

    def send(self, calls: OrderedCalls) -> None:
        """Send calls, at once or before `finish` returns."""
        if self._gatherer is not None:
            for run in self._gatherer.add(calls):
                self._send_run(run)
            return
        send = self._send_one if self._pieces is None else self._pieces.add
        for call in calls:
            send(call)

    def finish(self) -> Sequence[CommandError]:
        """Send the calls that were kept to go together; return the errors of those that the batch has skipped."""
        for run in self._gatherer.end() if self._gatherer is not None else ():
            self._send_run(run)
        return () if self._pieces is None else self._pieces.end()

    def _send_run(self, run: CallRun) -> None:
        """Send a run as one call with arrays, or by COPY, if the plan says so of the article's operation."""
        article_id = run.article.article_id
        is_copied = run.operation is Operation.INSERT and article_id in self._plan.copied
        rows = run.inserted() if is_copied and run.count >= FEWEST_AS_COPY else None
        if rows is not None:
            self._copy(run.article, rows)
            return
        if run.count < _FEWEST_AS_ARRAYS or (article_id, run.operation) not in self._plan.has_arrays:
            for call in run.calls():
                self._send_one(call)
            return
        for calls in run.sets(combines=article_id in self._plan.combinable):
            for start in range(0, len(calls), MAX_CALLS):
                self._send_set(calls.between(start, start + MAX_CALLS))

    def _send_one(self, call: ProcedureCall) -> None:
        self._sent += [call] * self._run(call)
        if len(self._sent) >= _SENT_AT_ONCE:
            # Calls are kept until they are answered: of a transaction of millions, not all.
            self.synchronize()

    def _send_set(self, calls: Calls) -> None:
        """Send calls of one article and operation at once, which are about different rows; halved while too large."""
        if len(calls) < _FEWEST_AS_ARRAYS:
            for index in range(len(calls)):
                self._send_one(calls.one(index))
            return
        parts = [calls]
        while parts:
            part = parts.pop()
            arrays = [array_literal(values) for values in part.arguments.matrix.T.tolist()]
            if sum(map(len, arrays)) > _MAX_ARRAY_BYTES and len(part) > 1:
                # The second half goes below the first on the stack: calls are sent in the order of the log.
                half = len(part) // 2
                parts += [part.between(half, len(part)), part.between(0, half)]
            else:
                self._run_arrays(calls.article, calls.operation, arrays, len(part))
                self._pipeline.push()

    def _copy(self, article: Article, rows: Sequence[InsertedRows]) -> None:
        """Insert rows by COPY, in a repeatable batch. Raises as `synchronize`."""
        self._pin_for(self._written.own)
        # A domain's check is found by the role's own path.
        self._pipeline.execute(USERS_PATH)
        self.synchronize()
        names = ", ".join(quote(column.name) for column in article.columns)
        table = quote_qualified(article.schema, article.table)
        refused = self._pipeline.copy(f"copy {table} ({names}) from stdin", (one.as_copy_text() for one in rows))
        if refused is not None:
            require_order(refused)
            self._undo()
            raise BatchUndone
        self._pipeline.execute(OWN_PATH)

    def send_cascaded(self, call: ProcedureCall, tables: Collection[str]) -> None:
        """Give sp_MSreplraiserror, before a delete, the tables its cascade reaches.

        Later deletes there may find no row.
        """
        self._sent += [call] * (1 + self._pin_for(self._written.own))
        self._pipeline.execute(procedures.REPORT_CASCADED, [array_literal([name.encode() for name in sorted(tables)])])

    def _try_piece(self, piece: Sequence[ProcedureCall]) -> Failure | None:
        """Run calls within a savepoint, all or none; return the one that failed."""
        for call in piece:
            self.learn(call.article)
            if not self._is_executed(call) and not self._written.has_others:
                self._prepare(call)
        self.synchronize()
        changed_by = self._changed_by
        self._pipeline.execute("savepoint piece")
        indexes = [index for index, call in enumerate(piece) for _ in range(self._run(call))]
        self._pipeline.execute("release savepoint piece")
        refused = self._pipeline.synchronize()
        if refused is None:
            return None
        require_order(refused)
        self._pipeline.execute("rollback to savepoint piece")
        # A rollback to a savepoint restores the session's settings, too, so whose code changed them last is as before.
        self._changed_by = changed_by
        self._pipeline.synchronize()
        index = indexes[refused.index - 1] if 0 < refused.index <= len(indexes) else len(piece)
        return Failure(index, self._explain(refused, index, piece))

    def alter(
        self, altering: Sequence[str], *, calls: Sequence[tuple[Article, Operation]] = ()
    ) -> FailedStatement | None:
        """Run statements that alter tables; return the first that is refused, the batch rolled back then.

        `calls` are prepared by them: those of an article that was altered.
        """
        self.synchronize()
        for one in altering:
            if self._written.has_others:
                self._pipeline.execute(self._written.pinning)
            self._pipeline.execute(one)
        self._pin_for(self._written.own)
        for article, operation in calls:
            self._pipeline.execute(USERS_PATH)
            self._pipeline.prepare(b"", statements.resolving(article, operation))
            self._pipeline.execute(OWN_PATH)
        refused = self._pipeline.synchronize()
        if refused is not None:
            require_order(refused)
            self._undo()
        return refused

    def learn(self, article: Article) -> None:
        """Read the table of an article that joined meanwhile."""
        if not self._written.knows(article):
            self.synchronize()
            with self._pipeline.paused():
                self._written.read([article])

    def forget(self, article: Article) -> None:
        """Prepare an article's calls again, which was altered."""
        for known in (self._calls, self._array_calls):
            for operation in Operation:
                known.pop((article.article_id, operation), None)
        self._edited = self._edited - {(article.article_id, operation) for operation in Operation}

    def synchronize(self) -> None:
        """Wait until everything sent has run. Raises `BatchUndone`, or the error of the refused call."""
        refused = self._pipeline.synchronize()
        sent, self._sent = self._sent, []
        before, self._sent_before = self._sent_before, 0
        if refused is None:
            return
        require_order(refused)
        # A fenced batch is never repeated: another agent delivers the subscription now.
        if self._is_repeatable and refused.sqlstate not in (progress.FENCED, DEFERRED):
            self._undo()
            raise BatchUndone
        raise self._explain(refused, refused.index - before, sent)

    def commit(self, guid: bytes, reached: Position) -> None:
        """Commit the batch with the position that it reaches. Raises as `synchronize`."""
        self._pin_for(self._written.own)
        self._run_own(_END, [guid, b"%d" % reached.value])
        for sql_text in self._written.ending:
            self._pipeline.execute(sql_text)
        # Rows and position are sent before the commit in the same transaction; a crash on either side of it leaves both
        # or neither.
        failpoint("subscriber_commit.before")
        self._pipeline.execute("commit")
        self.synchronize()
        failpoint("subscriber_commit.after")

    def prepare(self, guid: bytes, name: PreparedName, reached: Position) -> None:
        """Prepare a stream's part for commit, with the position that the batch reaches. Raises as `synchronize`."""
        self._pin_for(self._written.own)
        if name.stream == 0:
            self._pipeline.execute(progress.DECIDE_BATCH, [guid, b"%d" % reached.value, str(name.batch).encode()])
        for sql_text in self._written.ending:
            self._pipeline.execute(sql_text)
        self._pipeline.execute("set constraints all immediate")
        failpoint("stream_prepare.before")
        self._pipeline.execute(f"prepare transaction {quote_literal(str(name))}")
        self.synchronize()
        failpoint("stream_prepare.after")

    def end_prepared(self, sql_text: str) -> FailedStatement | None:
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

    def _run(self, call: ProcedureCall) -> int:
        """Send a call; return by how many statements."""
        article, operation, arguments = call.article, call.operation, call.arguments
        size = size_of(arguments)
        if size > _MOST_BYTES:
            self._refuse_size(call, "the server takes at most a gigabyte at once")
        self.learn(article)
        if self._is_executed(call):
            return self._execute(call, is_large=size >= LARGE_BYTES)
        pins = self._pin_for(self._written.own)
        if procedures.is_wide(article, operation):
            arguments = procedures.pack_wide(article, operation, arguments)
        if self._written.has_others:
            self._pipeline.execute(procedures.call(article, operation), arguments)
            return pins + 1
        prepared = self._prepare(call)
        send = self._pipeline.run_large if size >= LARGE_BYTES else self._pipeline.run
        send(self._calls[article.article_id, operation], arguments)
        return pins + prepared + 1

    def _is_executed(self, call: ProcedureCall) -> bool:
        is_edited = (call.article.article_id, call.operation) in self._edited
        return statements.is_executed(call.article, call.operation, self._written.of(call.article), is_edited=is_edited)

    def _prepare(self, call: ProcedureCall) -> int:
        """Prepare the statement of a generated procedure's call; return the number of statements sent."""
        known = call.article.article_id, call.operation
        if known in self._calls:
            return 0
        self._calls[known] = self._next_name(b"call")
        self._pipeline.prepare(self._calls[known], procedures.call(call.article, call.operation))
        return 1

    def _execute(self, call: ProcedureCall, *, is_large: bool) -> int:
        """Send a call as a statement that a function executes; return by how many statements."""
        article, operation, arguments = call.article, call.operation, call.arguments
        table, writer = self._written.of(article), self._written.writer_of(article)
        is_edited = (article.article_id, operation) in self._edited
        pins = self._pin_for(writer)
        text = statements.statement(article, operation, arguments, table, is_edited=is_edited)
        given = statements.arguments_of(article, operation, arguments, is_edited=is_edited)
        values = [text.encode(), array_literal(given) if given else b"{}"]
        if is_large:
            self._pipeline.push()
        if statements.is_checked(article, operation, is_edited=is_edited):
            key = procedures.key_of(article, operation, arguments).encode()
            rest = [b"1", operation.name.encode(), article.qualified_name.encode(), key]
            self._pipeline.execute(procedures.REQUIRED.format(writer.executing), [*values, *rest])
        else:
            self._pipeline.execute(f"select {writer.executing}($1, $2)", values)
        return pins + 1

    def _run_arrays(self, article: Article, operation: Operation, arrays: Sequence[bytes], count: int) -> None:
        self.learn(article)
        table, writer = self._written.of(article), self._written.writer_of(article)
        self._pin_for(writer)
        if table.is_others:
            text = statements.array_statement(article, operation, table)
            rest = [b"%d" % count, operation.name.encode(), article.qualified_name.encode(), b""]
            executing = procedures.REQUIRED.format(writer.executing)
            self._pipeline.execute(executing, [text.encode(), array_literal(arrays), *rest])
        elif self._written.has_others:
            self._pipeline.execute(array_procedures.array_call(article, operation), arrays)
        else:
            name = self._array_calls.get((article.article_id, operation))
            if name is None:
                name = self._array_calls[article.article_id, operation] = self._next_name(b"array_call")
                self._pipeline.prepare(name, array_procedures.array_call(article, operation))
            self._pipeline.run(name, arrays)

    def _run_own(self, name: bytes, arguments: Sequence[bytes | None]) -> None:
        """Execute a statement of progress."""
        if self._written.has_others:
            # Their code could give its name to another prepared statement.
            self._pipeline.execute(_OWN[name], arguments)
        else:
            self._pipeline.run(name, arguments)

    def _pin_for(self, writer: Writer) -> int:
        """Pin the session's settings, before a statement of this role, if code of another has run.

        Returns the number of statements sent.
        """
        before, self._changed_by = self._changed_by, writer if writer.is_other else None
        if before is None or before == writer:
            return 0
        self._pipeline.execute(self._written.pinning)
        return 1

    def _prepare_own(self) -> None:
        if not self._written.has_others:
            for name, text in _OWN.items():
                self._pipeline.prepare(name, text)
        self.synchronize()

    def _next_name(self, kind: bytes) -> bytes:
        self._prepared += 1
        return b"%s_%d" % (kind, self._prepared)

    def _undo(self) -> None:
        """Roll back a batch; statements that were to be prepared after the refusal were not."""
        self._is_repeatable = False
        self._pipeline.execute("rollback")
        self._pipeline.execute("deallocate all")
        self._calls.clear()
        self._array_calls.clear()
        self._prepare_own()

    def _explain(self, refused: FailedStatement, index: int, sent: Sequence[ProcedureCall]) -> RowtideError:
        """Return the error for a refusal: of the call at that index, or of what came before or after all calls."""
        if refused.sqlstate == progress.FENCED:
            return AgentReplaced(self._subscriber, refused.message)
        if refused.sqlstate == DEFERRED:
            return OwnerTriggersDeferred(refused.message)
        if not 0 <= index < len(sent):
            return BatchRefused(refused.sqlstate, refused.message)
        call = sent[index]
        if is_too_large(refused, call):
            self._refuse_size(call, f"the server says: {shown(refused.message)}")
        return explain_call(refused, call, self._codec)

    def _refuse_size(self, call: ProcedureCall, reason: str) -> NoReturn:
        self._pipeline.synchronize()
        self._undo()
        raise CallNotStorable(call, f"its values take {size_of(call.arguments):,} bytes; {reason}")
