"""State of subscriptions, as a node knows them (SQL Server: Replication Monitor)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, func, select, true

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, Publication, SubscriberType
from rowtide.merge.catalogue import get_publication, has_devices, list_articles, list_publications, read_nickname
from rowtide.merge.definitions import articles, conflicts_info, devices, retries, subscriptions
from rowtide.merge.errors.nodes import reading
from rowtide.merge.exchange_state import as_utc, read_subscription, select_subscriptions
from rowtide.merge.nodes.node import Node
from rowtide.merge.session.purge import expiry

SYNC_STATES = {0: "waiting", 2: "succeeded", 3: "running", 6: "failed"}
"""How a synchronisation stands, by its `runstatus`."""


@frozen
class MergeStatus:
    """A publication with one of its subscriptions, as this node knows it; subscription fields are None if it has none.

    `role` is this node's role in the publication. `open_conflicts` counts the publication's unresolved conflicts, and
    `unsent_columns` are those that this node's tables have and the articles have not. Of a device that synchronises
    over HTTP: `device` is its name, `last_contact` the last request with a token in force, to the minute, and
    `tokens_refused` the requests since then whose token was not.
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
    device: str | None = None
    last_contact: datetime | None = None
    client_version: str | None = None
    tokens_refused: int | None = None
    unsent_columns: tuple[str, ...] = ()


def list_status(node: Node, publication: str | None = None) -> Sequence[MergeStatus]:
    """Return the state of all publications of a node, or of one. Raises `MergePublicationUnknown`."""
    if not node.tables.is_prepared() and publication is None:
        return ()
    connection = node.connection
    chosen = list_publications(connection) if publication is None else (get_publication(connection, publication),)
    unsent = {each.name: _list_unsent(node, each) for each in chosen}
    listed = list_overview(connection)
    return [replace(one, unsent_columns=unsent[one.publication]) for one in listed if one.publication in unsent]


def list_overview(connection: Connection) -> Sequence[MergeStatus]:
    """Return what a node's metadata say of all publications, without `unsent_columns`, which tables have.

    As many queries for ten thousand subscriptions as for one.
    """
    own = read_nickname(connection)
    is_open = conflicts_info.c.resolved_time.is_(None)
    open_conflicts = _count(connection, conflicts_info.c.pubid, is_open)
    refused = _count(connection, retries.c.source, true())
    definitions: dict[str, list[str]] = {}
    listed = select(articles.c.pubid, articles.c.definition).order_by(articles.c.processing_order, articles.c.nickname)
    for pubid, definition in connection.execute(listed):
        with reading(articles.name):
            definitions.setdefault(pubid, []).append(definition)
    of_devices = _read_devices(connection)
    known: dict[str, list[RowMapping]] = {}
    for row in connection.execute(select_subscriptions(true())).mappings():
        known.setdefault(row["pubid"], []).append(row)
    found: list[MergeStatus] = []
    for publication in list_publications(connection):
        with reading(articles.name):
            decoded = [Article.decode(definition) for definition in definitions.get(publication.pubid, ())]
        common = MergeStatus(
            publication=publication.name,
            role="publisher" if publication.publisher == own else "subscriber",
            articles=tuple(article.name for article in decoded if not article.is_dropped),
            retention_days=publication.retention_days,
            open_conflicts=open_conflicts.get(publication.pubid, 0),
        )
        with reading(subscriptions.name):
            found += [
                replace(_subscribed(publication, common, row, refused), **of_devices.get(row["subid"], {}))
                for row in known.get(publication.pubid, ())
            ]
        if publication.pubid not in known:
            found.append(common)
    return found


def _read_devices(connection: Connection) -> Mapping[str, Mapping[str, Any]]:
    """Return what is known of devices that synchronise over HTTP, by their subscriptions; not of revoked ones."""
    if not has_devices(connection):
        return {}
    c = devices.c
    listed = select(c.subid, c.name, c.last_contact, c.client_version, c.refused)
    rows = connection.execute(listed.where(c.subid.is_not(None), c.revoked_at.is_(None)))
    return {
        row.subid: {
            "device": row.name,
            "last_contact": None if row.last_contact is None else as_utc(row.last_contact),
            "client_version": row.client_version,
            "tokens_refused": int(row.refused),
        }
        for row in rows
    }


def _count(connection: Connection, column: ColumnElement[Any], condition: ColumnElement[bool]) -> Mapping[Any, int]:
    rows = connection.execute(select(column, func.count()).where(condition).group_by(column))
    return {row[0]: row[1] for row in rows}


def _list_unsent(node: Node, publication: Publication) -> tuple[str, ...]:
    listed = list_articles(node.connection, publication.pubid)
    examined = node.tables.examine(listed).unsent
    return tuple(
        f"{article.qualified_name}.{name}" for article in listed for name in examined.get(article.nickname, ())
    )


def _subscribed(
    publication: Publication, common: MergeStatus, row: RowMapping, refused: Mapping[Any, int]
) -> MergeStatus:
    subscription = read_subscription(row)
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
        rows_refused=refused.get(subscription.nickname, 0),
        last_sync=subscription.last_sync,
        expires=expiry(publication, subscription.last_sync),
        state=SYNC_STATES[row["last_sync_status"]],
        summary=row["last_sync_summary"],
        schema_version=subscription.schema_version,
    )
