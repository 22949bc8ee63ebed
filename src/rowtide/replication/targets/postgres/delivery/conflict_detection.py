"""Delivery to a PostgreSQL subscriber that looks for conflicts, change by change; see `rowtide.replication.conflicts`.

There are no procedures: whole rows are sent, before and after each change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.databases.postgres.alterations import LOCK_NOT_AVAILABLE
from rowtide.databases.postgres.errors import UnexpectedSqlError, find_outage, translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.postgres.silent_sessions import name_holders
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import Followed, SchemaChange
from rowtide.replication.conflicts import ConflictKind, Found, PresentRow, Resolution, Resolver, Version, decide
from rowtide.replication.distribution import delivery_interface
from rowtide.replication.distribution.calls.ordered import OrderedCalls, ProcedureCall
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors import delivery as errors
from rowtide.replication.errors.conflicts import ConflictFound
from rowtide.replication.errors.subscribing import SubscriberTableInUse
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.calls.written_table import Writer
from rowtide.replication.targets.postgres.conflicts import former_values, released_values, statements, versions
from rowtide.replication.targets.postgres.conflicts.statements import UniqueIndex, read_uniques
from rowtide.replication.targets.postgres.conflicts.versions import DeliveryConflict, Versions
from rowtide.replication.targets.postgres.delivery.sender import RESET_ORIGIN
from rowtide.replication.targets.postgres.delivery.single_connection import set_origin
from rowtide.replication.targets.postgres.recovery import TakenOver
from rowtide.replication.targets.postgres.schema import alterations
from rowtide.replication.targets.postgres.schema.own_cascades import require_nothing_unsent
from rowtide.replication.targets.postgres.subscriber import CHECK_ALL, MOVED, attach
from rowtide.replication.targets.postgres.writing_rights import WrittenTables

_UNIQUE_VIOLATION = "23505"
_MET = ("22", "23")
"""Classes of errors at a commit by which a change may meet another."""
_CHECKED_AT_ONCE = 1000
_Connection = psycopg.Connection[tuple[Any, ...]]
_Texts = tuple[str | None, ...]


class ConflictDelivery:
    """A connection that delivers to a PostgreSQL subscriber whose rows others change, too; see `Delivery`.

    The changes of a batch are sent together, each to be made if it meets what it was made of. Where one does not, the
    batch is rolled back and delivered one by one, each after a look at what it meets. By last commit time all are.
    """

    def __init__(
        self, taken: TakenOver, subscription: Subscription, articles: Sequence[Article], written: WrittenTables
    ) -> None:
        """Raises `TriggersUnsent`, `CommitTimesNotKept`."""
        self._connection = connection = taken.connection
        self._raw = statements.open_cursor(connection)
        self._written = written
        self._changed_by: Writer | None = None
        self._subscription = subscription
        self._resolver = subscription.settings.conflicts or Resolver.STOP
        self._committed_us: int | None = None
        self._is_repeat = False
        self._published = {article.article_id: _published(article) for article in articles}
        self._progress = taken.progress
        require_nothing_unsent(connection, subscription.subscriber, articles, subscription.constraints)
        versions.forget_old(connection)
        self._versions = _open_versions(connection, subscription, articles)
        self._has_origin = self._versions is None and set_origin(connection, subscription)
        self._incoming: Version | None = None
        self._uniques: dict[str, Sequence[UniqueIndex]] = {}
        self._waiting: list[ProcedureCall] = []
        self._has_raced = False

    @property
    def progress(self) -> delivery_interface.DeliveryProgress:
        return self._progress

    def begin(self, *, one_by_one: bool = False, committed_us: int | None = None) -> None:
        self._committed_us = committed_us
        known = self._progress
        try:
            with translated():
                self._connection.execute("begin")
                for statement in self._written.beginning:
                    self._connection.execute(sql.SQL(statement))
                self._changed_by = None
                # The log has single rows: what a statement did to several is checked at the end.
                self._connection.execute("set constraints all deferred")
                if self._has_origin:
                    self._connection.execute(RESET_ORIGIN)
                self._raw.execute(progress.BEGIN_BATCH, [self._subscription.guid, known.epoch, known.position.value])
        except UnexpectedSqlError as error:
            if error.sqlstate == progress.FENCED:
                raise errors.AgentReplaced(self._subscription.subscriber, error.reason) from error
            raise
        self._is_repeat = one_by_one
        self._waiting = []
        self._incoming = None if self._versions is None else self._versions.begin(committed_us)

    def begin_early(self) -> None:
        """Never: what is found of a conflict is kept, and named by the transaction."""

    @property
    def _is_together(self) -> bool:
        return self._versions is None and not self._is_repeat

    def run(self, calls: OrderedCalls) -> None:
        for call in calls:
            self._run_or_keep(call)

    def _run_or_keep(self, call: ProcedureCall) -> None:
        if self._is_together and call.operation is not Operation.TRUNCATE:
            self._waiting.append(call)
            if len(self._waiting) >= _CHECKED_AT_ONCE:
                self._make_waiting()
            return
        # In the order of the log: calls that were gathered precede this one.
        self._make_waiting()
        try:
            with translated():
                self._run(call)
        except UnexpectedSqlError as error:
            self._connection.execute("rollback")
            if error.sqlstate == _UNIQUE_VIOLATION and not self._has_raced:
                # Another session has inserted it meanwhile, or made the index: the next time it is found.
                self._uniques.clear()
                self._has_raced = True
                raise delivery_interface.BatchUndone from error
            raise self._explain(call, error) from error

    def _make_waiting(self) -> None:
        """Make the changes that wait. Raises `BatchUndone` if one meets anything."""
        calls, self._waiting = self._waiting, []
        self._learn(call.article for call in calls)
        try:
            with translated(), self._connection.pipeline() if calls else nullcontext():
                for call in calls:
                    texts = [None if value is None else value.decode() for value in call.arguments]
                    table = self._written.of(call.article)
                    self._change(call.article, statements.change_unless_met(call.article, call.operation, table), texts)
        except UnexpectedSqlError as error:
            outage = find_outage(error.sqlstate, error.reason)
            if outage is not None:
                raise outage from error
            self._connection.execute("rollback")
            raise delivery_interface.BatchUndone from error

    def _run(self, call: ProcedureCall) -> None:
        article, operation = call.article, call.operation
        self._learn([article])
        if operation is Operation.TRUNCATE:
            self._truncate(article)
            return
        texts = [None if value is None else value.decode() for value in call.arguments]
        found = self._find(article, operation, texts)
        decision = decide(self._resolver, operation, found, self._incoming)
        if decision.kind is not None:
            conflict = _describe(call, decision.kind, decision.resolution, found, self._committed_us)
            self._pin()
            guid = self._subscription.guid
            # Delivery may have stopped at this conflict until a person decided. The decision replaces the resolver's
            # answer.
            decided = versions.find_decision(self._connection, guid, call.lsn, call.seqval)
            if decided is not None:
                decision = replace(decision, resolution=decided)
            elif decision.resolution is Resolution.STOPPED:
                self._stop(call, conflict)
            else:
                versions.keep(self._connection, guid, conflict)
        # Before the row itself: a unique index would refuse it while rows that give way to it are there.
        self._displace(article, decision.displaced)
        if decision.resolution is Resolution.APPLIED:
            self._apply(article, operation, texts, found)
        elif self._versions is not None and operation is not Operation.DELETE:
            self._hide(article, texts[-len(article.columns) :], found, is_last=decision.is_hidden)

    def _displace(self, article: Article, displaced: Sequence[PresentRow]) -> None:
        """Delete rows that give way to another key's; each stays the last version of its own."""
        for row in displaced:
            version = (self._incoming if row.is_own else row.version) or Version(0, "")
            self._change(article, statements.delete_row(article, self._written.of(article)), _key(article, row.values))
            values = [*row.values, str(version.committed_us), version.originator]
            self._record(former_values.record_displaced(article), values)

    def _hide(self, article: Article, row: Sequence[str | None], found: Found, *, is_last: bool) -> None:
        """Record a row that is not there, as it is not the last of its key, or gives way to another key's."""
        assert self._incoming is not None
        for index in self._uniques[article.article_id]:
            self._record(released_values.record_released(article, index), [*row, str(self._incoming.committed_us)])
        if is_last and found.target is not None:
            key = _key(article, found.target.values)
            self._change(article, statements.delete_row(article, self._written.of(article)), key)
        elif is_last:
            self._record(former_values.record_deleted(article), row)

    def _truncate(self, article: Article) -> None:
        """Empty the table; by last commit time, of rows that are not newer."""
        if self._versions is None or self._incoming is None:
            self._change(article, statements.truncate(article), [])
            return
        emptied = self._versions.find_emptied(article)
        if emptied is None or emptied <= self._incoming:
            self._change(article, statements.delete_older(article), [str(self._incoming.committed_us)])
            self._record(former_values.record_all(article))

    def _find(self, article: Article, operation: Operation, texts: Sequence[str | None]) -> Found:
        if article.article_id not in self._uniques:
            self._pin()
            self._uniques[article.article_id] = read_uniques(self._connection, article)
        uniques = self._uniques[article.article_id]
        table, writer = self._written.of(article), self._written.writer_of(article)
        query = statements.find(article, operation, uniques, table, has_versions=self._versions is not None)
        target, others = None, []
        self._pin(writer)
        finding = f"select * from {writer.querying}($1, $2::text[]) as {statements.FOUND}"
        rows = self._raw.execute(finding, [query, list(texts)]).fetchall()
        for values, is_target, is_as_before, is_own, version in rows:
            known = None if self._versions is None else self._versions.read(version)
            row = PresentRow(tuple(values), known, is_as_before=is_as_before, is_own=is_own)
            if is_target:
                target = row
            else:
                others.append(row)
        if self._versions is None:
            return Found(target, tuple(others))
        after = texts[-len(article.columns) :]
        self._pin()
        released = None if operation is Operation.DELETE else self._versions.find_released(article, uniques, after)
        return Found(target, tuple(others), self._versions.find_deleted(article, after), released)

    def _change(self, article: Article, statement: str, values: Sequence[str | None]) -> None:
        """Run a statement about an article's rows by the function of its writer."""
        writer = self._written.writer_of(article)
        self._pin(writer)
        self._raw.execute(f"select {writer.executing}($1, $2::text[])", [statement, list(values)])

    def _record(self, statement: str, *values: Sequence[str | None]) -> None:
        """Run a statement about rowtide's own rows."""
        self._pin()
        self._raw.execute(statement, [list(one) for one in values])

    def _pin(self, writer: Writer | None = None) -> None:
        """Pin the session's settings, before a statement of this role, or of rowtide's, if another's code has run."""
        before, self._changed_by = self._changed_by, writer if writer is not None and writer.is_other else None
        if before is not None and before != writer:
            self._connection.execute(sql.SQL(self._written.pinning))

    def _learn(self, articles: Iterable[Article]) -> None:
        """Read the tables of articles that joined meanwhile."""
        new = [article for article in articles if not self._written.knows(article)]
        if new:
            self._pin()
            self._written.read(new)

    def _apply(self, article: Article, operation: Operation, texts: Sequence[str | None], found: Found) -> None:
        for other in found.others if self._versions is None else ():
            self._change(
                article, statements.delete_row(article, self._written.of(article)), _key(article, other.values)
            )
        if found.target is not None:
            is_insert = operation is Operation.INSERT
            table = self._written.of(article)
            change = statements.overwrite(article, table) if is_insert else statements.change(article, operation, table)
            self._change(article, change, texts)
        elif operation is not Operation.DELETE:
            # Of an update that found none: the row that it makes.
            self._change(article, statements.insert(article), texts[-len(article.columns) :])
        elif self._versions is not None:
            self._record(former_values.record_deleted(article), texts)

    def _stop(self, call: ProcedureCall, conflict: DeliveryConflict) -> None:
        """Keep a conflict, apart from the batch, and raise it."""
        self._connection.execute("rollback")
        self._written.pin()
        # In a transaction of its own, since that of the batch is rolled back: the conflict has to be listed while
        # delivery has stopped at it.
        versions.keep(self._connection, self._subscription.guid, conflict)
        row = conflict.old_row or conflict.new_row or {}
        raise ConflictFound(
            lsn=CommitLsn(call.lsn),
            command_id=call.seqval,
            kind=conflict.kind,
            table=conflict.table,
            key=_name_key(call.article, row),
            subscriber=self._subscription.subscriber,
            publication=self._subscription.publication,
        )

    def alter(self, followed: Followed) -> None:
        before, article = followed.before, followed.article
        self._learn([article])
        table, writer = (before.schema, before.table), self._written.writer_of(article)
        for change in () if followed.is_delivered and not self._subscription.forwards else followed.changes:
            self._alter(before, article, alterations.among_calls(table, change, writer), change)
            table = alterations.table_after(table, change)
        recorded = replace(article, **self._published[article.article_id])
        self._alter(before, article, [alterations.record(recorded, self._subscription.guid)], None)
        # Rows of the same transaction follow, which meet the unique indexes and fire the triggers as they are now.
        self._uniques.pop(article.article_id, None)
        if self._versions is not None:
            self._pin()
            _keep_versions(self._connection, article)
        if (script := followed.script) is not None:
            try:
                running = alterations.run_script((article.schema, article.table), script.text, writer)
                self._run_alone(before, [running])
            except UnexpectedSqlError as error:
                table_name = article.qualified_name
                raise errors.CustomScriptFailed(script.name, table_name, script.lsn, error.reason) from error

    def _alter(self, before: Article, article: Article, altering: Sequence[str], change: SchemaChange | None) -> None:
        try:
            self._run_alone(before, altering)
        except UnexpectedSqlError as error:
            is_of_rows = error.sqlstate in alterations.OF_ROWS
            raise delivery_interface.AlterationRefused(article, change, error.reason, is_of_rows=is_of_rows) from error

    def _run_alone(self, before: Article, altering: Sequence[str]) -> None:
        """Run statements that alter the table of an article, as it was before; one that is refused ends the batch.

        Raises `UnexpectedSqlError`, `SubscriberTableInUse`.
        """
        try:
            with translated():
                for statement in alterations.within_batch(altering):
                    self._written.pin()
                    self._connection.execute(sql.SQL(statement))
                self._written.pin()
        except UnexpectedSqlError as error:
            self._connection.execute("rollback")
            if error.sqlstate == MOVED:
                raise delivery_interface.JoiningMoved from error
            if error.sqlstate == LOCK_NOT_AVAILABLE:
                holders = name_holders(self._connection, quote_qualified(before.schema, before.table))
                raise SubscriberTableInUse(self._subscription.subscriber, error.reason, holders) from error
            raise

    def join(self, joining: delivery_interface.JoiningArticle) -> None:
        article = joining.article
        self._alter(article, article, [CHECK_ALL, *attach(joining, self._subscription.guid)], None)

    def flush(self) -> None:
        self._make_waiting()

    def end(self, reached: Position) -> Sequence[errors.CommandError]:
        self._make_waiting()
        self._pin()
        try:
            if self._versions is not None:
                self._versions.end()
            with translated():
                # Rows, kept conflicts and the position are committed together, so that a repeated batch records no
                # conflict twice.
                self._raw.execute(progress.END_BATCH, [self._subscription.guid, reached.value])
                self._written.end(self._connection)
                failpoint("subscriber_commit.before")
                self._connection.execute("commit")
        except UnexpectedSqlError as error:
            # A deferred constraint can be violated by a row of another session. Delivered one by one, the change finds
            # that row, and it is a conflict.
            if self._is_together and error.sqlstate.startswith(_MET):
                raise delivery_interface.BatchUndone from error
            raise find_outage(error.sqlstate, error.reason) or errors.BatchRefused(
                error.sqlstate, error.reason
            ) from error
        failpoint("subscriber_commit.after")
        self._has_raced = False
        self._progress = self._progress.after_batch(reached)
        self._written.pin()
        if self._versions is not None:
            self._versions.forget_deleted()
        return ()

    def close(self) -> None:
        self._connection.close()

    def _explain(self, call: ProcedureCall, error: UnexpectedSqlError) -> Exception:
        outage = find_outage(error.sqlstate, error.reason)
        if outage is not None:
            return outage
        rows = [_as_row(call.article, part) for part in _rows_of(call)]
        return errors.CommandRefused(
            CommitLsn(call.lsn),
            call.seqval,
            call.article.qualified_name,
            _name_key(call.article, rows[0] if rows else {}),
            call.operation.name.lower(),
            error.sqlstate,
            error.reason,
        )


def _open_versions(connection: _Connection, subscription: Subscription, articles: Sequence[Article]) -> Versions | None:
    if subscription.settings.conflicts is not Resolver.LAST_COMMIT_TIME:
        return None
    versions = Versions(connection, subscription)
    for article in articles:
        _keep_versions(connection, article)
    return versions


def _keep_versions(connection: _Connection, article: Article) -> None:
    """Create the triggers of a table that record what its rows had, if it has not those for its columns."""
    former_values.make_triggers(connection, article)
    released_values.make_trigger(connection, article)


def _published(article: Article) -> Mapping[str, Any]:
    """Return what `with_conflict_detection` has replaced."""
    return {
        "insert": article.insert,
        "update": article.update,
        "delete": article.delete,
        "key_updates": article.key_updates,
    }


def _rows_of(call: ProcedureCall) -> Sequence[_Texts]:
    """Return a call's rows: of an update the old one and the new one."""
    texts = tuple(None if value is None else value.decode(errors="replace") for value in call.arguments)
    count = len(call.article.columns)
    return [texts[index : index + count] for index in range(0, len(texts), count)]


def _as_row(article: Article, texts: Sequence[str | None]) -> dict[str, str | None]:
    return {column.name: text for column, text in zip(article.columns, texts, strict=True)}


def _key(article: Article, values: _Texts) -> list[str | None]:
    return [values[article.columns.index(column)] for column in article.key_columns]


def _name_key(article: Article, row: Mapping[str, str | None]) -> str:
    return ", ".join(f"{column.name} = {row.get(column.name)}" for column in article.key_columns)


def _describe(
    call: ProcedureCall,
    kind: ConflictKind,
    resolution: Resolution,
    found: Found,
    committed_us: int | None,
) -> DeliveryConflict:
    rows = [_as_row(call.article, texts) for texts in _rows_of(call)]
    present = [*([found.target] if found.target is not None else ()), *found.others]
    return DeliveryConflict(
        kind,
        resolution,
        call.article.qualified_name,
        call.operation.name.lower(),
        call.lsn,
        call.seqval,
        old_row=None if call.operation is Operation.INSERT else rows[0],
        new_row=None if call.operation is Operation.DELETE else rows[-1],
        present=[(_as_row(call.article, row.values), row) for row in present],
        committed_us=committed_us,
    )
