"""Repairs at a PostgreSQL subscriber."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.failpoints import failpoint
from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translate, translated
from rowtide.databases.postgres.functions import OWN_PATH, USERS_PATH
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS, WHOLE_TABLES
from rowtide.databases.types.registry import find_type, kind_of
from rowtide.databases.types.value_type import NUMBERS, TEXTS, TIMES, TypeKind
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.conflicts import Resolver
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.conflicts import OriginNeeded
from rowtide.replication.targets.compared_rows import (
    RepairRecord,
    RowCorrection,
    SubscribedRows,
    replace_updates,
)
from rowtide.replication.targets.postgres import delivery_marks, progress
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA, read_text
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable
from rowtide.replication.targets.postgres.comparison.rows import read_subscribed
from rowtide.replication.targets.postgres.conflicts.statements import read_uniques
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.postgres.writing_rights import WrittenTables, open_written

_Connection = psycopg.Connection[tuple[Any, ...]]
_ORIGIN_PATIENCE_S = 5.0
"""Until the session of the repair before has ended."""
_LOCK_TIMEOUT = "set local lock_timeout = '30s'"
_REFUSALS = ("22", "23", "27", "42", "44", "P0")
"""Classes of SQLSTATEs that are about a row; others are about the session or the server."""
_NULL = "null"
_NO_ROW = "it changes no row: a trigger leaves it out, or the cascade of another change has deleted the row"


@frozen
class PostgresRepair:
    """See `RepairTransaction`."""

    connection: _Connection
    guid: str
    subscribed: SubscribedRows
    written: WrittenTables

    def try_change(self, change: RowCorrection) -> str | None:
        """See `RepairTransaction`."""
        try:
            with self.connection.transaction():
                # The row's own violation is found here, with its name, and not at the commit of all.
                self._set_constraints("immediate")
                self._run(change)
                self._check()
        except (psycopg.Error, _NoRowChanged) as error:
            return _reason(error)
        return None

    def try_together(self, changes: Sequence[RowCorrection]) -> Mapping[RowCorrection, str]:
        """See `RepairTransaction`."""
        refused = self._try_all(changes)
        moved = {one for one in refused if one.operation is Operation.UPDATE and self._is_replaceable(one.article)}
        if not moved:
            return refused
        # Some types, and checks, have no free value that a row could get for a moment.
        deletions, insertions = replace_updates(changes, moved)
        return refused if self._try_all(insertions, after=deletions) else {}

    def _try_all(
        self, changes: Sequence[RowCorrection], *, after: Sequence[RowCorrection] = ()
    ) -> dict[RowCorrection, str]:
        """Make all changes or none, with constraints checked at the end; return why some are refused."""
        refused: dict[RowCorrection, str] = {}
        try:
            with self.connection.transaction():
                self._set_constraints("deferred")
                for change in after:
                    self._run(change)
                # Rows that exchange unique values would be refused in any order.
                self._release_values(changes)
                refused = self._run_all(changes)
                # All or none: a row whose change is refused would keep the value that was only set to release its own.
                if refused:
                    raise psycopg.Rollback
                self._check()
        except (psycopg.Error, _NoRowChanged) as error:
            return dict.fromkeys(changes, _reason(error))
        return refused

    def _is_replaceable(self, article: Article) -> bool:
        """Whether nobody sees that a row is deleted and inserted instead of updated."""
        names = [column.name for column in article.columns]
        with translated():
            return self.connection.execute(
                _IS_REPLACEABLE, {"table": quote_qualified(article.schema, article.table), "names": names}
            ).fetchone() == (True,)

    def _run_all(self, changes: Sequence[RowCorrection]) -> dict[RowCorrection, str]:
        """Make changes while some release values that others need; return why the rest are refused."""
        waiting: Sequence[RowCorrection] = changes
        while True:
            refused: dict[RowCorrection, str] = {}
            for change in waiting:
                try:
                    with self.connection.transaction():
                        self._run(change)
                except (psycopg.Error, _NoRowChanged) as error:
                    refused[change] = _reason(error)
            if not refused or len(refused) == len(waiting):
                return refused
            waiting = list(refused)

    def _release_values(self, changes: Sequence[RowCorrection]) -> None:
        """Set values of unique indexes that updates change to null, else to others that no row has; where the
        subscriber refuses both they stay.
        """
        unique: dict[str, frozenset[str]] = {}
        for change in changes:
            article = change.article
            if article.article_id not in unique:
                indexes = read_uniques(self.connection, article)
                unique[article.article_id] = frozenset(one.name for index in indexes for one in index.used)
            given = [
                one for one in article.columns if one.name in change.columns and one.name in unique[article.article_id]
            ]
            if change.operation is not Operation.UPDATE or not given:
                continue
            for values in ([_NULL] * len(given), [_free_value(article, one) for one in given]):
                statement = _setting(article, given, values, self.written.of(article))
                with suppress(psycopg.Error), self.connection.transaction():
                    self.written.run(article, statement, list(map(_text, change.key)))
                    break

    def commit(self, records: Sequence[RepairRecord]) -> None:
        """See `RepairTransaction`."""
        with translated():
            rows = [(self.guid, one.repair_id, one.ordinal, one.record) for one in records]
            self.connection.cursor().executemany(_RECORD, rows)
            self.written.end(self.connection)
            failpoint("repair_commit.before")
            self.connection.execute("commit")
            failpoint("repair_commit.after")

    def _set_constraints(self, when: str) -> None:
        self.connection.execute(sql.SQL(f"set constraints all {when}"))

    def _run(self, change: RowCorrection) -> None:
        if self.written.run(change.article, *statement_of(change, self.written.of(change.article))) != 1:
            raise _NoRowChanged

    def _check(self) -> None:
        self.connection.execute(USERS_PATH)
        self._set_constraints("immediate")
        self.connection.execute(OWN_PATH)
        self.written.pin()


class _NoRowChanged(Exception):
    """A change was about one row and did not change it."""


@contextmanager
def open_repair(subscription: Subscription, articles: Sequence[Article]) -> Iterator[PostgresRepair]:
    """Begin a repair; rolled back unless it is committed.

    Raises `ConnectionFailed`, `SubscriberUnprepared`, `ReplicationRoleRefused`, `OriginNeeded`.
    """
    with closing(_connect(subscription)) as connection:
        if progress.list_recorded(connection):
            progress.make_current(connection)
        is_by_time = _set_origin(connection, subscription)
        written = open_written(connection, subscription.subscriber, articles, subscription.settings.run_as)
        with translated():
            connection.execute("begin")
            if is_by_time:
                # As copied rows: any change that follows is later.
                delivery_marks.give_old_time(connection)
            connection.execute(_LOCK_TIMEOUT)
        # The progress row stays locked until the repair ends: delivery waits, and rows are compared at the position
        # that it has.
        subscribed = read_subscribed(connection, subscription, articles, for_update=True)
        known = subscribed.progress
        with translated():
            # As any batch: fenced, and marked as delivered.
            beginning = progress.BEGIN_BATCH
            values = (subscription.guid, known.epoch, known.position.value)
            psycopg.RawCursor(connection).execute(sql.SQL(beginning), values)
        yield PostgresRepair(connection, subscription.guid, subscribed, written)


def _set_origin(connection: _Connection, subscription: Subscription) -> bool:
    """Give the session a replication origin, beside the agent's, where others look at it; return whether commit times
    decide conflicts. Raises `OriginNeeded`.
    """
    is_by_time = subscription.settings.conflicts is Resolver.LAST_COMMIT_TIME
    if is_by_time or delivery_marks.is_published(connection):
        reason = delivery_marks.mark_session(connection, subscription.guid, "repair", patience_s=_ORIGIN_PATIENCE_S)
        if reason is not None and is_by_time:
            raise OriginNeeded(subscription.subscriber, reason)
    return is_by_time


@frozen
class PostgresOutbox:
    """See `RepairOutbox`."""

    connection: _Connection
    guid: str

    def read(self) -> Sequence[RepairRecord]:
        """See `RepairOutbox`."""
        with translated():
            return [RepairRecord(*row) for row in self.connection.execute(_RECORDS, (self.guid,))]

    def forget(self, records: Sequence[RepairRecord]) -> None:
        """See `RepairOutbox`."""
        with translated():
            rows = [(self.guid, one.repair_id, one.ordinal) for one in records]
            self.connection.cursor().executemany(_FORGET, rows)


@contextmanager
def open_outbox(subscription: Subscription) -> Iterator[PostgresOutbox]:
    """Open what repairs have left at a subscriber. Raises `ConnectionFailed`, `SubscriberUnprepared`."""
    with closing(_connect(subscription)) as connection:
        if progress.list_recorded(connection):
            progress.make_current(connection)
        progress.read(connection, subscription.guid)
        yield PostgresOutbox(connection, subscription.guid)


def _connect(subscription: Subscription) -> _Connection:
    return connect(
        subscription.subscriber,
        application_name=f"rowtide repair on {describe_holder()}",
        constraints=subscription.constraints,
        settings=PINNED_SETTINGS | WHOLE_TABLES,
    )


def statement_of(change: RowCorrection, written: WrittenTable) -> tuple[str, list[str | None]]:
    """Return the statement that makes a change, and its values. Pure."""
    article = change.article
    table = quote_qualified(article.schema, article.table)
    values = dict(zip(article.columns, change.row, strict=True))
    match change.operation:
        case Operation.INSERT:
            given = list(values)
            names = ", ".join(quote(column.name) for column in given)
            marks = ", ".join(_mark(column, index) for index, column in enumerate(given, 1))
            statement = f"insert into {table} ({names}) overriding system value values ({marks})"
            return statement, [_text(values[column]) for column in given]
        case Operation.UPDATE:
            given = [column for column in values if column.name in change.columns]
            set_ = ", ".join(f"{quote(column.name)} = {_mark(column, index)}" for index, column in enumerate(given, 1))
            where = _key_condition(article, len(given) + 1, written)
            texts = [*(values[column] for column in given), *change.key]
            return f"update {table} t set {set_} where {where}", list(map(_text, texts))
        case _:
            return f"delete from {table} t where {_key_condition(article, 1, written)}", list(map(_text, change.key))


def _key_condition(article: Article, first: int, written: WrittenTable) -> str:
    columns = enumerate(article.key_columns, first)
    return " and ".join(
        written.equals(column, f"t.{quote(column.name)}", _mark(column, place)) for place, column in columns
    )


def _mark(column: PublishedColumn, place: int) -> str:
    return read_text(f"($1)[{place}]", column.type_text)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _setting(article: Article, columns: Sequence[PublishedColumn], values: Sequence[str], written: WrittenTable) -> str:
    set_ = ", ".join(f"{quote(column.name)} = {value}" for column, value in zip(columns, values, strict=True))
    table = quote_qualified(article.schema, article.table)
    return f"update {table} t set {set_} where {_key_condition(article, 1, written)}"


def _free_value(article: Article, column: PublishedColumn) -> str:
    """Return the expression of a value that no row has; null for types of which there is none for sure."""
    least = f"(select pg_catalog.min(o.{quote(column.name)}) from {quote_qualified(article.schema, article.table)} o)"
    kind, length = kind_of(column.value_type_text), find_type(column.value_type_text).modifiers
    if kind in NUMBERS:
        return f"{least} operator(pg_catalog.-) 1"
    if kind in TEXTS:
        random = "pg_catalog.replace(pg_catalog.gen_random_uuid()::pg_catalog.text, '-', '')"
        return f"pg_catalog.left({random}, {min(*length, 32) if length else 32})"
    if kind in TIMES:
        return f"{least} operator(pg_catalog.-) '1 day'::pg_catalog.interval"
    return "pg_catalog.gen_random_uuid()" if kind is TypeKind.UUID else _NULL


def _reason(error: psycopg.Error | _NoRowChanged) -> str:
    """Return why a row was refused. Raises errors that are about something else."""
    if isinstance(error, _NoRowChanged):
        return _NO_ROW
    return reason_of(error)


def reason_of(error: psycopg.Error) -> str:
    """Return why a row was refused. Raises errors that are about something else."""
    if (error.sqlstate or "")[:2] not in _REFUSALS:
        raise translate(error) from error
    return " ".join((error.diag.message_primary or str(error)).split())


_IS_REPLACEABLE = """
select not c.relhasrules
    and not exists (select from pg_trigger where tgrelid = c.oid and not tgisinternal)
    and not exists (select from pg_constraint where confrelid = c.oid and confdeltype in ('c', 'n', 'd'))
    and not exists (
        select from pg_attribute
        where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = '' and attname <> all (%(names)s))
from pg_class c where c.oid = to_regclass(%(table)s)
"""
"""Whether a table has no triggers or rules, no columns of the subscriber's own, and no rows that would go with its."""
_RECORD = f'insert into {SCHEMA}."MSrepairs" (subscription_guid, repair_id, ordinal, record) values (%s, %s, %s, %s)'
_RECORDS = f"""
select repair_id, ordinal, record from {SCHEMA}."MSrepairs" where subscription_guid = %s order by repair_id, ordinal
"""
_FORGET = f'delete from {SCHEMA}."MSrepairs" where subscription_guid = %s and repair_id = %s and ordinal = %s'
