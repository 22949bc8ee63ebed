"""Articles that join or leave a subscription while it is delivered: their records in the distribution database.

An article that joins is a subscription of its own until its rows are copied and have caught up: others continue. One
that leaves is kept as detached until the subscriber has none of its procedures any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Executable,
    ForeignKey,
    Identity,
    Integer,
    Table,
    Text,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.replication.articles.articles import Article, decode_article, encode_article
from rowtide.replication.articles.changes import CallChange, decode_change, encode_change
from rowtide.replication.distributor import subscription_records
from rowtide.replication.distributor.definitions import SubscriptionState, agents, metadata, publications, subscriptions
from rowtide.replication.distributor.location import distributor
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.subscription_settings import IfExists, SyncType

detached = Table(
    "MSdetached_articles",
    metadata,
    Column("agent_id", Integer, ForeignKey(agents.c.id, ondelete="cascade"), primary_key=True),
    Column("subscription_guid", Text, primary_key=True, comment="by which the subscriber knows the article"),
    Column("article_id", Text, primary_key=True),
    Column("definition", Text, nullable=False, comment="JSON: the article as the subscriber has it"),
)
changes = Table(
    "MSarticle_changes",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("agent_id", Integer, ForeignKey(agents.c.id, ondelete="cascade"), nullable=False),
    Column("article_id", Text, nullable=False),
    Column("from_position", BigInteger, nullable=False, comment="from which position of the log on it holds"),
    Column("change", Text, nullable=False, comment="JSON: what becomes of the article as the subscriber has it"),
)
_COPIED = (
    agents.c.publication_id,
    agents.c.subscriber,
    agents.c.constraints,
    agents.c.settings,
    agents.c.forwards,
)


def join_steps(
    subscription: Subscription, article_id: str, if_exists: IfExists, held: Article | None = None
) -> list[Executable]:
    """Return the statements that let an article join a subscription; its agent prepares the subscriber.

    `held` is what the subscriber has of it already.
    """
    guid = str(uuid.uuid4())
    of_agent = {
        "subscription_guid": guid,
        "joins": subscription.agent_id,
        "if_exists": if_exists.value,
        "replaces": None if held is None else encode_article(held),
    }
    own_values = (literal(value, agents.c[name].type) for name, value in of_agent.items())
    copied = select(*_COPIED, *own_values).where(agents.c.id == subscription.agent_id)
    of_article = {
        "article_id": article_id,
        "sync_type": SyncType.AUTOMATIC.value,
        "subscription_seqno": 0,
        "status": int(SubscriptionState.WAITING),
    }
    values = (literal(value, subscriptions.c[name].type) for name, value in of_article.items())
    own = select(agents.c.id, *values).where(agents.c.subscription_guid == guid)
    return [
        insert(agents).from_select([*(column.name for column in _COPIED), *of_agent], copied),
        insert(subscriptions).from_select(["agent_id", *of_article], own),
    ]


def detach_steps(subscription: Subscription, holder: Subscription, article: Article) -> list[Executable]:
    """Return the statements that take an article from a subscription, or from one that joins it.

    The subscription's agent, started again if it has failed, then removes the article's procedures.
    """
    kept = {
        "agent_id": subscription.agent_id,
        "subscription_guid": holder.guid,
        "article_id": article.article_id,
        "definition": encode_article(article),
    }
    mine = (subscriptions.c.agent_id == holder.agent_id) & (subscriptions.c.article_id == article.article_id)
    ended = [] if holder.joins is None else [delete(agents).where(agents.c.id == holder.agent_id)]
    return [
        insert(detached).values(kept),
        delete(subscriptions).where(mine),
        *ended,
        delete(changes).where(changes.c.agent_id == holder.agent_id, changes.c.article_id == article.article_id),
        resume_step(subscription.agent_id),
    ]


@frozen
class PendingChange:
    """A change of an article that a subscription has still to follow, from a position of the log on."""

    change_id: int
    article_id: str
    since: Position
    change: CallChange


def change_step(agent_id: int, article_id: str, since: Position, change: CallChange) -> Executable:
    """Return the statement that records a change of an article for a subscription."""
    values = {
        "agent_id": agent_id,
        "article_id": article_id,
        "from_position": since.value,
        "change": encode_change(change),
    }
    return insert(changes).values(values)


def resume_step(agent_id: int) -> Executable:
    """Return the statement by which an agent opens again, also after an error."""
    return update(agents).where(agents.c.id == agent_id).values(resumptions=agents.c.resumptions + 1)


def list_changes(connection: Connection, agent_id: int) -> Sequence[PendingChange]:
    """Return the changes of articles that a subscription has still to follow, oldest first."""
    query = select(changes).where(changes.c.agent_id == agent_id).order_by(changes.c.id)
    return tuple(
        PendingChange(row.id, row.article_id, Position(row.from_position), decode_change(row.change))
        for row in distributor(connection).execute(query)
    )


def forget_change(connection: Connection, change_id: int) -> None:
    """Delete the record of a change that a subscription has followed."""
    distributor(connection).execute(delete(changes).where(changes.c.id == change_id))


def list_detached(connection: Connection, agent_id: int) -> Sequence[tuple[str, Article]]:
    """Return the articles of which a subscriber still has procedures, each with the guid by which it knows them."""
    query = select(detached.c.subscription_guid, detached.c.definition).where(detached.c.agent_id == agent_id)
    return tuple((guid, decode_article(definition)) for guid, definition in distributor(connection).execute(query))


def forget_detached(connection: Connection, agent_id: int, guid: str, article_id: str) -> None:
    """Delete the record of a detached article, of which the subscriber has nothing any more."""
    columns = detached.c
    known = (columns.agent_id == agent_id) & (columns.subscription_guid == guid) & (columns.article_id == article_id)
    distributor(connection).execute(delete(detached).where(known))


def lock_articles(connection: Connection, publication: str) -> None:
    """Let nobody else change which articles a publication's subscriptions have, until the transaction ends."""
    known = select(agents.c.id).join(publications, publications.c.publication_id == agents.c.publication_id)
    of_publication = known.where(publications.c.publication == publication).order_by(agents.c.id)
    # Those that join come last: while a subscription is locked, none is added to it.
    for query in (of_publication.where(agents.c.joins.is_(None)), of_publication):
        distributor(connection).execute(query.with_for_update(of=agents, key_share=True))


def lock(connection: Connection, agent_id: int) -> Subscription | None:
    """Let nobody else change which articles one subscription has, or a joining one, until the transaction ends.

    Returns it, None if it is not there. Of one that others join: it before them.
    """
    query = select(agents.c.id).where(agents.c.id == agent_id)
    # `for no key update`: agents write history rows meanwhile, whose foreign key locks this one's key.
    distributor(connection).execute(query.with_for_update(key_share=True))
    return subscription_records.find_subscription(connection, agent_id)


def record_start(connection: Connection, joining: Subscription, start: Position) -> None:
    """Record from which position on a joining article's changes are delivered."""
    of_agent = subscriptions.c.agent_id == joining.agent_id
    distributor(connection).execute(update(subscriptions).where(of_agent).values(subscription_seqno=start.value))


def keep_table(connection: Connection, joining: Subscription) -> Subscription:
    """Record that a joining article's table is emptied at the subscriber, and not dropped; return it so."""
    kept = IfExists.TRUNCATE
    distributor(connection).execute(update(agents).where(agents.c.id == joining.agent_id).values(if_exists=kept.value))
    return replace(joining, if_exists=kept)


def mark_prepared(connection: Connection, joining: Subscription) -> None:
    """Record that the subscriber is prepared for a joining article."""
    _change_state(connection, joining, SubscriptionState.WAITING, SubscriptionState.ACTIVE)


def mark_ready(connection: Connection, joining: Subscription, at: Position) -> None:
    """Record that a joining article has everything below a position, and that its agent no longer delivers."""
    distributor(connection).execute(update(agents).where(agents.c.id == joining.agent_id).values(ready_at=at.value))
    _change_state(connection, joining, SubscriptionState.ACTIVE, SubscriptionState.READY)


def mark_unready(connection: Connection, joining: Subscription) -> None:
    """Let the agent of a joining article deliver on."""
    _change_state(connection, joining, SubscriptionState.READY, SubscriptionState.ACTIVE)


def move(connection: Connection, joining: Subscription, into: Subscription) -> None:
    """Make a joining article one of the subscription's own; without effect if it is."""
    own = subscriptions.alias()
    others = select(func.min(own.c.status)).where(own.c.agent_id == into.agent_id)
    status = func.coalesce(others.scalar_subquery(), int(SubscriptionState.ACTIVE))
    of_joining = subscriptions.c.agent_id == joining.agent_id
    distributor(connection).execute(
        update(subscriptions).where(of_joining).values(agent_id=into.agent_id, status=status)
    )
    distributor(connection).execute(delete(agents).where(agents.c.id == joining.agent_id))


def _change_state(
    connection: Connection, joining: Subscription, before: SubscriptionState, after: SubscriptionState
) -> None:
    # From that state alone: it may have been paused meanwhile.
    of_agent = (subscriptions.c.agent_id == joining.agent_id) & (subscriptions.c.status == int(before))
    distributor(connection).execute(update(subscriptions).where(of_agent).values(status=int(after)))
