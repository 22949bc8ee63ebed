"""State of subscriptions, as a node knows them (SQL Server: Replication Monitor)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import func, select

from rowtide.core.values import frozen
from rowtide.merge.articles import Publication, SubscriberType, Subscription
from rowtide.merge.catalogue import get_publication, list_articles, list_publications, read_nickname
from rowtide.merge.definitions import conflicts_info, retries, subscriptions
from rowtide.merge.nodes.node import MergedTables
from rowtide.merge.progress import list_subscriptions, read_last_sync
from rowtide.merge.session.history import expiry

SYNC_STATES = {0: "waiting", 2: "succeeded", 3: "running", 6: "failed"}
"""How a synchronisation stands, by its `runstatus`."""


@frozen
class MergeStatus:
    """A publication with one of its subscriptions, as this node knows it; subscription fields are None if it has none.

    `role` is this node's role in the publication. `open_conflicts` counts the publication's unresolved conflicts, and
    `unsent_columns` are those that this node's tables have and the articles have not.
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
    schema_version: int | None = None
    unsent_columns: tuple[str, ...] = ()


def list_status(node: MergedTables, publication: str | None = None) -> Sequence[MergeStatus]:
    """Return the state of all publications of a node, or of one. Raises `MergePublicationUnknown`."""
    if not node.tables.is_prepared() and publication is None:
        return ()
    named = () if publication is None else (get_publication(node.connection, publication),)
    chosen = named or list_publications(node.connection)
    return [row for each in chosen for row in _status(node, each)]


def _status(node: MergedTables, publication: Publication) -> Sequence[MergeStatus]:
    connection = node.connection
    is_open = (conflicts_info.c.pubid == publication.pubid) & conflicts_info.c.resolved_time.is_(None)
    listed = list_articles(connection, publication.pubid)
    common = MergeStatus(
        publication=publication.name,
        role="publisher" if publication.publisher == read_nickname(connection) else "subscriber",
        articles=tuple(article.name for article in listed),
        retention_days=publication.retention_days,
        open_conflicts=connection.execute(select(func.count()).select_from(conflicts_info).where(is_open)).scalar_one(),
    )
    examined = node.tables.examine(listed).unsent
    common = replace(
        common,
        unsent_columns=tuple(
            f"{article.qualified_name}.{name}" for article in listed for name in examined.get(article.nickname, ())
        ),
    )
    known = list_subscriptions(connection, publication.pubid)
    return [_subscribed(node, publication, common, each) for each in known] or [common]


def _subscribed(
    node: MergedTables, publication: Publication, common: MergeStatus, subscription: Subscription
) -> MergeStatus:
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
        state=SYNC_STATES[row["last_sync_status"]],
        summary=row["last_sync_summary"],
        schema_version=subscription.schema_version,
    )
