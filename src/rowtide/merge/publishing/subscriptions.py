"""Add subscriptions with their initial snapshot, and drop them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import uuid4

from rowtide.merge.articles import (
    PUBLISHER_PRIORITY,
    Article,
    Partition,
    PartitionOptions,
    Publication,
    SubscriberType,
    Subscription,
)
from rowtide.merge.catalogue import (
    find_publication,
    get_publication,
    hub_priority_of,
    list_articles,
    list_publications,
    put_article,
    put_publication,
    read_nickname,
    read_purged,
    renew_nickname,
    select_hub_priority,
    set_definition,
    set_publisher,
    set_purged,
)
from rowtide.merge.errors import (
    MergeSubscriptionExists,
    MergeSubscriptionUnknown,
    NodeBusy,
    NodeRestored,
    PriorityRefused,
    SubscriberHasTable,
)
from rowtide.merge.nodes.node import Enumeration, Node
from rowtide.merge.nodes.table_parts import Omission
from rowtide.merge.partitions.chains import link_members
from rowtide.merge.partitions.filters import RowFilter, bind_articles, require_values
from rowtide.merge.partitions.partition_membership import (
    add_members,
    add_partition,
    drop_unused_partitions,
    list_subscribers,
    remove_all_members,
)
from rowtide.merge.progress import (
    list_subscriptions,
    put_subscription,
    remove_retries_of,
    remove_subscription,
    set_subscription,
)
from rowtide.merge.publishing.publications import forget_publication
from rowtide.merge.publishing.schema_changes import notice, read_version
from rowtide.merge.publishing.vertical_partitions import restrict
from rowtide.merge.row_hashes import BATCH_ROWS, HashBatch, drop_hashes
from rowtide.merge.session.exchange import Attempt, taken
from rowtide.merge.session.identity_ranges import forget_ranges, give_ranges, require_fit
from rowtide.merge.session.pairing import Pairing, has_met, require_original
from rowtide.merge.session.receiving import SubscriberReceiver
from rowtide.merge.versions.changes import Row, Write

_NO_NODE = 0
"""The nickname of no node."""
SnapshotProgress = Callable[[str, int], None]
"""Called with an article and the number of its rows that are copied."""


def add_subscription(
    hub: Node,
    subscriber: Node,
    publication_name: str,
    subscriber_name: str,
    *,
    subscriber_type: SubscriberType = SubscriberType.CLIENT,
    priority: float = 0.0,
    partition: Partition | None = None,
    on_progress: SnapshotProgress = lambda _article, _rows: None,
    on_omission: Callable[[Omission], None] = lambda _omission: None,
) -> Subscription:
    """Subscribe a database: create and fill its tables (SQL Server: sp_addmergesubscription, automatic).

    `partition` gives the values that filters use; `on_omission` is called with each part of the publisher's tables that
    the subscriber's database does not have. The subscriber is filled in one transaction; a repeat completes an
    interrupted call. With partition option 3, the partition's earlier subscriber loses its subscription. Raises
    `MergePublicationUnknown`, `MergeSubscriptionExists`, `SubscriberHasTable`, `PartitionValueMissing`,
    `IdentityRangeUnfit`, `PriorityRefused`.
    """
    publication = get_publication(hub.connection, publication_name)
    notice(hub, publication)
    subscriber.tables.prepare()
    if find_publication(subscriber.connection, publication_name) is not None:
        raise MergeSubscriptionExists(subscriber_name, publication_name)
    articles, schema = list_articles(hub.connection, publication.pubid), read_version(hub.connection, publication)
    require_fit(hub, subscriber, publication, articles)
    shared = _find_shared(subscriber, publication, articles)
    for article in articles:
        if article not in shared and subscriber.tables.is_there(article):
            raise SubscriberHasTable(article.qualified_name)
    (found,) = hub.read_together(select_hub_priority(publication_name))
    hub_priority = hub_priority_of(found)
    if subscriber_type is SubscriberType.SERVER and not 0 <= priority < hub_priority:
        raise PriorityRefused(subscriber_name, priority, publication_name, hub_priority)
    chosen = choose_partition(publication, articles, partition or Partition())
    nickname = read_nickname(subscriber.connection)
    subscription = Subscription(
        subid=str(uuid4()),
        pubid=publication.pubid,
        subscriber=subscriber_name,
        nickname=nickname,
        subscriber_type=subscriber_type,
        priority=priority,
        state=secrets.token_hex(16),
        partition=chosen,
        schema_version=schema.version,
        schema_guid=schema.guid,
    )
    with hub.transaction():
        for begun in list_subscriptions(hub.connection, publication.pubid):
            if begun.subscriber == subscriber_name or begun.nickname == nickname:
                remove_subscription(hub.connection, begun.subid)
        enter_partition(hub, articles, subscription)
    with subscriber.transaction():
        with hub.enumerating() as enumeration:
            snapshot = Snapshot(
                enumeration, articles, bind_articles(articles, chosen), shared, subscriber_type, hub_priority
            )
            generation, members = enumeration.generation, snapshot.members()
            at_subscriber = replace(subscription, nickname=publication.publisher, received=generation)
            omissions = _fill(hub, subscriber, publication, snapshot, on_progress)
            put_subscription(subscriber.connection, at_subscriber)
            for article in shared:
                _complete(subscriber, at_subscriber, snapshot, article)
        hold(hub, nickname, members, generation)
    with hub.transaction():
        set_subscription(hub.connection, subscription.subid, sentgen=generation)
    give_ranges(hub, subscriber, publication, articles, subscription)
    for omission in omissions:
        on_omission(omission)
    return replace(subscription, sent=generation)


def _find_shared(subscriber: Node, publication: Publication, articles: Sequence[Article]) -> Sequence[Article]:
    """Return the articles whose tables the subscriber has from another publication of the same publisher.

    Both have all rows: which rows of a filtered table belong here depends on one publication alone.
    """
    known = {
        article.nickname: article
        for other in list_publications(subscriber.connection)
        if other.publisher == publication.publisher
        for article in list_articles(subscriber.connection, other.pubid)
    }
    return [
        article
        for article in articles
        if article.nickname in known and not (article.is_filtered or known[article.nickname].is_filtered)
    ]


def _complete(subscriber: Node, subscription: Subscription, snapshot: Snapshot, article: Article) -> None:
    """Bring a shared table to the snapshot's state, in the caller's transaction; the subscriber's own changes stay.

    Raises `RowsRefused`.
    """
    receiver = SubscriberReceiver(
        subscriber,
        subscription,
        subscription.nickname,
        "",
        {},
        is_upload=False,
        hub_priority=snapshot.hub_priority,
    )
    for batch in snapshot.rows(article):
        changes = snapshot.enumeration.again(article, [rowguid for rowguid, _ in batch])
        (received,) = receiver.receive([(article, changes)], Attempt.FIRST)
        for refused in received.refused:
            raise refused.error


def reinitialize(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    *,
    is_uploaded: bool = False,
    on_progress: SnapshotProgress = lambda _article, _rows: None,
) -> None:
    """Copy a subscriber's tables again; its own changes are lost (SQL Server: sp_reinitmergesubscription).

    If they were uploaded before, later ones are not lost: `NodeBusy` is raised. The subscriber is filled in one
    transaction; a repeat completes an interrupted call. A node that was restored or copied gets a new nickname: its
    change numbers may have been used already.
    """
    for node in (hub, subscriber):
        node.tables.record_place()
    subid, mark = pairing.at_hub.subid, secrets.token_hex(16)
    session = max(pairing.at_hub.session, pairing.at_subscriber.session) + 1
    with hub.transaction():
        set_subscription(hub.connection, subid, session=session)
        for article in pairing.articles:
            if hub.tables.find_damage(article) is not None:
                _track_again(hub, article)
    begun = {
        "session": session,
        "replicastate": mark,
        "next_replicastate": None,
        "settledgen": 0,
        "waitinggen": None,
    }
    with subscriber.transaction():
        if is_uploaded and subscriber.rebuilt.is_logged():
            raise NodeBusy(pairing.at_hub.subscriber, "rows were changed after the upload")
        if not has_met(subscriber, pairing):
            renew_nickname(subscriber.connection)
        nickname = read_nickname(subscriber.connection)
        with hub.enumerating() as enumeration:
            snapshot = Snapshot(
                enumeration,
                pairing.articles,
                pairing.filters,
                subscriber_type=pairing.at_hub.subscriber_type,
                hub_priority=pairing.hub_priority,
            )
            generation, members = enumeration.generation, snapshot.members()
            _refill(subscriber, pairing.publication.pubid, pairing.hub, snapshot, on_progress)
        hold(hub, nickname, members, generation)
        _lose_subscriptions(subscriber, pairing.articles)
        remove_retries_of(subscriber.connection, pairing.hub)
        set_publisher(subscriber.connection, pairing.publication.pubid, pairing.hub)
        set_subscription(subscriber.connection, subid, replnickname=pairing.hub, sentgen=0, recgen=generation, **begun)
    with hub.transaction():
        remove_retries_of(hub.connection, pairing.at_hub.nickname)
        set_subscription(
            hub.connection,
            subid,
            replnickname=nickname,
            sentgen=generation,
            recgen=0,
            last_sync_date=datetime.now(UTC),
            **begun,
        )
    give_ranges(hub, subscriber, pairing.publication, pairing.articles, pairing.at_hub)


def _track_again(hub: Node, article: Article) -> None:
    """Recreate lost triggers, and mark all subscriptions to the table for reinitialization.

    Changes made without the triggers are unknown.
    """
    hub.tables.track(article)
    _lose_subscriptions(hub, [article])


def _lose_subscriptions(hub: Node, lost: Sequence[Article]) -> None:
    """Mark the subscriptions to tables whose metadata is gone for reinitialization, in the caller's transaction.

    They are those of this node's own publications.
    """
    own, nicknames = read_nickname(hub.connection), {article.nickname for article in lost}
    for publication in list_publications(hub.connection):
        listed = {each.nickname for each in list_articles(hub.connection, publication.pubid)}
        for subscription in list_subscriptions(hub.connection, publication.pubid):
            if publication.publisher == own and listed & nicknames:
                mark = secrets.token_hex(16)
                set_subscription(hub.connection, subscription.subid, replicastate=mark, next_replicastate=None)


def drop_subscription(hub: Node, subscriber: Node | None, publication_name: str, subscriber_name: str) -> None:
    """End a subscription at both ends; its tables and rows stay (SQL Server: sp_dropmergesubscription).

    Without a subscriber node, only at the hub. Raises `MergePublicationUnknown`, `MergeSubscriptionUnknown`; and
    `NodeCopied`, `NodeRestored`, because a copy of the hub must not end the original's subscription.
    """
    publication = get_publication(hub.connection, publication_name)
    if subscriber is not None:
        require_original(hub, is_sure=False)
    known = list_subscriptions(hub.connection, publication.pubid)
    found = [one for one in known if one.subscriber == subscriber_name]
    own = None
    if subscriber is not None and subscriber.tables.is_prepared():
        own = find_publication(subscriber.connection, publication_name)
    if not found and own is None:
        raise MergeSubscriptionUnknown(subscriber_name, publication_name)
    if subscriber is not None and own is not None:
        at_subscriber = list_subscriptions(subscriber.connection, own.pubid)
        _require_parted_alike(hub, subscriber, publication, found, at_subscriber)
        with subscriber.transaction():
            for one in at_subscriber:
                remove_subscription(subscriber.connection, one.subid)
                forget_ranges(subscriber.connection, one.subid)
            forget_publication(subscriber, own)
    with hub.transaction():
        for one in found:
            remove_subscription(hub.connection, one.subid)
            forget_ranges(hub.connection, one.subid)
            remove_retries_of(hub.connection, one.nickname)
            remove_all_members(hub.connection, one.nickname, list_articles(hub.connection, publication.pubid))
        drop_unused_partitions(hub.connection, publication.pubid)


def _require_parted_alike(
    hub: Node,
    subscriber: Node,
    publication: Publication,
    at_hub: Sequence[Subscription],
    at_subscriber: Sequence[Subscription],
) -> None:
    """Raise `NodeRestored` if both ends have the subscription and their marks do not match."""
    ours = read_nickname(hub.connection)
    ends = {one.subid: one for one in at_subscriber}
    for one in at_hub:
        if one.subid in ends and not has_met(subscriber, Pairing(publication, (), one, ends[one.subid], ours)):
            raise NodeRestored(one.subscriber)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows that a subscriber starts with: all rows of the articles, or its partition of the filtered ones.

    `shared` are those whose tables it has from another publication.
    """

    enumeration: Enumeration
    articles: Sequence[Article]
    filters: Mapping[int, RowFilter]
    shared: Sequence[Article] = ()
    subscriber_type: SubscriberType = SubscriberType.CLIENT
    hub_priority: float = PUBLISHER_PRIORITY

    @property
    def new_articles(self) -> Sequence[Article]:
        """The articles whose tables the subscriber does not have."""
        return [article for article in self.articles if article not in self.shared]

    def there(self, article: Article) -> Article:
        """Return an article as the subscriber has it."""
        return article.at_subscriber(self.subscriber_type)

    def rows(self, article: Article) -> Iterator[Sequence[tuple[str, Row]]]:
        if article.is_upload_only:
            return iter(())
        return self.enumeration.rows(article, self.filters.get(article.nickname))

    def versions(self, article: Article, publisher: int) -> Iterator[Sequence[Write]]:
        """Yield the metadata to store for rows that have metadata at the hub, in batches.

        Each row keeps its own lineage: a change included in one row may not have reached another, because it waits at
        its node or was refused.
        """
        if article.is_upload_only or not self.there(article).is_tracked:
            return
        row_filter = self.filters.get(article.nickname)
        belonging = None
        if row_filter is not None:
            belonging = {rowguid for batch in self.enumeration.members(row_filter) for rowguid, _ in batch}
        for batch in self.enumeration.upserts(article, 0, _NO_NODE):
            there = (change for change in batch if belonging is None or change.rowguid in belonging)
            yield [taken(change, None, publisher, self.hub_priority)._replace(is_live=True) for change in there]

    def members(self) -> dict[Article, list[tuple[str, str | None]]]:
        """Return the rowguids of the filtered articles' rows, each with its parent's."""
        filtered = [(article, self.filters[article.nickname]) for article in self.articles if article.is_filtered]
        return link_members(
            {
                article: [pair for batch in self.enumeration.members(row_filter) for pair in batch]
                for article, row_filter in filtered
            }
        )


def hold(
    hub: Node, subscriber: int, members: Mapping[Article, Sequence[tuple[str, str | None]]], generation: int
) -> None:
    """Store the subscriber's partition membership at the hub before it receives the rows. Idempotent."""
    with hub.transaction():
        remove_all_members(hub.connection, subscriber, members)
        for article, rows in members.items():
            add_members(hub.connection, subscriber, article, rows, generation)


def choose_partition(publication: Publication, articles: Sequence[Article], given: Partition) -> Partition | None:
    """Return the given values that the filters use; None if no article is filtered."""
    if not any(article.is_filtered for article in articles):
        return None
    return require_values(publication, articles, given)


def enter_partition(hub: Node, articles: Sequence[Article], subscription: Subscription) -> None:
    """Write the subscription with its partition, in the caller's transaction."""
    number = None
    if subscription.partition is not None:
        number = take_partition(hub, articles, subscription, subscription.partition)
    put_subscription(hub.connection, subscription, partition_id=number)


def take_partition(hub: Node, articles: Sequence[Article], subscription: Subscription, partition: Partition) -> int:
    """Return the number of a partition for a subscription, in the caller's transaction.

    With partition option 3, the partition's earlier subscriber loses its subscription.
    """
    number = add_partition(hub.connection, subscription.pubid, partition, is_explicit=False)
    if any(article.partition_options is PartitionOptions.ONE_SUBSCRIBER for article in articles):
        for earlier in list_subscribers(hub.connection, number):
            if earlier != subscription.subid:
                remove_subscription(hub.connection, earlier)
    return number


def _fill(
    hub: Node, subscriber: Node, publication: Publication, snapshot: Snapshot, on_progress: SnapshotProgress
) -> Sequence[Omission]:
    """Create and fill all tables in the caller's transaction; later writes are tracked.

    Return what the tables do not have of the publisher's.
    """
    put_publication(subscriber.connection, publication)
    return fill_articles(hub, subscriber, publication, snapshot, on_progress)


def fill_articles(
    hub: Node,
    subscriber: Node,
    publication: Publication,
    snapshot: Snapshot,
    on_progress: SnapshotProgress = lambda _article, _rows: None,
    *,
    present: Sequence[Article] = (),
) -> Sequence[Omission]:
    """Create and fill the tables of a snapshot's articles in the caller's transaction; later writes are tracked.

    Tables of `present` exist, and may be referenced. Return what the tables do not have of the publisher's.
    """
    articles = (*snapshot.articles, *present)
    restricted = [(article, restrict(article, hub.tables.describe(article.qualified_name))) for article in articles]
    tables = [(article, described) for article, (described, _) in restricted]
    made = [unpublished for article, (_, unpublished) in restricted if article not in present]
    omissions = [omission for unpublished in made for omission in unpublished]
    there = (*snapshot.shared, *present)
    omissions += subscriber.tables.make(tables, present=there, refers_later=bool(present))
    subscriber.defer_constraints()
    for article in snapshot.new_articles:
        _load(subscriber, article, snapshot, on_progress)
    for article in snapshot.shared:
        purged = read_purged(subscriber.connection, article.nickname)
        put_at_subscriber(subscriber, publication, snapshot.there(article), purged)
    for article in snapshot.new_articles:
        for versions in snapshot.versions(article, publication.publisher):
            subscriber.write(article, versions)
        put_at_subscriber(subscriber, publication, snapshot.there(article), snapshot.enumeration.included(article))
        subscriber.tables.track(snapshot.there(article))
    if present:
        subscriber.tables.refer(tables, present=there)
    return omissions


def put_at_subscriber(subscriber: Node, publication: Publication, article: Article, purged_lineage: bytes) -> None:
    """Write an article at a subscriber, in the caller's transaction."""
    connection = subscriber.connection
    put_article(connection, publication.pubid, article, purged_lineage=purged_lineage, preserve_rowguidcol=True)


def _refill(subscriber: Node, pubid: str, publisher: int, snapshot: Snapshot, on_progress: SnapshotProgress) -> None:
    """Fill the tables again, in the caller's transaction; rows of upload-only articles stay with their changes."""
    articles = [article for article in snapshot.articles if not article.is_upload_only]
    for article in set(snapshot.articles) - set(articles):
        set_definition(subscriber.connection, pubid, snapshot.there(article))
        subscriber.tables.track(snapshot.there(article))
    subscriber.defer_constraints()
    for article in reversed(articles):
        subscriber.tables.untrack(article)
        subscriber.tables.clear(article)
    for article in articles:
        _load(subscriber, article, snapshot, on_progress)
    for article in articles:
        for versions in snapshot.versions(article, publisher):
            subscriber.write(article, versions)
        set_definition(subscriber.connection, pubid, snapshot.there(article))
        set_purged(subscriber.connection, article.nickname, snapshot.enumeration.included(article))
        subscriber.tables.track(snapshot.there(article))


def _load(subscriber: Node, article: Article, snapshot: Snapshot, on_progress: SnapshotProgress) -> None:
    """Fill an empty table, and store the hashes of its rows, in the caller's transaction."""
    batches = [HashBatch(article)]

    def told() -> Iterator[Sequence[tuple[str, Row]]]:
        rows = 0
        for batch in snapshot.rows(article):
            yield batch
            if len(batches[-1]) >= BATCH_ROWS:
                batches.append(HashBatch(article))
            batches[-1].add(batch)
            rows += len(batch)
            on_progress(article.name, rows)

    subscriber.tables.load(article, told())
    drop_hashes(subscriber.connection, article.nickname)
    for hashes in batches:
        hashes.put(subscriber.connection)
