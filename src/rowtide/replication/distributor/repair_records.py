"""What repairs did, in the distribution database, beside the history.

The rows come from the subscriber, where a repair writes them in its own transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    ForeignKey,
    Integer,
    Table,
    Text,
    select,
)
from sqlalchemy.dialects import postgresql

from rowtide.core.lsn import Position
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.replication.distributor.definitions import agents, metadata, publications
from rowtide.replication.distributor.location import distributor

repairs = Table(
    "MSrepairs",
    metadata,
    Column("repair_id", Text, primary_key=True, comment="of the transaction at the subscriber"),
    Column("ordinal", Integer, primary_key=True),
    Column("agent_id", Integer, ForeignKey(agents.c.id, ondelete="cascade"), nullable=False, index=True),
    Column("time", DateTime(timezone=True), nullable=False),
    Column("xact_seqno", BigInteger, nullable=False, comment="the position at which the row was repaired"),
    Column("article", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("key", Text, nullable=False, comment="JSON: texts by column"),
    Column("before", Text, comment="JSON: what the subscriber had; null: no row"),
    Column("after", Text, comment="JSON: what is published; null: no row"),
)


@frozen
class RepairedRow:
    """A row that a repair inserted, updated or deleted, at the subscriber's position.

    `key`, `before` and `after` are JSON objects of texts by column; of an update, only of what it changed.
    """

    publication: str
    subscriber: str
    article: str
    action: str
    key: str
    before: str | None
    after: str | None
    position: Position
    time: datetime


def encode_repair(row: RepairedRow) -> str:
    """Return a row as a subscriber keeps it, until the distribution database has it."""
    return json.dumps(
        {
            "time": row.time.isoformat(),
            "xact_seqno": row.position.value,
            "article": row.article,
            "action": row.action,
            "key": row.key,
            "before": row.before,
            "after": row.after,
        }
    )


def add_repairs(connection: Connection, agent_id: int, records: Sequence[tuple[str, int, str]]) -> None:
    """Record rows of repairs, given by repair, ordinal and encoded row. Idempotent."""
    for repair_id, ordinal, record in records:
        values = {**json.loads(record), "repair_id": repair_id, "ordinal": ordinal, "agent_id": agent_id}
        values["time"] = datetime.fromisoformat(values["time"])
        distributor(connection).execute(postgresql.insert(repairs).values(values).on_conflict_do_nothing())


def list_repairs(connection: Connection, publication: str | None = None) -> Sequence[RepairedRow]:
    """Return what was repaired at the subscribers of one or all publications, newest first."""
    query = (
        select(repairs, publications.c.publication, agents.c.subscriber)
        .join(agents, agents.c.id == repairs.c.agent_id)
        .join(publications, publications.c.publication_id == agents.c.publication_id)
        .order_by(repairs.c.time.desc(), repairs.c.repair_id, repairs.c.ordinal)
    )
    if publication is not None:
        query = query.where(publications.c.publication == publication)
    return [
        RepairedRow(
            publication=row.publication,
            subscriber=redact(row.subscriber),
            article=row.article,
            action=row.action,
            key=row.key,
            before=row.before,
            after=row.after,
            position=Position(row.xact_seqno),
            time=row.time.astimezone(UTC),
        )
        for row in distributor(connection).execute(query)
    ]
