"""Delivery to a PostgreSQL subscriber over one connection: prepared statements, row by row or set-based."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import psycopg

from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.databases.postgres.alterations import LOCK_NOT_AVAILABLE
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.postgres.silent_sessions import name_holders
from rowtide.events.catalogue import OriginNotSet
from rowtide.events.event import emit
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import CustomSql, Followed, SchemaChange
from rowtide.replication.distribution.calls.ordered import OrderedCalls, ProcedureCall
from rowtide.replication.distribution.calls.skipped_commands import SkipErrors
from rowtide.replication.distribution.delivery_interface import (
    AlterationRefused,
    DeliveryProgress,
    JoiningArticle,
    JoiningMoved,
)
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.conflicts import OriginMissing
from rowtide.replication.errors.delivery import CommandError, CustomScriptFailed
from rowtide.replication.errors.subscribing import SubscriberTableInUse
from rowtide.replication.targets.postgres import delivery_marks
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.replication.targets.postgres.calls.procedures import parameters_of
from rowtide.replication.targets.postgres.connecting import connect_agent
from rowtide.replication.targets.postgres.delivery.deadlock_watch import DeadlockWatch
from rowtide.replication.targets.postgres.delivery.pipeline import FailedStatement
from rowtide.replication.targets.postgres.delivery.sender import Sender
from rowtide.replication.targets.postgres.delivery.table_relations import SubscriberTables, find_edited, plan_sets
from rowtide.replication.targets.postgres.recovery import TakenOver
from rowtide.replication.targets.postgres.schema import alterations
from rowtide.replication.targets.postgres.schema.own_cascades import require_nothing_unsent
from rowtide.replication.targets.postgres.subscriber import CHECK_ALL, MOVED, attach
from rowtide.replication.targets.postgres.writing_rights import WrittenTables


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
            self._plan,
            edited=find_edited(tables, articles),
            skips=SkipErrors.parse(subscription.settings.skip_errors),
            has_origin=has_origin,
            watch=watch,
        )

    @property
    def progress(self) -> DeliveryProgress:
        return self._progress

    def resume(self, known: DeliveryProgress) -> None:
        """Continue after a batch that other connections of the same agent committed."""
        self._progress = known

    def begin(self, *, one_by_one: bool = False, committed_us: int | None = None) -> None:  # noqa: ARG002 - not kept
        self._sender.begin(self._guid, self._progress, one_by_one=one_by_one)
        self._cascaded = frozenset()

    def begin_early(self) -> Callable[[], None] | None:
        if not self._plan.groups:
            # A refusal would name a command of a transaction that is not stored yet.
            return None
        self.begin()
        return self._sender.roll_back

    def run(self, calls: OrderedCalls) -> None:
        for place in self._find_cascading(calls):
            self._sender.send(calls.between(0, place))
            calls = calls.between(place, len(calls))
            self._announce_cascade(next(iter(calls.between(0, 1))))
        self._sender.send(calls)

    def alter(self, followed: Followed) -> None:
        self._sender.finish()
        # Calls that were sent so far have the former columns. They have run before the table is altered.
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
        # What is prepared has the columns before the change. Statements for the article are prepared again when the
        # next call needs them.
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
        self._sender.finish()
        article = joining.article
        self._alter(article, article, [CHECK_ALL, *attach(joining, self._guid.decode())], None)

    def flush(self) -> None:
        self._sender.finish()
        self._sender.synchronize()

    def end(self, reached: Position) -> Sequence[CommandError]:
        skipped = self._sender.finish()
        # The progress row is written in the transaction of the rows. After a crash the subscriber has both or neither,
        # and the next agent starts at the recorded position.
        self._sender.commit(self._guid, reached)
        self._progress = self._progress.after_batch(reached)
        return skipped

    def close(self) -> None:
        self._sender.close()

    def _find_cascading(self, calls: OrderedCalls) -> Iterator[int]:
        """Yield where deletes begin of which the cascade is not announced, each counted from the one before."""
        passed = 0
        for owner, place in calls.find_first(Operation.DELETE) if self._cascades else ():
            if not self._cascades.get(owner.article_id, frozenset()) <= self._cascaded:
                yield place - passed
                passed = place

    def _announce_cascade(self, call: ProcedureCall) -> None:
        self._cascaded |= self._cascades[call.article.article_id]
        self._sender.send_cascaded(call, self._cascaded)


def set_origin(connection: psycopg.Connection, subscription: Subscription, stream: int = 0) -> bool:
    """Give the session a replication origin where others read the subscriber's log; return whether it has one.

    Each stream has its own: an origin is of one session at a time.
    """
    if not delivery_marks.is_published(connection):
        return False
    reason = delivery_marks.mark_session(connection, subscription.guid, str(stream) if stream else "")
    if reason is not None:
        emit(OriginNotSet(OriginMissing(subscription.subscriber, reason)))
    return reason is None
