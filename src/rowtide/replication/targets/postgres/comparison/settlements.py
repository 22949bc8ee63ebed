"""A person's decision about a conflict, at the PostgreSQL subscriber that keeps it.

Its rows are written by one transaction, with the decision. It is not marked as delivered: the log reader of the
subscriber takes it for the database's own change, which other databases get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from rowtide.core.failpoints import failpoint
from rowtide.core.operations import Operation
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS, WHOLE_TABLES
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication import conflict_decisions, conflicts
from rowtide.replication.articles.articles import Article
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors import conflicts as errors
from rowtide.replication.subscription_settings import Constraints
from rowtide.replication.targets import compared_rows
from rowtide.replication.targets.compared_rows import RowCorrection, SubscribedRows
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.comparison.repairs import reason_of, statement_of
from rowtide.replication.targets.postgres.comparison.rows import read_subscribed
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.postgres.subscriber import read_identity
from rowtide.replication.targets.postgres.writing_rights import WrittenTables, open_written

_Connection = psycopg.Connection[tuple[Any, ...]]
_LOCK_TIMEOUT = "set local lock_timeout = '30s'"
_UNSENT = (None, conflicts.Resolver.NONE, conflicts.Resolver.APPLY)
"""Resolvers by which another database may have the side that lost here: it gets the rows once more."""


def settle_conflict(
    subscription: Subscription, articles: Sequence[Article], decision: conflict_decisions.ConflictDecision
) -> conflict_decisions.ConflictOutcome:
    """Decide about a conflict, once delivery's present batch has ended; a repeat changes nothing.

    Raises `DeliveryConflictUnknown`, `ConflictSettled`, `ConflictRowsChanged`, `ConflictOutdated`, `SettlingRefused`,
    `ConnectionFailed`, `SubscriberUnprepared`.
    """
    with closing(_connect(subscription)) as connection:
        if progress.list_recorded(connection):
            progress.make_current(connection)
        with translated():
            connection.execute("begin")
            connection.execute(_LOCK_TIMEOUT)
            kept = _read(connection, subscription, decision)
        sent_to, resends = _find_onward(connection, kept.table)
        settlement = _Settlement(connection, subscription, decision, kept, sent_to)
        if kept.winner is decision.winner:
            return settlement.outcome((), is_settled=True)
        if kept.winner is not None and not decision.again:
            subscriber = redact(subscription.subscriber)
            raise errors.ConflictSettled(subscriber, decision.conflict_id, kept.settled_by or "somebody", kept.winner)
        if kept.sides.resolution is conflicts.Resolution.STOPPED and not kept.is_delivered:
            return settlement.decide_stopped()
        return settlement.decide(articles, resends=resends)


@frozen
class _RecordedConflict:
    """A conflict as it is kept; `is_delivered`: one that stopped delivery was resolved by a later attempt."""

    table: str
    sides: conflict_decisions.Sides
    winner: conflict_decisions.ConflictWinner | None
    settled_by: str | None
    is_delivered: bool


@frozen
class _Settlement:
    """A decision about a conflict within its transaction."""

    connection: _Connection
    subscription: Subscription
    decision: conflict_decisions.ConflictDecision
    kept: _RecordedConflict
    sent_to: tuple[str, ...]

    def outcome(
        self, rows: tuple[conflict_decisions.SettledRow, ...], **others: Any
    ) -> conflict_decisions.ConflictOutcome:
        """Return what the decision does."""
        return conflict_decisions.ConflictOutcome(
            str(self.decision.conflict_id),
            redact(self.subscription.subscriber),
            self.kept.table,
            self.decision.winner,
            rows,
            sent_to=self.sent_to if rows else (),
            **others,
        )

    def decide_stopped(self) -> conflict_decisions.ConflictOutcome:
        """Record what delivery is to do about a change when it continues."""
        if not self.decision.is_preview:
            self._record(None)
            self._commit()
        return self.outcome((), waits=True)

    def decide(self, articles: Sequence[Article], *, resends: bool) -> conflict_decisions.ConflictOutcome:
        """Write the rows of the side that is to win, and record it."""
        named = [article for article in articles if article.qualified_name == self.kept.table]
        subscribed = read_subscribed(self.connection, self.subscription, named, for_update=True)
        article = self._require_fitting(subscribed)
        names = [column.name for column in article.key_columns]
        sides = self.kept.sides
        wanted = sides.state_of(self.decision.winner, names)
        now = _read_rows(subscribed, article, [*wanted])
        changed = tuple(
            conflict_decisions.SettledRow(Operation.UPDATE, key, now[key], row)
            for key, row in wanted.items()
            if now[key] != row and not sides.is_left(key, now[key], names)
        )
        rows = conflict_decisions.plan(
            wanted, now, renamed=sides.renamed(names), resends=resends and not sides.is_by_time
        )
        changed = tuple(one for one in changed if any(one.key == row.key for row in rows))
        if not self.decision.is_preview:
            if changed and not self.decision.over_later_changes:
                key = _name(article, changed[0].key)
                raise errors.ConflictRowsChanged(
                    redact(self.subscription.subscriber), self.decision.conflict_id, self.kept.table, key
                )
            written = open_written(
                self.connection, self.subscription.subscriber, [article], self.subscription.settings.run_as
            )
            self._write(article, rows, written)
            self._record(wanted)
            written.end(self.connection)
            self._commit()
        return self.outcome(rows, changed_since=changed)

    def _require_fitting(self, subscribed: SubscribedRows) -> Article:
        """Return the article, with the columns that the conflict has, as the subscriber has it."""
        sides, articles = self.kept.sides, subscribed.articles
        if not articles:
            raise self._outdated("the table is no article of the subscription any more")
        (article,) = articles
        if (constraint := subscribed.constraints.get(article.article_id)) is not None:
            raise self._outdated(constraint)
        if not sides.has_values:
            raise self._outdated("they were kept without values, with --hide-keys")
        known = {column.name for column in article.columns}
        if lacking := sorted(sides.columns - known):
            raise self._outdated(f"the table has no column {', '.join(lacking)} any more")
        if new := sorted({column.name for column in article.key_columns} - sides.columns):
            raise self._outdated(f"they lack the key's column {', '.join(new)}")
        return article

    def _outdated(self, reason: str) -> errors.ConflictOutdated:
        subscriber = redact(self.subscription.subscriber)
        return errors.ConflictOutdated(subscriber, self.decision.conflict_id, self.kept.table, reason)

    def _write(self, article: Article, rows: Sequence[conflict_decisions.SettledRow], written: WrittenTables) -> None:
        """Make changes of rows. Raises `SettlingRefused`."""
        key: conflict_decisions.Key = ()
        try:
            self.connection.execute(sql.SQL("set constraints all deferred"))
            for row in rows:
                key = row.key
                correction = _correct(article, row)
                written.run(article, *statement_of(correction, written.of(article)))
            self.connection.execute(sql.SQL("set constraints all immediate"))
            written.pin()
        except psycopg.Error as error:
            subscriber = redact(self.subscription.subscriber)
            raise errors.SettlingRefused(
                subscriber, self.decision.conflict_id, self.kept.table, _name(article, key), reason_of(error)
            ) from error

    def _record(self, left: conflict_decisions.Rows | None) -> None:
        """Record the decision, with the rows that it leaves."""
        rows = None if left is None else Jsonb([[list(key), row] for key, row in left.items()])
        by, number = self.decision.decided_by, self.decision.conflict_id
        with translated():
            self.connection.execute(_SETTLE, (self.decision.winner, by, rows, number))

    def _commit(self) -> None:
        failpoint("conflict_settling.before")
        with translated():
            self.connection.execute("commit")
        failpoint("conflict_settling.after")


def _connect(subscription: Subscription) -> _Connection:
    """Connect as a program of the subscriber's: its triggers and foreign keys act, whatever they do to delivery."""
    return connect(
        subscription.subscriber,
        application_name=f"rowtide resolve on {describe_holder()}",
        constraints=Constraints.ENFORCE,
        settings=PINNED_SETTINGS | WHOLE_TABLES,
    )


def _read(
    connection: _Connection, subscription: Subscription, decision: conflict_decisions.ConflictDecision
) -> _RecordedConflict:
    """Return a conflict, about which nobody else decides until the transaction ends."""
    row = connection.execute(_READ, (decision.conflict_id, subscription.guid)).fetchone()
    if row is None:
        raise errors.DeliveryConflictUnknown(redact(subscription.subscriber), decision.conflict_id)
    table, winner, settled_by, is_delivered, *texts = row
    chosen = None if winner is None else conflict_decisions.ConflictWinner(winner)
    return _RecordedConflict(table, conflict_decisions.Sides.parse(*texts), chosen, settled_by, is_delivered)


def _find_onward(connection: _Connection, table: str) -> tuple[tuple[str, ...], bool]:
    """Return the databases that this one delivers a table to, and whether any may have the side that lost here."""
    onward = [one for one in read_identity(connection).delivers.values() if table in one.tables]
    return tuple(sorted(redact(one.subscriber) for one in onward)), any(one.conflicts in _UNSENT for one in onward)


def _read_rows(
    subscribed: SubscribedRows, article: Article, keys: Sequence[conflict_decisions.Key]
) -> Mapping[conflict_decisions.Key, conflict_decisions.Row | None]:
    """Return the rows that keys have now, which nobody else writes until the transaction ends."""
    found = subscribed.rows.find_rows(article, [tuple(map(_bytes, key)) for key in keys])
    now: dict[conflict_decisions.Key, conflict_decisions.Row | None] = dict.fromkeys(keys)
    for row in found:
        key = tuple(map(_text, compared_rows.key_of(article, row)))
        now[key] = {column.name: _text(value) for column, value in zip(article.columns, row, strict=True)}
    return now


def _correct(article: Article, row: conflict_decisions.SettledRow) -> RowCorrection:
    """Return a change with the columns that the conflict has: others stay, or get their defaults."""
    after = row.after or {}
    columns = tuple(column for column in article.columns if column.name in after or column in article.key_columns)
    values = tuple(_bytes(after.get(column.name)) for column in columns)
    key = tuple(map(_bytes, row.key))
    return RowCorrection(replace(article, columns=columns), row.operation, key, values, tuple(after))


def _name(article: Article, key: conflict_decisions.Key) -> str:
    return ", ".join(f"{column.name} = {value}" for column, value in zip(article.key_columns, key, strict=True))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


_READ = f"""
select c.table_name, c.winner, c.settled_by, c.resolution = 'stopped' and exists (
           select from {SCHEMA}."MSconflicts" o
           where o.subscription_guid = c.subscription_guid and o.xact_seqno = c.xact_seqno
               and o.command_id = c.command_id and o.resolution <> 'stopped'),
       c.old_row::text, c.new_row::text, c.present_rows::text, c.present_times::text, c.resolution, c.left_rows::text
from {SCHEMA}."MSconflicts" c where c.id = %s and c.subscription_guid = %s
for update of c
"""
_SETTLE = f"""
update {SCHEMA}."MSconflicts"
set winner = %s, settled_by = coalesce(%s, session_user::text), settled_at = clock_timestamp(), left_rows = %s
where id = %s
"""
