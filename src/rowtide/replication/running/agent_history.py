"""What agents write to the history: their starts, ends and errors, and their progress once a minute.

The history is in the publisher, which delivery itself does not need: if it cannot be written, delivery continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, text

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import Position
from rowtide.databases.postgres.errors import translated
from rowtide.events.catalogue import HistoryNotWritten, RowsNotCounted
from rowtide.events.event import emit
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.run_context import DeliveryReport
from rowtide.replication.distributor import definitions, history, subscription_records
from rowtide.replication.distributor.history import RunStatus, Session
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.snapshot.agent import SnapshotReport

MESSAGE_INTERVAL_S = 60.0
"""(SQL Server: -MessageInterval.)"""


class AgentHistory:
    """Counts what an agent delivers, and writes it to the history; for one thread at a time."""

    def __init__(self, engine: Engine, subscription: Subscription) -> None:
        self._engine = engine
        self._subscription = subscription
        self._began_at = datetime.now(UTC)
        self._position: Position | None = None
        self._transactions = 0
        self._commands = 0
        self._recorded_commands = 0
        self._latency_ms: int | None = None
        self._delivering_s = 0.0
        self._is_copying = False
        self._last_retry: type[RowtideError] | None = None
        self._next_message = time.monotonic() + MESSAGE_INTERVAL_S

    def start(self) -> None:
        """Record that the agent has started."""
        self._record(RunStatus.START, "The agent has started.")

    def note_batch(self, report: DeliveryReport) -> None:
        """Count a batch; record the progress at most once a minute."""
        self._position = report.reached
        self._transactions += report.transactions
        self._commands += report.commands
        self._latency_ms = report.latency_ms
        self._delivering_s += report.seconds
        self._last_retry = None
        if self._is_copying or time.monotonic() >= self._next_message:
            self._is_copying = False
            self._record(RunStatus.IN_PROGRESS, "The agent delivers.")

    def note_copy(self, report: SnapshotReport) -> None:
        """Record how far a copy is: its begin, its end, and at most once a minute between."""
        is_over = report.chunks == report.of_chunks and not report.waits_for
        if self._is_copying and not is_over and time.monotonic() < self._next_message:
            return
        self._is_copying = not is_over
        if report.waits_for:
            self._record(RunStatus.IN_PROGRESS, f"The copy waits for {', '.join(report.waits_for)}.")
        elif is_over:
            self._record(RunStatus.IN_PROGRESS, "The agent has copied all rows.")
        else:
            self._record(RunStatus.IN_PROGRESS, f"{history.COPYING}{self._describe_copied(report)}.")

    def _describe_copied(self, report: SnapshotReport) -> str:
        """Return how many chunks and rows are copied; chunks have about as many rows."""
        share = report.chunks / max(report.of_chunks, 1)
        chunks = f"{report.chunks} of {report.of_chunks} chunks ({share:.0%})"
        try:
            with translated(), self._engine.connect() as connection:
                rows = _estimate_rows(
                    connection, subscription_records.list_subscribed(connection, self._subscription.agent_id)
                )
        except RowtideError as error:
            emit(RowsNotCounted(error))
            return chunks
        return f"{chunks}, about {rows * share:,.0f} of {rows:,} rows"

    def retry(self, error: RowtideError) -> None:
        """Record an error after which the agent tries again; a repeated one at most once a minute."""
        if type(error) is not self._last_retry or time.monotonic() >= self._next_message:
            self._last_retry = type(error)
            self._record_error(RunStatus.RETRY, error)

    def record_and_resume(self, error: RowtideError) -> None:
        """Record an error after which the agent continues: a command was skipped, a table dropped."""
        self._record_error(RunStatus.IN_PROGRESS, error)

    def fail(self, error: Exception) -> None:
        """Record the error that stopped the agent."""
        self._record_error(RunStatus.FAIL, error)

    def succeed(self, comments: str) -> None:
        """Record that the agent has ended without an error."""
        self._record(RunStatus.SUCCEED, comments)

    def _record(self, status: RunStatus, comments: str) -> None:
        self._write(lambda connection, now: history.record(connection, self._session(), status, comments, now))

    def _record_error(self, status: RunStatus, error: Exception) -> None:
        self._write(lambda connection, now: history.record_error(connection, self._session(), status, error, now))

    def _write(self, write: Callable[[Connection, datetime], None]) -> None:
        self._next_message = time.monotonic() + MESSAGE_INTERVAL_S
        try:
            with translated(), self._engine.begin() as connection:
                write(connection, datetime.now(UTC))
            self._recorded_commands = self._commands
        except RowtideError as error:
            emit(HistoryNotWritten(error))

    def _session(self) -> Session:
        return Session(
            agent_id=self._subscription.agent_id,
            subscriber=self._subscription.subscriber,
            began_at=self._began_at,
            position=self._position,
            transactions=self._transactions,
            commands=self._commands,
            unrecorded_commands=self._commands - self._recorded_commands,
            latency_ms=self._latency_ms,
            delivering_s=self._delivering_s,
        )


class LogReaderErrors:
    """Records the errors of the log reader; for one thread at a time.

    It is listed with the errors: if no process reads the log, no subscription gets anything.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._last_retry: type[RowtideError] | None = None
        self._next_retry = 0.0

    def retry(self, error: RowtideError) -> None:
        """Record an error after which reading is tried again; a repeated one at most once a minute."""
        if type(error) is not self._last_retry or time.monotonic() >= self._next_retry:
            self._last_retry = type(error)
            self._next_retry = time.monotonic() + MESSAGE_INTERVAL_S
            self.fail(error)

    def fail(self, error: RowtideError) -> None:
        """Record the error that ended reading."""
        try:
            with translated(), self._engine.begin() as connection:
                if definitions.is_made(connection):
                    history.record_reader_error(connection, error, datetime.now(UTC))
        except RowtideError as unwritten:
            emit(HistoryNotWritten(unwritten))


def _estimate_rows(connection: Connection, articles: Iterable[Article]) -> int:
    """Return how many rows articles' tables have, as estimated when they were analyzed last."""
    given = {"tables": [article.source_id for article in articles]}
    return int(connection.execute(text(_ROWS), given).scalar_one())


_ROWS = """
select coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint
from pg_class c
where c.relkind = 'r' and exists (
    select from unnest(cast(:tables as bigint[])) wanted(id)
    where c.oid = wanted.id or c.oid in (select relid from pg_partition_tree(wanted.id::oid)))
"""
