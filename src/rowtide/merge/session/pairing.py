"""A hub and a subscriber that know each other, and the conditions under which they may synchronise.

Both ends store a mark that changes with each synchronisation. An end that lacks the other's mark was restored from a
backup, or is a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import select

from rowtide.merge.articles import Article, Publication, Subscription
from rowtide.merge.catalogue import (
    find_publication,
    list_articles,
    read_nickname,
    read_publication,
    select_articles,
    select_publication,
)
from rowtide.merge.definitions import articles, publications, subscriptions
from rowtide.merge.errors import (
    FiltersChanged,
    MergedTableAltered,
    MergePublicationUnknown,
    MergeSubscriptionUnknown,
    NodeCopied,
    NodeRestored,
    SubscriptionExpired,
)
from rowtide.merge.nodes.node import Examination, Node, Original
from rowtide.merge.partitions.filters import RowFilter, bind_articles
from rowtide.merge.progress import SELECT_NODE, list_subscriptions, read_subscription, select_subscriptions
from rowtide.merge.session.purging import expiry


@dataclass(frozen=True, slots=True)
class Pairing:
    """A hub and a subscriber; each stores its own `Subscription` of the other."""

    publication: Publication
    articles: tuple[Article, ...]
    at_hub: Subscription
    at_subscriber: Subscription
    hub: int

    @property
    def going_down(self) -> tuple[Article, ...]:
        """The articles of which the subscriber receives changes."""
        return tuple(article for article in self.articles if not article.is_upload_only)

    @property
    def filters(self) -> dict[int, RowFilter]:
        """The filters of the subscriber's partition, by article; unfiltered articles are left out."""
        return bind_articles(self.articles, self.at_hub.partition)


def pair(hub: Node, subscriber: Node, publication_name: str, subscriber_name: str) -> Pairing:
    """Return what two nodes store about each other. Raises `MergePublicationUnknown`, `MergeSubscriptionUnknown`."""
    # Before the subscriber's: the mark that a synchronisation stores in between is one that the hub has by now.
    publication, known, published, hub_nickname = _read_hub(hub, publication_name)
    unknown = MergeSubscriptionUnknown(subscriber_name, publication_name)
    if not subscriber.tables.is_prepared() or find_publication(subscriber.connection, publication_name) is None:
        raise unknown
    own = list_subscriptions(subscriber.connection, publication.pubid)
    at_subscriber = next((one for one in own if one.nickname == publication.publisher), None)
    if at_subscriber is None:
        raise unknown
    at_hub = next((one for one in known if one.subid == at_subscriber.subid), None)
    if at_hub is None:
        raise unknown
    return Pairing(publication, published, at_hub, at_subscriber, hub_nickname)


def _read_hub(
    hub: Node, publication_name: str
) -> tuple[Publication, tuple[Subscription, ...], tuple[Article, ...], int]:
    """Return a publication, its subscriptions and articles, and the hub's nickname."""
    pubid = select(publications.c.pubid).where(publications.c.name == publication_name).scalar_subquery()
    named, known, listed, node = hub.read_together(
        select_publication(publication_name),
        select_subscriptions(subscriptions.c.pubid == pubid),
        select_articles(articles.c.pubid == pubid),
        SELECT_NODE,
    )
    if not named:
        raise MergePublicationUnknown(publication_name)
    return (
        read_publication(named[0]),
        tuple(map(read_subscription, known)),
        tuple(Article.decode(row["definition"]) for row in listed),
        int(node[0]["nickname"]),
    )


def require_ready(hub: Node, subscriber: Node, pairing: Pairing) -> None:
    """Raise unless the two nodes can synchronise; record at both where they are.

    Raises `NodeCopied`, `SubscriptionExpired`, `NodeRestored`, `MergedTableAltered`, `FiltersChanged`,
    `StoredFilterRefused`.
    """
    at_hub, at_subscriber = (node.tables.examine(pairing.articles) for node in (hub, subscriber))
    for examination in (at_hub, at_subscriber):
        _require_original(examination.original)
    _require_unexpired(pairing)
    _require_met(subscriber, pairing)
    _require_whole(hub, "the publisher", pairing, at_hub)
    _require_whole(subscriber, pairing.at_hub.subscriber, pairing, at_subscriber)
    _require_filters(subscriber, pairing)
    for node, examination in ((hub, at_hub), (subscriber, at_subscriber)):
        if not examination.is_recorded:
            node.tables.record_place()


def require_in_step(hub: Node, subscriber: Node, pairing: Pairing) -> None:
    """Raise unless the subscriber continues where it stopped; write nothing.

    Raises `NodeCopied`, `SubscriptionExpired`, `NodeRestored`, `FiltersChanged`.
    """
    for node in (hub, subscriber):
        require_original(node)
    _require_unexpired(pairing)
    _require_met(subscriber, pairing)
    _require_filters(subscriber, pairing)


def require_same_ends(hub: Node, subscriber: Node, pairing: Pairing) -> None:
    """Raise unless both nodes are those that synchronised last. Raises `NodeCopied`, `NodeRestored`."""
    for node in (hub, subscriber):
        require_original(node)
    _require_met(subscriber, pairing)


def require_original(node: Node, *, is_sure: bool = True) -> None:
    """Raise `NodeCopied` if the database that a node was copied from exists, or with `is_sure=False`, may exist.

    Of a copy and its original on different servers, the first to synchronise continues: the marks stop the other one.
    """
    _require_original(node.tables.find_original(), is_sure=is_sure)


def has_met(subscriber: Node, pairing: Pairing) -> bool:
    """Whether both ends have each other's mark: neither was restored from a backup or is a copy of another."""
    is_same = read_nickname(subscriber.connection) == pairing.at_hub.nickname
    return is_same and pairing.at_subscriber.state in (pairing.at_hub.state, pairing.at_hub.next_state)


def _require_original(original: Original | None, *, is_sure: bool = True) -> None:
    if original is not None and (original.is_here or not is_sure):
        raise NodeCopied(original.copy, original.description)


def _require_unexpired(pairing: Pairing) -> None:
    """Raise `SubscriptionExpired` after the retention period, by the hub's clock."""
    last = pairing.at_hub.last_sync
    expires = expiry(pairing.publication, last)
    if expires is not None and last is not None and expires < datetime.now(UTC):
        raise SubscriptionExpired(pairing.at_hub.subscriber, f"{last:%Y-%m-%d}", pairing.publication.retention_days)


def _require_met(subscriber: Node, pairing: Pairing) -> None:
    if not has_met(subscriber, pairing):
        raise NodeRestored(pairing.at_hub.subscriber)


def _require_whole(node: Node, name: str, pairing: Pairing, examination: Examination) -> None:
    """Raise `MergedTableAltered` if triggers or columns are missing: changes would be lost, or every row refused."""
    for article in pairing.articles:
        damage = examination.damages.get(article.nickname)
        if damage is not None and node.tables.take_in_partitions(article):
            damage = node.tables.find_damage(article)
        if damage is not None:
            raise MergedTableAltered(name, article.qualified_name, damage)


def _require_filters(subscriber: Node, pairing: Pairing) -> None:
    """Raise `FiltersChanged` if the subscriber was filled by other filters.

    A synchronisation sends later changes only.
    """
    filtered = pairing.filters
    known = {article.name: article for article in list_articles(subscriber.connection, pairing.publication.pubid)}
    changed = [
        article.qualified_name
        for article in pairing.articles
        if article.nickname in filtered and article.name in known and not article.is_filtered_as(known[article.name])
    ]
    if changed:
        raise FiltersChanged(pairing.at_hub.subscriber, ", ".join(changed))
