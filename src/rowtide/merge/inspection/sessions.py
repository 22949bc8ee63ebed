"""History of synchronisations (SQL Server: Replication Monitor)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from rowtide.merge.catalogue import get_publication
from rowtide.merge.definitions import article_history, sessions, subscriptions
from rowtide.merge.nodes.roles.schema import MergedTables
from rowtide.merge.progress import as_utc
from rowtide.merge.status import SYNC_STATES

_PHASES = {1: "upload", 2: "download"}


@dataclass(frozen=True, slots=True)
class MergeSession:
    """One article in one direction of a synchronisation (SQL Server: sp_replmonitorhelpmergesessiondetail).

    Times are in seconds. A synchronisation that moved no row has one entry without an article.
    """

    session_id: int
    subscriber: str
    start_time: datetime
    duration: float
    state: str
    message: str | None
    article: str | None
    phase: str | None
    inserts: int | None
    updates: int | None
    deletes: int | None
    conflicts: int | None
    rows_retried: int | None
    article_duration: float | None


def list_sessions(node: MergedTables, publication: str | None = None) -> Sequence[MergeSession]:
    """Return past synchronisations, newest first. Raises `MergePublicationUnknown`."""
    if not node.tables.is_prepared() and publication is None:
        return ()
    joined = sessions.join(subscriptions, sessions.c.subid == subscriptions.c.subid).outerjoin(
        article_history, article_history.c.session_id == sessions.c.session_id
    )
    statement = select(
        sessions.c.session_id,
        subscriptions.c.subscriber_server,
        sessions.c.start_time,
        sessions.c.duration,
        sessions.c.runstatus,
        sessions.c.message,
        article_history.c.article,
        article_history.c.phase,
        article_history.c.inserts,
        article_history.c.updates,
        article_history.c.deletes,
        article_history.c.conflicts,
        article_history.c.rows_retried,
        article_history.c.duration.label("article_duration"),
    ).select_from(joined)
    if publication is not None:
        found = get_publication(node.connection, publication)
        statement = statement.where(subscriptions.c.pubid == found.pubid)
    newest = (sessions.c.session_id.desc(), article_history.c.phase, article_history.c.article)
    return [
        MergeSession(
            row.session_id,
            row.subscriber_server,
            as_utc(row.start_time),
            round(row.duration, 3),
            SYNC_STATES[row.runstatus],
            row.message,
            row.article,
            _PHASES.get(row.phase),
            row.inserts,
            row.updates,
            row.deletes,
            row.conflicts,
            row.rows_retried,
            None if row.article_duration is None else round(row.article_duration, 3),
        )
        for row in node.connection.execute(statement.order_by(*newest))
    ]
