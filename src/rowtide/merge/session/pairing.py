"""A hub and a subscriber that know each other, and the conditions under which they may synchronise.

Both ends store a mark that changes with each synchronisation. An end that lacks the other's mark was restored from a
backup, or is a copy.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Select, bindparam, false, or_, select

from rowtide.core.values import frozen
from rowtide.merge.articles import PUBLISHER_PRIORITY, Article, Publication, Subscription
from rowtide.merge.catalogue import (
    SELECT_HUB_PRIORITY,
    hub_priority_of,
    list_articles,
    read_nickname,
    read_publication,
    select_articles,
)
from rowtide.merge.definitions import articles, publications, schema_changes, subscriptions
from rowtide.merge.errors.nodes import GenerationRefused, NodeCopied, NodeRestored
from rowtide.merge.errors.publishing import (
    DefinitionsDiffer,
    DirectionsChanged,
    MergedTableAltered,
    MergePublicationUnknown,
    SchemaAhead,
)
from rowtide.merge.errors.subscribing import MergeSubscriptionUnknown, SubscriptionExpired, UploadNotComparable
from rowtide.merge.exchange_state import (
    SELECT_NODE,
    list_subids,
    list_subscriptions,
    purge_of,
    read_subscription,
    select_subscriptions,
)
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import NOT_THERE, Examination, Original, UnsentColumn
from rowtide.merge.partitions.filters import RowFilter, bind_articles
from rowtide.merge.session.messages import DeviceState
from rowtide.merge.session.purge import expiry
from rowtide.merge.session.spool import ArticleMapping, map_articles


@frozen
class SchemaVersion:
    """The last change of a publication's schema, with its guid; version 0 before the first."""

    version: int
    guid: str | None


@frozen
class Pairing:
    """A hub and a subscriber; each stores its own `Subscription` of the other.

    `articles` are the hub's, `known` the subscriber's definitions of them, `leaving` those that the hub has dropped and
    keeps until each subscriber has uploaded what it changed. `schema` is the last schema change of the hub,
    `hub_priority` the weight of its own changes in conflicts, `purged` the generation up to which it keeps no metadata.
    """

    publication: Publication
    articles: tuple[Article, ...]
    at_hub: Subscription
    at_subscriber: Subscription
    hub: int
    known: tuple[Article, ...] = ()
    leaving: tuple[Article, ...] = ()
    schema: SchemaVersion = SchemaVersion(0, None)
    hub_priority: float = PUBLISHER_PRIORITY
    purged: int = 0

    @property
    def mappings(self) -> Mapping[int, ArticleMapping]:
        """What carries the subscriber's changes to the hub's definitions, by article; in the subscriber's order."""
        return map_articles(self.known, (*self.articles, *self.leaving))

    @property
    def differing(self) -> tuple[str, ...]:
        """The articles that the subscriber defines otherwise than the hub."""
        known = {article.nickname: article for article in self.known}
        published = {article.nickname: article for article in self.there}
        nicknames = dict.fromkeys([*published, *known])
        differing = (each for each in nicknames if known.get(each) != published.get(each))
        return tuple((published.get(each) or known[each]).qualified_name for each in differing)

    @property
    def there(self) -> tuple[Article, ...]:
        """The articles as the subscriber has them."""
        return tuple(article.at_subscriber(self.at_hub.subscriber_type) for article in self.articles)

    @property
    def going_down(self) -> tuple[Article, ...]:
        """The articles of which the subscriber receives changes."""
        return tuple(article for article in self.articles if not article.is_upload_only)

    @property
    def filters(self) -> dict[int, RowFilter]:
        """The filters of the subscriber's partition, by article; unfiltered articles are omitted."""
        return bind_articles(self.articles, self.at_hub.partition, realigns=self.publication.realigns)


@frozen
class PublishedHub:
    """What a hub says of a publication, and of some subscriptions to it; see `Pairing`."""

    publication: Publication
    subscriptions: tuple[Subscription, ...]
    published: tuple[Article, ...]
    leaving: tuple[Article, ...]
    hub: int
    schema: SchemaVersion
    hub_priority: float
    purged: int

    def pair(self, at_hub: Subscription, at_subscriber: Subscription, known: tuple[Article, ...]) -> Pairing:
        """Return the pairing with a subscriber."""
        return Pairing(
            self.publication,
            self.published,
            at_hub,
            at_subscriber,
            self.hub,
            known=known,
            leaving=self.leaving,
            schema=self.schema,
            hub_priority=self.hub_priority,
            purged=self.purged,
        )


def pair(hub: Node, subscriber: Node, publication_name: str, subscriber_name: str) -> Pairing:
    """Return what two nodes store about each other. Raises `MergePublicationUnknown`, `MergeSubscriptionUnknown`."""
    is_prepared = subscriber.tables.is_prepared()
    subids = list_subids(subscriber.connection, publication_name) if is_prepared else ()
    # Before the rest of the subscriber's: the mark that a synchronisation stores in between is one that the hub has.
    found = read_hub(hub, publication_name, subids)
    unknown = MergeSubscriptionUnknown(subscriber_name, publication_name)
    if not subids:
        raise unknown
    own = list_subscriptions(subscriber.connection, found.publication.pubid)
    at_hub = {one.subid: one for one in found.subscriptions}
    at_subscriber = next((one for one in own if one.subid in at_hub), None)
    if at_subscriber is None:
        raise unknown
    known = list_articles(subscriber.connection, found.publication.pubid)
    return found.pair(at_hub[at_subscriber.subid], at_subscriber, known)


def read_hub(hub: Node, publication_name: str, subids: Sequence[str]) -> PublishedHub:
    """Return what a hub says of a publication and of some subscriptions. Raises `MergePublicationUnknown`."""
    known, named, listed, node, schema, priority = hub.read_together(
        _subscriptions_of(len(subids)),
        *_OF_HUB,
        values={"of_name": publication_name, **{f"subid_{place}": subid for place, subid in enumerate(subids)}},
    )
    if not named:
        raise MergePublicationUnknown(publication_name)
    decoded = [Article.decode(row["definition"]) for row in listed]
    return PublishedHub(
        read_publication(named[0]),
        tuple(map(read_subscription, known)),
        tuple(article for article in decoded if not article.is_dropped),
        tuple(article for article in decoded if article.is_dropped),
        int(node[0]["nickname"]),
        SchemaVersion(schema[0]["schemaversion"], schema[0]["schemaguid"]) if schema else SchemaVersion(0, None),
        hub_priority_of(priority),
        purge_of(node[0]).generation,
    )


@lru_cache(maxsize=64)
def fingerprint_of(definitions: tuple[Article, ...]) -> str:
    """Return a digest of definitions, by which a hub tells whether a device has its own ones."""
    listed = sorted(definitions, key=lambda article: article.nickname)
    return hashlib.sha256("\n".join(article.encode() for article in listed).encode()).hexdigest()[:32]


HUB = "the publisher"
"""What messages call the hub."""
UNSENT_PURGED = "it had expired, and the publisher has purged metadata that it was not sent"
"""Why a subscription cannot continue although its retention has not passed."""

_PUBID = select(publications.c.pubid).where(publications.c.name == bindparam("of_name")).scalar_subquery()
_OF_HUB: tuple[Select[Any], ...] = (
    select(publications).where(publications.c.name == bindparam("of_name")),
    select_articles(articles.c.pubid == _PUBID),
    SELECT_NODE,
    select(schema_changes.c.schemaversion, schema_changes.c.schemaguid)
    .where(schema_changes.c.pubid == _PUBID)
    .order_by(schema_changes.c.schemaversion.desc())
    .limit(1),
    SELECT_HUB_PRIORITY,
)
"""A publication `of_name`, its articles, the hub, the last schema change and the hub's priority."""


@lru_cache(maxsize=8)
def _subscriptions_of(count: int) -> Select[Any]:
    """Return the query of those of a publication's subscriptions that have one of some numbers."""
    asked = or_(false(), *(subscriptions.c.subid == bindparam(f"subid_{place}") for place in range(count)))
    return select_subscriptions(asked & (subscriptions.c.pubid == _PUBID))


def require_hub_ready(hub: Node, pairing: Pairing, device: DeviceState) -> Mapping[int, Sequence[str]]:
    """Raise unless a hub can synchronise with a device; record where the hub is.

    Return the hub's columns that are not sent, by article. Raises `NodeCopied`, `SubscriptionExpired`, `NodeRestored`,
    `DirectionsChanged`, `SchemaAhead`, `DefinitionsDiffer`, `MergedTableAltered`, `StoredFilterRefused`,
    `OwnersDiffer`, `OwnerNotHeld`, `DeferredCodeOfOwner`, `UploadNotComparable`.
    """
    at_hub = hub.tables.examine(pairing.articles)
    require_original_of(at_hub.original)
    _require_unexpired(pairing)
    require_met(device, pairing)
    _require_directed_alike(pairing)
    require_known_schema(hub, pairing)
    _require_same_schema(pairing, at_hub)
    for article in pairing.articles:
        _require_whole(HUB, article, _find_damage(hub, article, at_hub))
        _require_whole(pairing.at_hub.subscriber, article, device.damages.get(article.nickname))
    hub.tables.require_owners(pairing.articles)
    if not at_hub.is_recorded:
        hub.tables.record_identity()
    return at_hub.unsent


def require_known_schema(hub: Node, pairing: Pairing) -> None:
    """Raise `SchemaAhead` if the subscriber has followed a schema change that the hub does not have."""
    version, guid = pairing.at_subscriber.schema_version, pairing.at_subscriber.schema_guid
    if version == 0 or SchemaVersion(version, guid) == pairing.schema:
        return
    c = schema_changes.c
    of_version = (c.pubid == pairing.publication.pubid) & (c.schemaversion == version)
    if hub.connection.execute(select(c.schemaguid).where(of_version)).scalar() != guid:
        raise SchemaAhead(pairing.at_hub.subscriber, version, pairing.publication.name)


def require_same_schema(hub: Node, pairing: Pairing) -> None:
    """Raise `DefinitionsDiffer` if the hub's tables were altered, or the subscriber has not followed yet."""
    _require_same_schema(pairing, hub.tables.examine(pairing.articles))


def unsent_columns(
    pairing: Pairing, at_hub: Mapping[int, Sequence[str]], at_subscriber: Mapping[int, Sequence[str]]
) -> list[UnsentColumn]:
    """Return the columns that one node's tables have and that are not sent; those of each node are by article."""
    ends = (("the publisher", at_hub), (pairing.at_hub.subscriber, at_subscriber))
    return [
        UnsentColumn(article.qualified_name, name, node)
        for article in pairing.articles
        for node, unsent in ends
        # An article with a list of columns leaves the others out by choice.
        if not (article.vertical_partition and unsent is at_hub)
        for name in unsent.get(article.nickname, ())
    ]


def _require_same_schema(pairing: Pairing, at_hub: Examination) -> None:
    altered = [
        article.qualified_name
        for article in pairing.articles
        if at_hub.fingerprints.get(article.nickname) not in (None, article.fingerprint)
    ]
    if differing := tuple(dict.fromkeys([*altered, *pairing.differing])):
        raise DefinitionsDiffer(pairing.at_hub.subscriber, ", ".join(differing))


def require_in_step(hub: Node, subscriber: Node, pairing: Pairing) -> None:
    """Raise unless the subscriber continues where it stopped; write nothing.

    Raises `NodeCopied`, `SubscriptionExpired`, `UploadNotComparable`, `NodeRestored`, `DirectionsChanged`,
    `DefinitionsDiffer`, `MergedTableAltered`.
    """
    require_original(subscriber)
    require_hub_in_step(hub, pairing, read_nickname(subscriber.connection))
    require_tables(subscriber, pairing.at_hub.subscriber, pairing.articles)


def require_hub_in_step(hub: Node, pairing: Pairing, nickname: int) -> None:
    """Raise unless a hub continues where it stopped with a subscriber of some nickname; see `require_in_step`."""
    require_original(hub)
    _require_unexpired(pairing)
    _require_met(nickname, pairing)
    _require_directed_alike(pairing)
    require_same_schema(hub, pairing)
    require_tables(hub, HUB, pairing.articles)


def require_same_ends(hub: Node, subscriber: Node, pairing: Pairing) -> None:
    """Raise unless both nodes are those that synchronised last. Raises `NodeCopied`, `NodeRestored`."""
    for node in (hub, subscriber):
        require_original(node)
    _require_met(read_nickname(subscriber.connection), pairing)


def require_original(node: Node, *, is_sure: bool = True) -> None:
    """Raise `NodeCopied` if the database that a node was copied from exists, or with `is_sure=False`, may exist.

    Of a copy and its original on different servers, the first to synchronise continues: the marks stop the other one.
    """
    require_original_of(node.tables.find_original(), is_sure=is_sure)


def require_original_of(original: Original | None, *, is_sure: bool = True) -> None:
    """Raise `NodeCopied` for the original of a node that was found; see `require_original`."""
    if original is not None and (original.is_here or not is_sure):
        raise NodeCopied(original.copy, original.description)


def has_met(nickname: int, pairing: Pairing) -> bool:
    """Whether both ends have each other's mark: neither was restored from a backup or is a copy of another.

    `nickname` is the subscriber's own. A session by requests may wait long for its acknowledgement: until then a device
    that does not know the mark which was proposed for it is a copy of the one that has proposed it.
    """
    here, there = pairing.at_hub, pairing.at_subscriber
    if nickname != here.nickname:
        return False
    if there.state == here.state and is_proposed(here.next_state):
        return find_proposal(there) == here.next_state
    return there.state in (here.state, here.next_state)


_PROPOSED = "r"
OWED = "+"
"""Follows the proposed mark of a device that owes the acknowledgement of the session before."""


def propose_mark() -> str:
    """Return a mark for a session by requests; others are of hexadecimal digits alone."""
    return _PROPOSED + secrets.token_hex(16)


def is_proposed(mark: str | None) -> bool:
    """Whether a mark was proposed by a device."""
    return mark is not None and re.fullmatch(f"{_PROPOSED}[0-9a-f]{{32}}", mark) is not None


def find_proposal(own: Subscription) -> str | None:
    """Return the mark that a device has proposed for a session that it has not confirmed yet."""
    proposal = None if own.next_state in (None, own.state) else (own.next_state or "").removesuffix(OWED)
    return proposal if is_proposed(proposal) else None


def _require_unexpired(pairing: Pairing) -> None:
    """Raise `SubscriptionExpired` after the retention period, by the hub's clock, or if metadata are purged since."""
    last = pairing.at_hub.last_sync
    expires = expiry(pairing.publication, last)
    if expires is not None and last is not None and expires < datetime.now(UTC):
        raise SubscriptionExpired(pairing.at_hub.subscriber, f"{last:%Y-%m-%d}", pairing.publication.retention_days)
    # It had expired when the hub purged, and has not by now: the clock was wrong, or the retention is longer. Deletes
    # that it was not sent have no tombstones any more, and its own copies of these rows would live on.
    if pairing.at_hub.sent < pairing.purged:
        raise UploadNotComparable(pairing.at_hub.subscriber, UNSENT_PURGED)


def require_met(device: DeviceState, pairing: Pairing) -> None:
    """Raise unless a device is the one that synchronised last. Raises `NodeRestored`, `GenerationRefused`."""
    if device.hub != pairing.hub:
        raise NodeRestored(pairing.at_hub.subscriber)
    _require_met(device.nickname, pairing)


def _require_met(nickname: int, pairing: Pairing) -> None:
    if not has_met(nickname, pairing):
        raise NodeRestored(pairing.at_hub.subscriber)
    here, there = pairing.at_hub, pairing.at_subscriber
    if there.session > here.session:
        reason = f"it is in session {there.session}, and the publisher has begun {here.session}"
        raise GenerationRefused(here.subscriber, reason)


def _find_damage(node: Node, article: Article, examination: Examination) -> str | None:
    damage = examination.damages.get(article.nickname)
    if damage is not None and node.tables.attach_partitions(article):
        return node.tables.find_damage(article)
    return damage


def find_damages(node: Node, articles: Sequence[Article], examination: Examination) -> dict[int, str]:
    """Return which tables of a node have lost triggers or columns, by nickname; new partitions are attached."""
    found = ((article.nickname, _find_damage(node, article, examination)) for article in articles)
    return {nickname: damage for nickname, damage in found if damage is not None}


def find_lost(node: Node, article: Article) -> str | None:
    """Return which triggers a table has lost, and whether it has lost its rowguids; None if none and not.

    Other columns are not checked: to drop them is a schema change, which can be followed.
    """
    tracked = article.only(())
    damage = node.tables.find_damage(tracked)
    if damage is not None and node.tables.attach_partitions(article):
        return node.tables.find_damage(tracked)
    return damage


def require_tracked(node: Node, name: str, articles: Sequence[Article]) -> None:
    """Raise `MergedTableAltered` if changes of a node's tables are not tracked any more."""
    for article in articles:
        _require_whole(name, article, find_lost(node, article))


def _require_whole(name: str, article: Article, damage: str | None) -> None:
    """Raise `MergedTableAltered` if triggers or columns are missing: changes would be lost, or every row refused."""
    if damage is not None:
        raise MergedTableAltered(name, article.qualified_name, damage)


def require_tables(node: Node, name: str, articles: Sequence[Article]) -> None:
    """Raise `MergedTableAltered` if a table was dropped or renamed: there is nothing to read then."""
    damages = node.tables.examine(articles).damages
    for article in articles:
        if damages.get(article.nickname) == NOT_THERE:
            raise MergedTableAltered(name, article.qualified_name, NOT_THERE)


def _require_directed_alike(pairing: Pairing) -> None:
    """Raise `DirectionsChanged` if the subscriber was filled by other upload options."""
    known = {article.name: article for article in pairing.known}
    changed = [
        article.qualified_name
        for article in pairing.there
        if article.name in known and not article.is_directed_as(known[article.name])
    ]
    if changed:
        raise DirectionsChanged(pairing.at_hub.subscriber, ", ".join(changed))
