"""A hub and a subscriber that know each other, and the conditions under which they may synchronise.

Both ends store a mark that changes with each synchronisation. An end that lacks the other's mark was restored from a
backup, or is a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from rowtide.merge.articles import Article, Publication, Subscription
from rowtide.merge.catalogue import find_publication, get_publication, list_articles, read_nickname
from rowtide.merge.errors import (
    FiltersChanged,
    MergedTableAltered,
    MergeSubscriptionUnknown,
    NodeCopied,
    NodeRestored,
    SubscriptionExpired,
)
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.filters import RowFilter, bind_articles
from rowtide.merge.progress import list_subscriptions, read_last_sync
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
    def filters(self) -> dict[int, RowFilter]:
        """The filters of the subscriber's partition, by article; unfiltered articles are left out."""
        return bind_articles(self.articles, self.at_hub.partition)


def pair(hub: Node, subscriber: Node, publication_name: str, subscriber_name: str) -> Pairing:
    """Return what two nodes store about each other. Raises `MergePublicationUnknown`, `MergeSubscriptionUnknown`."""
    publication = get_publication(hub.connection, publication_name)
    unknown = MergeSubscriptionUnknown(subscriber_name, publication_name)
    if not subscriber.tables.is_prepared() or find_publication(subscriber.connection, publication_name) is None:
        raise unknown
    # Before the subscriber's: the mark that a synchronisation stores in between is one that the hub has by now.
    known = list_subscriptions(hub.connection, publication.pubid)
    own = list_subscriptions(subscriber.connection, publication.pubid)
    at_subscriber = next((one for one in own if one.nickname == publication.publisher), None)
    if at_subscriber is None:
        raise unknown
    at_hub = next((one for one in known if one.subid == at_subscriber.subid), None)
    if at_hub is None:
        raise unknown
    articles = list_articles(hub.connection, publication.pubid)
    return Pairing(publication, articles, at_hub, at_subscriber, read_nickname(hub.connection))


def require_ready(hub: Node, subscriber: Node, pairing: Pairing) -> None:
    """Raise unless the two nodes can synchronise.

    Raises `NodeCopied`, `SubscriptionExpired`, `NodeRestored`, `MergedTableAltered`, `FiltersChanged`,
    `StoredFilterRefused`.
    """
    _require_originals(hub, subscriber)
    _require_unexpired(hub, pairing)
    _require_met(subscriber, pairing)
    _require_whole(hub, "the publisher", pairing)
    _require_whole(subscriber, pairing.at_hub.subscriber, pairing)
    _require_filters(subscriber, pairing)


def require_same_ends(hub: Node, subscriber: Node, pairing: Pairing) -> None:
    """Raise unless both nodes are those that synchronised last. Raises `NodeCopied`, `NodeRestored`."""
    _require_originals(hub, subscriber)
    _require_met(subscriber, pairing)


def require_original(node: Node, *, is_sure: bool = True) -> None:
    """Raise `NodeCopied` if the database that a node was copied from exists, or with `is_sure=False`, may exist.

    Of a copy and its original on different servers, the first to synchronise continues: the marks stop the other one.
    """
    original = node.tables.find_original()
    if original is not None and (original.is_here or not is_sure):
        raise NodeCopied(original.copy, original.description)


def has_met(subscriber: Node, pairing: Pairing) -> bool:
    """Whether both ends have each other's mark: neither was restored from a backup or is a copy of another."""
    is_same = read_nickname(subscriber.connection) == pairing.at_hub.nickname
    return is_same and pairing.at_subscriber.state in (pairing.at_hub.state, pairing.at_hub.next_state)


def _require_originals(hub: Node, subscriber: Node) -> None:
    for node in (hub, subscriber):
        require_original(node)


def _require_unexpired(hub: Node, pairing: Pairing) -> None:
    """Raise `SubscriptionExpired` after the retention period, by the hub's clock."""
    last = read_last_sync(hub.connection, pairing.at_hub.subid)
    expires = expiry(pairing.publication, last)
    if expires is not None and last is not None and expires < datetime.now(UTC):
        raise SubscriptionExpired(pairing.at_hub.subscriber, f"{last:%Y-%m-%d}", pairing.publication.retention_days)


def _require_met(subscriber: Node, pairing: Pairing) -> None:
    if not has_met(subscriber, pairing):
        raise NodeRestored(pairing.at_hub.subscriber)


def _require_whole(node: Node, name: str, pairing: Pairing) -> None:
    """Raise `MergedTableAltered` if triggers or columns are missing: changes would be lost, or every row refused."""
    for article in pairing.articles:
        damage = node.tables.find_damage(article)
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
