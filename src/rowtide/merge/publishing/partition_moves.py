"""Move a subscriber to another partition (SQL Server: sp_changemergesubscription, hostname).

A partition changes with the values that its subscriber gives, or with the filters of its publication.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rowtide.merge.articles import Article, Partition
from rowtide.merge.errors.subscribing import PartitionUnused
from rowtide.merge.exchange_state import set_subscription
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.belonging import link_members
from rowtide.merge.partitions.candidates import CandidateMemberships
from rowtide.merge.partitions.filters import bind_articles, require_values
from rowtide.merge.partitions.partition_membership import add_members, drop_unused_partitions, list_members, mark
from rowtide.merge.publishing.subscriptions import take_partition
from rowtide.merge.session.pairing import Pairing

Parents = Mapping[str, str | None]
"""Rows of an article, each with its parent's rowguid."""


def require_partition(pairing: Pairing, given: Partition) -> Partition:
    """Return the given values that the filters use. Raises `PartitionUnused`, `PartitionValueMissing`."""
    if not any(article.is_filtered for article in pairing.articles):
        raise PartitionUnused(pairing.publication.name)
    return require_values(pairing.publication, pairing.articles, given)


def move(hub: Node, pairing: Pairing, partition: Partition) -> None:
    """Give a subscription another partition; its next synchronisation delivers the rows. Idempotent.

    One transaction at the hub marks what leaves and what enters. Each synchronisation evaluates marked rows until the
    subscriber has confirmed them, so the rest of the move may be interrupted anywhere. A synchronisation that is
    running ends with `SessionReplaced`. Raises `SessionReplaced`.
    """
    subscription = pairing.at_hub
    filtered = [article for article in pairing.articles if article.is_filtered]
    filters = bind_articles(pairing.articles, partition)
    with hub.changes.enumerating() as enumeration:
        generation = enumeration.generation
        belonging = link_members(
            {
                article: [pair for batch in enumeration.members(filters[article.nickname]) for pair in batch]
                for article in filtered
            }
        )
    with hub.transaction():
        # Partition, members and session number change together: a synchronisation that still uses the former filters
        # finds itself replaced.
        hub.require_session(subscription)
        number = take_partition(hub, pairing.articles, subscription, partition)
        set_subscription(hub.connection, subscription.subid, partition_id=number, session=subscription.session + 1)
        for article, rows in belonging.items():
            _mark(hub, subscription.nickname, article, dict(rows), generation)
        drop_unused_partitions(hub.connection, pairing.publication.pubid)


def store_all_memberships(hub: Node, pairing: Pairing, articles: Iterable[Article]) -> None:
    """Store that a subscriber has all rows of articles, as it had while they had no filter. Idempotent."""
    for article in articles:
        with hub.changes.enumerating() as enumeration:
            rows = [(rowguid, None) for batch in enumeration.rows(replace(article, columns=())) for rowguid, _ in batch]
            generation = enumeration.generation
        with hub.transaction():
            add_members(hub.connection, pairing.at_hub.nickname, article, rows, generation)


def _mark(hub: Node, subscriber: int, article: Article, belonging: Parents, generation: int) -> None:
    known = list_members(hub.connection, subscriber, article)
    entering = [(rowguid, parent) for rowguid, parent in belonging.items() if rowguid not in known]
    marks = CandidateMemberships(
        entering=entering,
        relinked=[pair for pair in belonging.items() if known.get(pair[0], pair[1]) != pair[1]],
        leaving=[rowguid for rowguid in known if rowguid not in belonging],
    )
    mark(hub.connection, subscriber, article, marks, generation)
    # The next synchronisation evaluates marked rows, whether they were changed or not.
    mark(
        hub.connection,
        subscriber,
        article,
        CandidateMemberships(leaving=[rowguid for rowguid, _ in entering]),
        generation,
    )


def follow_filters(hub: Node, pairing: Pairing) -> None:
    """Move a subscriber to what the filters of its publisher select now, if they were changed; its rows come later."""
    known = {article.nickname: article for article in pairing.known}
    refiltered = [each for each in pairing.articles if each.nickname in known and not _is_filtered_alike(each, known)]
    if refiltered:
        # Before the subscriber has the new filters: until then a repeat does it again.
        store_all_memberships(hub, pairing, [each for each in refiltered if not known[each.nickname].is_filtered])
        move(hub, pairing, pairing.at_hub.partition or Partition())


def _is_filtered_alike(article: Article, known: Mapping[int, Article]) -> bool:
    return article.is_filtered_as(known[article.nickname])
