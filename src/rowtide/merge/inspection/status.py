"""State of subscriptions, and the history of synchronisations (SQL Server: Replication Monitor)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import func, select

from rowtide.merge.articles import Publication, SubscriberType, Subscription
from rowtide.merge.catalogue import get_publication, list_articles, list_publications, read_nickname
from rowtide.merge.definitions import article_history, conflicts_info, retries, sessions, subscriptions
from rowtide.merge.nodes.node import Node
from rowtide.merge.progress import as_utc, list_subscriptions, read_last_sync
from rowtide.merge.session.purging import expiry

_PHASES = {1: "upload", 2: "download"}
_STATES = {0: "waiting", 2: "succeeded", 3: "running", 6: "failed"}


@dataclass(frozen=True, slots=True)
class MergeStatus:
    """A publication with one of its subscriptions, as this node knows it; subscription fields are None if it has none.

    `role` is this node's role in the publication. `open_conflicts` counts the publication's unresolved conflicts.
    """

    publication: str
    role: str
    articles: tuple[str, ...]
    retention_days: int
    open_conflicts: int
    subscriber: str | None = None
    subscriber_type: str | None = None
    priority: float | None = None
    host_name: str | None = None
    login: str | None = None
    sent_generation: int | None = None
    received_generation: int | None = None
    rows_refused: int | None = None
    last_sync: datetime | None = None
    expires: datetime | None = None
    state: str | None = None
    summary: str | None = None


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


def list_status(node: Node, publication: str | None = None) -> Sequence[MergeStatus]:
    """Return the state of all publications of a node, or of one. Raises `MergePublicationUnknown`."""
    if not node.tables.is_prepared() and publication is None:
        return ()
    named = () if publication is None else (get_publication(node.connection, publication),)
    chosen = named or list_publications(node.connection)
    return [row for each in chosen for row in _status(node, each)]


def list_sessions(node: Node, publication: str | None = None) -> Sequence[MergeSession]:
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
            _STATES[row.runstatus],
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


def _status(node: Node, publication: Publication) -> Sequence[MergeStatus]:
    connection = node.connection
    is_open = (conflicts_info.c.pubid == publication.pubid) & conflicts_info.c.resolved_time.is_(None)
    common = MergeStatus(
        publication=publication.name,
        role="publisher" if publication.publisher == read_nickname(connection) else "subscriber",
        articles=tuple(article.name for article in list_articles(connection, publication.pubid)),
        retention_days=publication.retention_days,
        open_conflicts=connection.execute(select(func.count()).select_from(conflicts_info).where(is_open)).scalar_one(),
    )
    known = list_subscriptions(connection, publication.pubid)
    return [_subscribed(node, publication, common, each) for each in known] or [common]


def _subscribed(node: Node, publication: Publication, common: MergeStatus, subscription: Subscription) -> MergeStatus:
    connection = node.connection
    found = select(subscriptions).where(subscriptions.c.subid == subscription.subid)
    row = connection.execute(found).mappings().one()
    refused = select(func.count()).select_from(retries).where(retries.c.source == subscription.nickname)
    last_sync = read_last_sync(connection, subscription.subid)
    is_client = subscription.subscriber_type is SubscriberType.CLIENT
    return replace(
        common,
        subscriber=subscription.subscriber,
        subscriber_type="client" if is_client else "server",
        priority=subscription.priority,
        host_name=None if subscription.partition is None else subscription.partition.host_name,
        login=None if subscription.partition is None else subscription.partition.suser_name,
        sent_generation=subscription.sent,
        received_generation=subscription.received,
        rows_refused=connection.execute(refused).scalar_one(),
        last_sync=last_sync,
        expires=expiry(publication, last_sync),
        state=_STATES[row["last_sync_status"]],
        summary=row["last_sync_summary"],
    )
