"""History and errors of agents, and what repairs did (SQL Server: MSdistribution_history, MSrepl_errors).

Rows are written sparingly: they grow the publisher's log, which the agents read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Float,
    ForeignKey,
    Identity,
    Integer,
    Select,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
)

from rowtide.agents.loop import PastError
from rowtide.core.errors import RowtideError, describe
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.replication.distributor import definitions
from rowtide.replication.distributor.definitions import agents, metadata, publications
from rowtide.replication.distributor.location import distributor
from rowtide.replication.errors.delivery import CommandError

HISTORY_RETENTION = timedelta(hours=48)
"""Retention of the history (SQL Server: @history_retention)."""
COPYING = "The agent copies: "
"""How the comments of an agent begin that copies rows."""
LOG_READER = "log reader"
"""Source name of errors in reading the log, which affect every subscription."""


class RunStatus(IntEnum):
    """An agent's state in a history row, written by the agent; the run that it belongs to writes `FAIL`."""

    START = 1
    SUCCEED = 2
    """Everything requested was delivered, or the agent was asked to stop."""
    IN_PROGRESS = 3
    IDLE = 4
    """Exists in SQL Server; not written, since nothing happened."""
    RETRY = 5
    FAIL = 6

    @property
    def words(self) -> str:
        """The state as shown to users."""
        return self.name.lower().replace("_", " ")


errors = Table(
    "MSrepl_errors",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("time", DateTime(timezone=True), nullable=False, index=True),
    Column("source_name", Text, nullable=False, comment="the subscriber, or the log reader"),
    Column("error_code", Text, nullable=False),
    Column("error_text", Text, nullable=False),
    Column("xact_seqno", BigInteger, comment="the transaction of the command that failed; null: it was no command"),
    Column("command_id", BigInteger, comment="the command's place in its transaction, from 1"),
)

distribution_history = Table(
    "MSdistribution_history",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("agent_id", Integer, ForeignKey(agents.c.id, ondelete="cascade"), nullable=False, index=True),
    Column("runstatus", Integer, nullable=False),
    Column("start_time", DateTime(timezone=True), nullable=False, comment="of the agent"),
    Column("time", DateTime(timezone=True), nullable=False),
    Column("duration", Integer, nullable=False, comment="seconds since the start"),
    Column("comments", Text, nullable=False),
    Column("xact_seqno", BigInteger, comment="everything below is delivered"),
    Column("delivered_transactions", BigInteger, nullable=False, comment="since the start"),
    Column("delivered_commands", BigInteger, nullable=False, comment="since the start"),
    Column("delivery_rate", Float, nullable=False, comment="commands per second of batches, since the start"),
    Column("delivery_latency", BigInteger, comment="milliseconds from the publisher's commit to the subscriber's"),
    Column("total_delivered_commands", BigInteger, nullable=False, comment="of the subscription"),
    Column("error_id", BigInteger),
)


@frozen
class Session:
    """An agent's work since it started; `unrecorded_commands` are those since its last history row.

    Its batches took `delivering_s`.
    """

    agent_id: int
    subscriber: str
    began_at: datetime
    position: Position | None
    transactions: int
    commands: int
    unrecorded_commands: int
    latency_ms: int | None
    delivering_s: float


@frozen
class HistoricState:
    """A row of `MSdistribution_history`: an agent's state and its work so far.

    The log reader, which has no publication, has a row for each of its errors (SQL Server: MSlogreader_history).
    """

    publication: str | None
    subscriber: str
    runstatus: str
    start_time: datetime | None
    time: datetime
    duration: int | None
    comments: str
    xact_seqno: Position | None
    delivered_transactions: int | None
    delivered_commands: int | None
    delivery_rate: float | None
    delivery_latency: int | None
    total_delivered_commands: int | None
    error_id: int | None


@frozen
class HistoricError:
    """A row of `MSrepl_errors`; `publication` is None for the log reader, and once the subscription was dropped."""

    id: int
    publication: str | None
    time: datetime
    source_name: str
    error_code: str
    error_text: str
    xact_seqno: CommitLsn | None
    command_id: int | None


def record(connection: Connection, session: Session, status: RunStatus, comments: str, now: datetime) -> None:
    """Record an agent's state."""
    _insert(connection, session, status, comments, now, None)


def record_error(connection: Connection, session: Session, status: RunStatus, error: Exception, now: datetime) -> None:
    """Record an error, after which an agent retries or has failed."""
    error_id = _insert_error(connection, session.subscriber, error, now)
    _insert(connection, session, status, describe(error), now, error_id)


def record_reader_error(connection: Connection, error: Exception, now: datetime) -> None:
    """Record an error in reading the log."""
    _insert_error(connection, LOG_READER, error, now)


def find_reader_error(connection: Connection) -> PastError | None:
    """Return the newest error in reading the log; None if there is none."""
    if not definitions.is_made(connection):
        return None
    mine = select(errors.c.time, errors.c.error_text).where(errors.c.source_name == LOG_READER)
    row = distributor(connection).execute(mine.order_by(errors.c.id.desc()).limit(1)).one_or_none()
    return PastError(*row) if row is not None else None


def forget_old(connection: Connection, now: datetime, *, limit: int) -> bool:
    """Delete a batch of rows older than the retention, except each agent's last row; return whether there are more."""
    columns = distribution_history.c
    newest = select(func.max(columns.id)).group_by(columns.agent_id)
    old = select(columns.id).where(columns.time < now - HISTORY_RETENTION, columns.id.not_in(newest)).limit(limit)
    rows = distributor(connection).execute(delete(distribution_history).where(columns.id.in_(old))).rowcount
    named = select(columns.error_id).where(columns.error_id.is_not(None))
    old_errors = select(errors.c.id).where(errors.c.time < now - HISTORY_RETENTION, errors.c.id.not_in(named))
    gone = distributor(connection).execute(delete(errors).where(errors.c.id.in_(old_errors.limit(limit)))).rowcount
    # Of either a full batch: there may be more.
    return max(rows, gone) == limit


def list_history(connection: Connection, publication: str | None = None) -> Sequence[HistoricState]:
    """Return the history of the agents of one or all publications, and of the log reader, newest first."""
    query = _with_agent(select(publications.c.publication, agents.c.subscriber, distribution_history), publication)
    rows = distributor(connection).execute(query.order_by(distribution_history.c.id.desc()))
    of_reader = distributor(connection).execute(
        select(errors).where(errors.c.source_name == LOG_READER).order_by(errors.c.id.desc())
    )
    # Stable: what was written at the same time stays in its order.
    found = [*(_state(row) for row in rows), *(_reader_state(row) for row in of_reader)]
    return sorted(found, key=lambda state: state.time, reverse=True)


def list_last(connection: Connection) -> dict[int, HistoricState]:
    """Return each agent's last row, by agent id."""
    newest = select(func.max(distribution_history.c.id)).group_by(distribution_history.c.agent_id)
    query = _with_agent(select(publications.c.publication, agents.c.subscriber, distribution_history), None)
    rows = distributor(connection).execute(query.where(distribution_history.c.id.in_(newest)))
    return {row.agent_id: _state(row) for row in rows}


def list_last_reached(connection: Connection) -> dict[int, datetime]:
    """Return when each agent, by its id, last recorded that it had delivered, within the history's retention."""
    if not definitions.is_made(connection):
        return {}
    columns = distribution_history.c
    reached = columns.runstatus.in_([RunStatus.SUCCEED, RunStatus.IN_PROGRESS])
    query = select(columns.agent_id, func.max(columns.time)).where(reached).group_by(columns.agent_id)
    return {agent_id: time.astimezone(UTC) for agent_id, time in distributor(connection).execute(query)}


def list_errors(connection: Connection, publication: str | None = None) -> Sequence[HistoricError]:
    """Return the errors of the agents of one or all publications, and of the log reader, newest first."""
    columns = errors.c
    of_agent = distribution_history.join(agents, agents.c.id == distribution_history.c.agent_id).join(
        publications, publications.c.publication_id == agents.c.publication_id
    )
    query = (
        select(errors, publications.c.publication)
        .select_from(errors.outerjoin(of_agent, distribution_history.c.error_id == columns.id))
        .order_by(columns.id.desc())
    )
    if publication is not None:
        query = query.where((publications.c.publication == publication) | (columns.source_name == LOG_READER))
    return [_error(row) for row in distributor(connection).execute(query)]


def _insert(
    connection: Connection, session: Session, status: RunStatus, comments: str, now: datetime, error_id: int | None
) -> None:
    columns = distribution_history.c
    total = select(func.coalesce(func.max(columns.total_delivered_commands), 0)).where(
        columns.agent_id == session.agent_id
    )
    seconds, delivering_s = (now - session.began_at).total_seconds(), session.delivering_s
    values = {
        "agent_id": session.agent_id,
        "runstatus": int(status),
        "start_time": session.began_at,
        "time": now,
        "duration": int(seconds),
        "comments": comments,
        "xact_seqno": session.position.value if session.position is not None else None,
        "delivered_transactions": session.transactions,
        "delivered_commands": session.commands,
        "delivery_rate": round(session.commands / delivering_s, 2) if delivering_s > 0 else 0.0,
        "delivery_latency": session.latency_ms,
        "total_delivered_commands": total.scalar_subquery() + session.unrecorded_commands,
        "error_id": error_id,
    }
    distributor(connection).execute(insert(distribution_history).values(values))


def _insert_error(connection: Connection, source: str, error: Exception, now: datetime) -> int:
    values = {
        "time": now,
        "source_name": redact(source),
        "error_code": str(error.number) if isinstance(error, RowtideError) else type(error).__name__,
        "error_text": describe(error),
        **_find_entry(error),
    }
    return int(distributor(connection).execute(insert(errors).values(values).returning(errors.c.id)).scalar_one())


def _with_agent(query: Select[Any], publication: str | None) -> Select[Any]:
    joined = query.join_from(distribution_history, agents, agents.c.id == distribution_history.c.agent_id).join(
        publications, publications.c.publication_id == agents.c.publication_id
    )
    return joined if publication is None else joined.where(publications.c.publication == publication)


def _state(row: Any) -> HistoricState:
    return HistoricState(
        publication=row.publication,
        subscriber=redact(row.subscriber),
        runstatus=RunStatus(row.runstatus).words,
        start_time=row.start_time,
        time=row.time,
        duration=row.duration,
        comments=row.comments,
        xact_seqno=_position(row.xact_seqno),
        delivered_transactions=row.delivered_transactions,
        delivered_commands=row.delivered_commands,
        delivery_rate=row.delivery_rate,
        delivery_latency=row.delivery_latency,
        total_delivered_commands=row.total_delivered_commands,
        error_id=row.error_id,
    )


def _reader_state(row: Any) -> HistoricState:
    return HistoricState(
        publication=None,
        subscriber=LOG_READER,
        runstatus=RunStatus.FAIL.words,
        start_time=None,
        time=row.time,
        duration=None,
        comments=row.error_text,
        xact_seqno=None,
        delivered_transactions=None,
        delivered_commands=None,
        delivery_rate=None,
        delivery_latency=None,
        total_delivered_commands=None,
        error_id=row.id,
    )


def _error(row: Any) -> HistoricError:
    return HistoricError(
        row.id,
        row.publication,
        row.time,
        row.source_name,
        row.error_code,
        row.error_text,
        CommitLsn(row.xact_seqno) if row.xact_seqno is not None else None,
        row.command_id,
    )


def _find_entry(error: Exception) -> dict[str, int]:
    if isinstance(error, CommandError):
        return {"xact_seqno": error.lsn.value, "command_id": error.command_id}
    return {}


def _position(value: int | None) -> Position | None:
    return Position(value) if value is not None else None
