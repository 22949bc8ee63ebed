"""Delivery to a PostgreSQL subscriber over one connection: prepared statements, row by row or set-based."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import psycopg

from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.databases.postgres.locks import LOCK_NOT_AVAILABLE
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.postgres.silence import name_holders
from rowtide.events.catalogue import OriginNotSet
from rowtide.events.emission import emit
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import CustomSql, Followed, SchemaChange
from rowtide.replication.distribution.calls.batches import MAX_CALLS, Block, CallSequence, Gatherer, ProcedureCall
from rowtide.replication.distribution.calls.pieces import Pieces
from rowtide.replication.distribution.delivery import AlterationRefused, DeliveryProgress, JoiningArticle, JoiningMoved
from rowtide.replication.distribution.skip_errors import SkipErrors
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.conflicts import OriginMissing
from rowtide.replication.errors.delivery import CommandError, CustomScriptFailed
from rowtide.replication.errors.subscribers import SubscriberTableInUse
from rowtide.replication.targets.postgres import origins
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.replication.targets.postgres.calls.procedures import parameters_of
from rowtide.replication.targets.postgres.connecting import connect_agent
from rowtide.replication.targets.postgres.delivery.pipeline import DeadlockWatch, FailedStatement
from rowtide.replication.targets.postgres.delivery.sender import Sender
from rowtide.replication.targets.postgres.delivery.table_relations import (
    SetPlan,
    SubscriberTables,
    find_edited,
    plan_sets,
)
from rowtide.replication.targets.postgres.recovery import TakenOver
from rowtide.replication.targets.postgres.schema import alterations
from rowtide.replication.targets.postgres.schema.own_constraints import require_nothing_unsent
from rowtide.replication.targets.postgres.subscriber import CHECK_ALL, MOVED, attach
from rowtide.replication.targets.postgres.written_tables import WrittenTables

_FEWEST_AS_ARRAYS = 3
"""Least length of a run sent as arrays."""
FEWEST_AS_COPY = 1000
"""Least number of inserts sent by COPY, which waits for all that was sent before."""


class Mode(Protocol):
    """Takes the calls of one batch in log order."""

    def add(self, call: ProcedureCall) -> None:
        """Send a call, at once or before `flush` returns."""

    def add_block(self, block: Block) -> None:
        """Send the calls of a block, as `add`."""

    def flush(self) -> Sequence[CommandError]:
        """Send the remaining calls; return the errors of the calls that the batch has skipped so far."""


class RowByRow:
    """Each call is a separate statement: an error names the call that caused it."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def add(self, call: ProcedureCall) -> None:
        self._sender.send(call)

    def add_block(self, block: Block) -> None:
        for call in block.calls():
            self._sender.send(call)

    def flush(self) -> Sequence[CommandError]:
        return ()


class SetBased:
    """A run of calls is sent as one call with arrays, or by COPY, if the plan says so of the article's operation."""

    def __init__(self, sender: Sender, plan: SetPlan) -> None:
        self._sender = sender
        self._plan = plan
        self._gatherer = Gatherer(plan.groups, plan.folded)

    def add(self, call: ProcedureCall) -> None:
        for run in self._gatherer.add(call):
            self._send(run)

    def add_block(self, block: Block) -> None:
        for run in self._gatherer.add_block(block):
            self._send(run)

    def flush(self) -> Sequence[CommandError]:
        for run in self._gatherer.end():
            self._send(run)
        return ()

    def _send(self, run: CallSequence) -> None:
        for calls in run.rounds:
            self._send_calls(run, calls)
        if run.article.article_id in self._plan.copied and sum(len(one.rows) for one in run.blocks) >= FEWEST_AS_COPY:
            self._sender.copy(run.article, [block.rows for block in run.blocks])
            return
        for block in run.blocks:
            calls = list(block.calls())
            for start in range(0, len(calls), MAX_CALLS):
                self._send_calls(run, calls[start : start + MAX_CALLS])

    def _send_calls(self, run: CallSequence, calls: Sequence[ProcedureCall]) -> None:
        has_arrays = (run.article.article_id, run.operation) in self._plan.has_arrays
        if has_arrays and len(calls) >= _FEWEST_AS_ARRAYS:
            self._sender.send_arrays(run.article, run.operation, [call.arguments for call in calls])
        else:
            for call in calls:
                self._sender.send(call)


class Skipping:
    """Calls are sent in pieces with savepoints; one whose error is listed is skipped."""

    def __init__(self, sender: Sender, skips: SkipErrors) -> None:
        self._pieces = Pieces(sender.try_piece, skips)

    def add(self, call: ProcedureCall) -> None:
        self._pieces.add(call)

    def add_block(self, block: Block) -> None:
        for call in block.calls():
            self._pieces.add(call)

    def flush(self) -> Sequence[CommandError]:
        return self._pieces.end()


class PostgresDelivery:
    """A connection that delivers to a PostgreSQL subscriber; see `Delivery`.

    A batch is sent set-based where procedures and tables allow it. If it is refused, it is rolled back and delivered
    again one by one: in pieces if errors are skipped, else row by row.
    """

    def __init__(
        self,
        taken: TakenOver,
        subscription: Subscription,
        articles: Sequence[Article],
        tables: SubscriberTables,
        written: WrittenTables,
    ) -> None:
        """Calls of articles that are not given are sent one by one. Raises `TriggersUnsent`."""
        self._connection = connection = taken.connection
        self._skips = SkipErrors.parse(subscription.settings.skip_errors)
        self._subscriber = subscription.subscriber
        self._forwards = subscription.forwards
        self._guid = subscription.guid.encode()
        self._progress = taken.progress
        has_origin = set_origin(connection, subscription)
        self._plan = plan_sets(tables, articles)
        require_nothing_unsent(connection, subscription.subscriber, articles, subscription.constraints)
        self._cascades = tables.cascades
        self._cascaded: frozenset[str] = frozenset()
        watch = DeadlockWatch(connection, partial(connect_agent, subscription, "distribution"))
        self._written = written
        self._sender = Sender(
            connection,
            subscription.subscriber,
            written,
            edited=find_edited(tables, articles),
            has_origin=has_origin,
            watch=watch,
        )
        self._mode: Mode = RowByRow(self._sender)

    @property
    def progress(self) -> DeliveryProgress:
        return self._progress

    def resume(self, known: DeliveryProgress) -> None:
        """Go on after a batch that other connections of the same agent committed."""
        self._progress = known

    def begin(self, *, one_by_one: bool = False, committed_us: int | None = None) -> None:  # noqa: ARG002 - not kept
        is_skipping = one_by_one and bool(self._skips)
        self._sender.begin(
            self._guid,
            self._progress,
            # Not where errors are skipped: at the commit no command is to blame.
            is_deferred=not is_skipping,
            is_repeatable=not one_by_one and (bool(self._plan.groups) or bool(self._skips)),
        )
        self._cascaded = frozenset()
        if is_skipping:
            self._mode = Skipping(self._sender, self._skips)
            self._sender.synchronize()
        elif one_by_one or not self._plan.groups:
            self._mode = RowByRow(self._sender)
        else:
            self._mode = SetBased(self._sender, self._plan)

    def begin_early(self) -> Callable[[], None] | None:
        if not self._plan.groups:
            # A refusal would name a command of a transaction that is not stored yet.
            return None
        self.begin()
        return self._sender.roll_back

    def run(self, call: ProcedureCall) -> None:
        if self._cascades and call.operation is Operation.DELETE:
            self._announce_cascade(call)
        self._mode.add(call)

    def run_block(self, block: Block) -> None:
        self._mode.add_block(block)

    def alter(self, followed: Followed) -> None:
        self._mode.flush()
        before, article = followed.before, followed.article
        self._sender.learn(article)
        table, writer = (before.schema, before.table), self._written.writer_of(article)
        # Its own changes have come back: the tables there are altered already.
        for change in () if followed.is_delivered and not self._forwards else followed.changes:
            self._alter(before, article, alterations.among_calls(table, change, writer), change)
            table = alterations.table_after(table, change)
        renewing = list(alterations.renew(followed, self._guid.decode(), self._written.of(article)))
        self._alter(before, article, renewing, None)
        if followed.script is not None:
            self._run_script(before, article, followed.script)
        for operation in procedures.OPERATIONS:
            if article.command(operation).procedure is not None:
                self._require_custom(article, operation)
        self._sender.forget(article)

    def _alter(self, before: Article, article: Article, statements: Sequence[str], change: SchemaChange | None) -> None:
        refused = self._run_alone(before, statements)
        if refused is not None:
            is_of_rows = refused.sqlstate in alterations.OF_ROWS
            raise AlterationRefused(article, change, refused.message, is_of_rows=is_of_rows)

    def _run_script(self, before: Article, article: Article, script: CustomSql) -> None:
        table, writer = (article.schema, article.table), self._written.writer_of(article)
        refused = self._run_alone(before, [alterations.run_script(table, script.text, writer)])
        if refused is not None:
            raise CustomScriptFailed(script.name, article.qualified_name, script.lsn, refused.message)

    def _run_alone(self, before: Article, statements: Sequence[str]) -> FailedStatement | None:
        """Run statements that alter the table of an article, as it was before. Raises `SubscriberTableInUse`."""
        refused = self._sender.alter(alterations.within_batch(statements))
        if refused is not None and refused.sqlstate == LOCK_NOT_AVAILABLE:
            holders = name_holders(self._connection, quote_qualified(before.schema, before.table))
            raise SubscriberTableInUse(self._subscriber, refused.message, holders)
        if refused is not None and refused.sqlstate == MOVED:
            raise JoiningMoved
        return refused

    def _require_custom(self, article: Article, operation: Operation) -> None:
        refused = self._sender.alter([], calls=[(article, operation)])
        if refused is not None:
            wanted = ", ".join(" ".join(parameter) for parameter in parameters_of(article, operation))
            name = article.command(operation).procedure
            raise AlterationRefused(article, None, f"procedure {name} has to take ({wanted}): {refused.message}")

    def join(self, joining: JoiningArticle) -> None:
        self._mode.flush()
        article = joining.article
        self._alter(article, article, [CHECK_ALL, *attach(joining, self._guid.decode())], None)

    def flush(self) -> None:
        self._mode.flush()
        self._sender.synchronize()

    def end(self, reached: Position) -> Sequence[CommandError]:
        skipped = self._mode.flush()
        self._sender.commit(self._guid, reached)
        self._progress = self._progress.after_batch(reached)
        return skipped

    def close(self) -> None:
        self._sender.close()

    def _announce_cascade(self, call: ProcedureCall) -> None:
        cascaded = self._cascaded | self._cascades.get(call.article.article_id, frozenset())
        if cascaded != self._cascaded:
            self._cascaded = cascaded
            self._sender.send_cascaded(call, cascaded)


def set_origin(connection: psycopg.Connection, subscription: Subscription, stream: int = 0) -> bool:
    """Give the session a replication origin where others read the subscriber's log; return whether it has one.

    Each stream has its own: an origin is of one session at a time.
    """
    if not origins.is_published(connection):
        return False
    reason = origins.mark_session(connection, subscription.guid, str(stream) if stream else "")
    if reason is not None:
        emit(OriginNotSet(OriginMissing(subscription.subscriber, reason)))
    return reason is None
