"""Subscriptions as the distribution database records them, with the articles as their subscribers have them.

Session-level advisory locks in the distribution database say which process delivers a subscription. One that was not
synchronised within its publication's retention is deactivated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from sqlalchemy import (
    Connection,
    Executable,
    RowMapping,
    delete,
    func,
    insert,
    select,
    update,
)

from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.query_memo import made_once
from rowtide.replication.articles.articles import Article, decode_article, encode_article
from rowtide.replication.distributor.definitions import (
    SubscriptionState,
    agents,
    articles,
    is_made,
    publications,
    require_writable,
    subscriptions,
)
from rowtide.replication.distributor.location import distributor
from rowtide.replication.distributor.publication_records import get_publication, renew_article
from rowtide.replication.errors.subscribing import SubscriptionUnknown
from rowtide.replication.subscription_settings import (
    Constraints,
    IfExists,
    SubscriptionSettings,
    SyncType,
)


@frozen
class Subscription:
    """One subscriber's subscription to a publication.

    `starts` are the positions at which its articles' delivery starts. `forwards`: what the publisher has received from
    others is delivered too. One that `joins` another, given by agent id, has a single article, which is copied while
    the other continues, and becomes one of the other's: the table that is there is treated as `if_exists` says, and
    what it has is whole at `ready_at`.
    """

    agent_id: int
    publication: str
    subscriber: str
    guid: str
    starts: dict[str, Position]
    state: SubscriptionState = SubscriptionState.ACTIVE
    resumptions: int = 0
    constraints: Constraints | None = None
    replicates_ddl: bool = True
    forwards: bool = False
    settings: SubscriptionSettings = field(default_factory=SubscriptionSettings)
    joins: int | None = None
    if_exists: IfExists = IfExists.DROP
    ready_at: Position | None = None

    @property
    def reader(self) -> str:
        """Its name among the readers of the log store."""
        return reader_name(self.guid)


def reader_name(guid: str) -> str:
    """Return the name of a subscription among the readers of the log store."""
    return f"replication/{guid}"


def record_followed(connection: Connection, agent_id: int, followed: Sequence[Article]) -> None:
    """Record articles as a subscriber has them after schema changes, in the caller's transaction.

    Later subscribers get the newest; those that are behind keep what they have.
    """
    known = {article.article_id: article for article in list_subscribed(connection, agent_id)}
    changed = [article for article in followed if article != known[article.article_id]]
    if not changed:
        return
    require_writable(connection)
    for article in changed:
        renew_article(connection, article)
        distributor(connection).execute(record_article_step(agent_id, article))


def record_article_step(agent_id: int, article: Article) -> Executable:
    """Return the statement that records an article as a subscriber has it."""
    of_subscription = (subscriptions.c.agent_id == agent_id) & (subscriptions.c.article_id == article.article_id)
    return update(subscriptions).where(of_subscription).values(definition=encode_article(article))


def record_articles(connection: Connection, guid: str, prepared: Sequence[Article]) -> None:
    """Record articles as the subscriber of a new subscription has them, where others have followed a schema change
    since; nobody else does until the transaction ends.
    """
    query = select(articles.c.article_id, articles.c.definition)
    chosen = query.where(articles.c.article_id.in_([one.article_id for one in prepared]))
    locked = distributor(connection).execute(chosen.with_for_update(read=True)).all()
    now = {row.article_id: decode_article(row.definition) for row in locked}
    of_agent = select(agents.c.id).where(agents.c.subscription_guid == guid)
    agent_id = distributor(connection).execute(of_agent).scalar_one()
    for article in prepared:
        if now[article.article_id] != article:
            distributor(connection).execute(record_article_step(agent_id, article))


def find_replaced(connection: Connection, agent_id: int) -> Article | None:
    """Return the article as the subscriber has it from an earlier subscription; None if it joins for the first time."""
    found = distributor(connection).execute(select(agents.c.replaces).where(agents.c.id == agent_id)).scalar()
    return None if found is None else decode_article(found)


def list_earlier_articles(connection: Connection) -> tuple[tuple[int, Article], ...]:
    """Return the articles that subscribers have otherwise than as they are for later ones, with their agents."""
    if not is_made(connection):
        return ()
    query = select(subscriptions.c.agent_id, subscriptions.c.definition).where(subscriptions.c.definition.is_not(None))
    return tuple(
        (agent_id, decode_article(definition)) for agent_id, definition in distributor(connection).execute(query)
    )


def list_subscribed(connection: Connection, agent_id: int) -> tuple[Article, ...]:
    """Return the articles of a subscription, as its subscriber has them."""
    query = (
        select(func.coalesce(subscriptions.c.definition, articles.c.definition))
        .join(subscriptions, subscriptions.c.article_id == articles.c.article_id)
        .where(subscriptions.c.agent_id == agent_id)
    )
    return tuple(decode_article(text) for text in distributor(connection).execute(query).scalars())


@made_once
def list_all_subscribed(connection: Connection) -> Mapping[int, tuple[Article, ...]]:
    """Return the articles of all subscriptions, as their subscribers have them, by the ids of their agents."""
    if not is_made(connection):
        return {}
    query = select(
        subscriptions.c.agent_id, func.coalesce(subscriptions.c.definition, articles.c.definition)
    ).join_from(subscriptions, articles, subscriptions.c.article_id == articles.c.article_id)
    found: dict[int, tuple[Article, ...]] = {}
    # Most subscribers have an article as it was published: it is decoded once.
    known: dict[str, Article] = {}
    for agent_id, definition in distributor(connection).execute(query):
        if definition not in known:
            known[definition] = decode_article(definition)
        found[agent_id] = (*found.get(agent_id, ()), known[definition])
    return found


def get_subscriber_article(connection: Connection, agent_id: int, article_id: str) -> Article:
    """Return an article of a subscription, as its subscriber has it."""
    return next(held for held in list_subscribed(connection, agent_id) if held.article_id == article_id)


def add_subscription(
    connection: Connection, publication_id: int, subscription: Subscription, sync_type: SyncType
) -> None:
    """Record a subscription to all articles of a publication, in the caller's transaction."""
    require_writable(connection)
    values = {
        "publication_id": publication_id,
        "subscriber": subscription.subscriber,
        "subscription_guid": subscription.guid,
        "constraints": subscription.constraints,
        "settings": subscription.settings.encode(),
        "forwards": subscription.forwards,
    }
    agent_id = distributor(connection).execute(insert(agents).values(values).returning(agents.c.id)).scalar_one()
    for article_id, position in subscription.starts.items():
        row = {
            "agent_id": agent_id,
            "article_id": article_id,
            "sync_type": sync_type.value,
            "subscription_seqno": position.value,
        }
        distributor(connection).execute(insert(subscriptions).values(row))


@made_once
def list_subscriptions(connection: Connection, publication: str | None = None) -> tuple[Subscription, ...]:
    """Return the subscriptions of a publication, or of all, oldest first."""
    if not is_made(connection):
        return ()
    query = (
        select(
            agents.c.id,
            publications.c.publication,
            agents.c.subscriber,
            agents.c.subscription_guid,
            subscriptions.c.article_id,
            subscriptions.c.subscription_seqno,
            subscriptions.c.status,
            agents.c.resumptions,
            agents.c.constraints,
            publications.c.replicate_ddl,
            agents.c.forwards,
            agents.c.settings,
            agents.c.joins,
            agents.c.if_exists,
            agents.c.ready_at,
        )
        .join(publications, publications.c.publication_id == agents.c.publication_id)
        .outerjoin(subscriptions, subscriptions.c.agent_id == agents.c.id)
        .order_by(agents.c.id, subscriptions.c.article_id)
    )
    if publication is not None:
        query = query.where(publications.c.publication == publication)
    found: dict[int, Subscription] = {}
    for row in distributor(connection).execute(query).mappings():
        subscription = found.setdefault(row["id"], _read(row))
        if row["article_id"] is not None:
            subscription.starts[row["article_id"]] = Position(row["subscription_seqno"])
    return tuple(found.values())


def list_joining(connection: Connection, agent_id: int) -> tuple[Subscription, ...]:
    """Return the subscriptions that join a subscription, oldest first."""
    return tuple(one for one in list_subscriptions(connection) if one.joins == agent_id)


def find_subscription(connection: Connection, agent_id: int) -> Subscription | None:
    """Return a subscription; None if it was dropped."""
    return next((one for one in list_subscriptions(connection) if one.agent_id == agent_id), None)


def _read(row: RowMapping) -> Subscription:
    return Subscription(
        agent_id=row["id"],
        publication=row["publication"],
        subscriber=row["subscriber"],
        guid=row["subscription_guid"],
        starts={},
        # A subscription without articles has no row in the join.
        state=SubscriptionState(row["status"] if row["status"] is not None else SubscriptionState.ACTIVE),
        resumptions=row["resumptions"],
        constraints=None if row["constraints"] is None else Constraints(row["constraints"]),
        replicates_ddl=row["replicate_ddl"],
        forwards=row["forwards"],
        settings=SubscriptionSettings.decode(row["settings"]),
        joins=row["joins"],
        if_exists=IfExists(row["if_exists"] or IfExists.DROP),
        ready_at=None if row["ready_at"] is None else Position(row["ready_at"]),
    )


def get_subscription(connection: Connection, publication: str, subscriber: str) -> Subscription:
    """Return one subscription. Raises `PublicationUnknown`, `SubscriptionUnknown`."""
    get_publication(connection, publication)
    for subscription in list_subscriptions(connection, publication):
        if subscription.subscriber == subscriber and subscription.joins is None:
            return subscription
    raise SubscriptionUnknown(publication, subscriber)


def set_status(connection: Connection, agent_id: int, status: SubscriptionState) -> None:
    """Activate or deactivate a subscription; other processes see it within a second."""
    distributor(connection).execute(
        update(subscriptions).where(subscriptions.c.agent_id == agent_id).values(status=int(status))
    )


def set_settings(connection: Connection, agent_id: int, settings: SubscriptionSettings) -> None:
    """Record a subscription's settings, in the caller's transaction; a run takes them on within a second."""
    require_writable(connection)
    distributor(connection).execute(update(agents).where(agents.c.id == agent_id).values(settings=settings.encode()))


def count_resumption(connection: Connection, agent_id: int) -> None:
    """Record that a subscription was resumed: a run then restarts it if it has failed."""
    resumed = update(agents).where(agents.c.id == agent_id).values(resumptions=agents.c.resumptions + 1)
    distributor(connection).execute(resumed)


def drop_subscription(connection: Connection, agent_id: int) -> None:
    """Delete a subscription's record."""
    distributor(connection).execute(delete(agents).where(agents.c.id == agent_id))
