"""Add subscriptions with their initial snapshot, and drop them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from rowtide.core.values import frozen
from rowtide.merge import catalogue
from rowtide.merge.articles import Article, Partition, PartitionOptions, Publication, SubscriberType, Subscription
from rowtide.merge.errors import subscribing as errors
from rowtide.merge.errors.nodes import NodeBusy, NodeRestored
from rowtide.merge.exchange_state import (
    list_subscriptions,
    put_subscription,
    remove_retries_of,
    remove_subscription,
    set_subscription,
)
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.table_definitions import Omission
from rowtide.merge.partitions.filters import bind_articles, require_values
from rowtide.merge.partitions.partition_membership import (
    add_partition,
    drop_unused_partitions,
    list_subscribers,
    remove_all_members,
)
from rowtide.merge.publishing import snapshots
from rowtide.merge.publishing.prepared import PreparedTable, require_tables_fit
from rowtide.merge.publishing.publications import forget_publication
from rowtide.merge.publishing.requests import Existing, ExistingRows, ExistingSubscription, MergeSubscriptionRequest
from rowtide.merge.publishing.schema_changes import notice, read_version
from rowtide.merge.session.identity_ranges import forget_ranges, give_ranges, require_fit
from rowtide.merge.session.node_receiver import SubscriberReceiver
from rowtide.merge.session.pairing import Pairing, SchemaVersion, has_met, require_original
from rowtide.merge.session.receiver import Attempt


def add_subscription(
    hub: Node,
    subscriber: Node,
    request: MergeSubscriptionRequest,
) -> Subscription:
    """Subscribe a database: create and fill its tables (SQL Server: sp_addmergesubscription, automatic).

    The request's `subscriber` is the name that is stored. With an `ExistingSubscription`, tables that are there are
    taken over. The subscriber is filled in one transaction; a repeat completes an interrupted call. With partition
    option 3, the partition's earlier subscriber loses its subscription. Raises `MergePublicationUnknown`,
    `MergeSubscriptionExists`, `SubscriberHasTable`, `PartitionValueMissing`, `IdentityRangeUnfit`, `PriorityRefused`,
    `AddressTaken`, `CopiedRowRefused`, and of existing tables `NodeRestored`, `TablesUnfit`, `RowguidUnfit`.
    """
    new = _plan(hub, subscriber, request)
    publication, subscription = new.publication, new.subscription
    with hub.transaction():
        # Without a generation that was sent it counts as begun: a call that is interrupted from here on is repeated,
        # and replaces it.
        begin_subscription(hub, publication, new.articles, subscription)
    filled = _fill(hub, subscriber, request, new)
    with hub.transaction():
        # Once the subscriber has committed everything up to this generation.
        set_subscription(hub.connection, subscription.subid, sentgen=filled.generation)
    give_ranges(hub, subscriber, publication, new.articles, subscription)
    for omission in filled.omissions:
        request.on_omission(omission)
    if isinstance(request, ExistingSubscription):
        for table in filled.tables:
            request.on_existing(table.counts)
    return replace(subscription, sent=filled.generation)


@frozen
class _NewSubscription:
    """A subscription that can be added; `shared` and `prepared` are the articles whose tables are there.

    `shared` tables have another publication's rows, a program has made those that are `prepared`.
    """

    publication: Publication
    articles: Sequence[Article]
    shared: Sequence[Article]
    prepared: Sequence[Article]
    hub_priority: float
    subscription: Subscription


def _plan(hub: Node, subscriber: Node, request: MergeSubscriptionRequest) -> _NewSubscription:
    """Verify that a subscription can be added; nothing is stored of it."""
    publication = replace(catalogue.get_publication(hub.connection, request.publication), run_as=request.run_as)
    notice(hub, publication)
    subscriber.tables.prepare()
    _require_new(hub, subscriber, publication, request.subscriber)
    articles = catalogue.list_articles(hub.connection, publication.pubid)
    schema = read_version(hub.connection, publication)
    require_fit(hub, subscriber, publication, articles)
    shared = _find_shared(subscriber, publication, articles)
    takes_over = isinstance(request, ExistingSubscription)
    prepared = _find_prepared(subscriber, request.subscriber, articles, shared, takes_over=takes_over)
    (found,) = hub.read_together(catalogue.SELECT_HUB_PRIORITY, values={"of_name": request.publication})
    hub_priority = catalogue.hub_priority_of(found)
    if request.subscriber_type is SubscriberType.SERVER and not 0 <= request.priority < hub_priority:
        raise errors.PriorityRefused(request.subscriber, request.priority, request.publication, hub_priority)
    chosen = choose_partition(publication, articles, request.chosen_partition)
    subscriber.tables.require_owners([*shared, *prepared], request.run_as)
    nickname = catalogue.read_nickname(subscriber.connection)
    subscription = new_subscription(publication, schema, nickname, chosen, request)
    return _NewSubscription(publication, articles, shared, prepared, hub_priority, subscription)


def new_subscription(
    publication: Publication,
    schema: SchemaVersion,
    nickname: int,
    partition: Partition | None,
    request: MergeSubscriptionRequest,
) -> Subscription:
    """Return a subscription as its hub stores it at first, with an id and a state of its own."""
    return Subscription(
        subid=str(uuid4()),
        pubid=publication.pubid,
        subscriber=request.subscriber,
        nickname=nickname,
        subscriber_type=request.subscriber_type,
        priority=request.priority,
        state=secrets.token_hex(16),
        partition=partition,
        schema_version=schema.version,
        schema_guid=schema.guid,
    )


@frozen
class _Filled:
    """A subscriber that has all rows up to a generation; `tables` are those that it had before."""

    generation: int
    omissions: Sequence[Omission]
    tables: Sequence[PreparedTable]


def _fill(hub: Node, subscriber: Node, request: MergeSubscriptionRequest, new: _NewSubscription) -> _Filled:
    """Create and fill the subscriber's tables in one transaction, and store at the hub which rows it has."""
    existing = request if isinstance(request, ExistingSubscription) else None
    with snapshots.copying(subscriber):
        with hub.changes.enumerating() as enumeration:
            snapshot = snapshots.SubscriberSnapshot(
                enumeration,
                new.articles,
                bind_articles(new.articles, new.subscription.partition),
                new.shared,
                new.subscription.subscriber_type,
                new.hub_priority,
                new.prepared,
            )
            generation, members = enumeration.generation, snapshot.members()
            at_subscriber = replace(new.subscription, nickname=new.publication.publisher, received=generation)
            omissions = snapshots.fill(hub, subscriber, new.publication, snapshot, request.on_progress)
            put_subscription(subscriber.connection, at_subscriber)
            for article in new.shared:
                _complete(subscriber, at_subscriber, snapshot, article)
            tables = _adopt(subscriber, snapshot)
            if existing is not None:
                _take_over(tables, new.publication, existing)
            for table in tables if existing is not None and existing.existing is Existing.KEEP else ():
                # Its versions of rows outside of the partition are to be uploaded, too.
                outside: Sequence[tuple[str, str | None]] = [(rowguid, None) for rowguid in table.outside]
                members[table.article] = [*members.get(table.article, ()), *outside]
        snapshots.store_memberships(hub, new.subscription.nickname, members, generation)
    return _Filled(generation, omissions, tables)


def compare_existing(
    hub: Node, subscriber: Node, publication_name: str, subscriber_name: str, partition: Partition | None = None
) -> Sequence[ExistingRows]:
    """Return what tables that a database has already have of a publication's rows; nothing is changed.

    Raises `MergePublicationUnknown`, `MergeSubscriptionExists`, `SubscriberIsHub`, `NodeRestored`,
    `SubscriberHasTable`, `TablesUnfit`,
    `RowguidUnfit`, `PartitionValueMissing`.
    """
    publication = catalogue.get_publication(hub.connection, publication_name)
    subscriber.tables.prepare()
    _require_new(hub, subscriber, publication, subscriber_name)
    articles = catalogue.list_articles(hub.connection, publication.pubid)
    shared = _find_shared(subscriber, publication, articles)
    prepared = _find_prepared(subscriber, subscriber_name, articles, shared, takes_over=True)
    chosen = choose_partition(publication, articles, partition or Partition())
    found: list[ExistingRows] = []
    with suppress(_Compared), hub.changes.enumerating() as enumeration, subscriber.transaction():
        snapshot = snapshots.SubscriberSnapshot(
            enumeration, articles, bind_articles(articles, chosen), shared, prepared=prepared
        )
        found += [table.counts for table in _adopt(subscriber, snapshot)]
        raise _Compared
    return found


class _Compared(Exception):
    """Rolls a comparison back."""


def _require_new(hub: Node, subscriber: Node, publication: Publication, subscriber_name: str) -> None:
    """Raise unless a database is new to the publication.

    Raises `MergeSubscriptionExists`; `SubscriberIsHub` for the hub; `NodeRestored` for a copy of a subscriber.
    """
    own = catalogue.find_publication(subscriber.connection, publication.name)
    if own is None:
        return
    subids = {each.subid for each in list_subscriptions(subscriber.connection, own.pubid)}
    known = list_subscriptions(hub.connection, publication.pubid)
    if catalogue.read_nickname(subscriber.connection) == publication.publisher:
        raise errors.SubscriberIsHub(subscriber_name, publication.name)
    if any(each.subid in subids and each.subscriber != subscriber_name for each in known):
        raise NodeRestored(subscriber_name)
    raise errors.MergeSubscriptionExists(subscriber_name, publication.name)


def _find_prepared(
    subscriber: Node, subscriber_name: str, articles: Sequence[Article], shared: Sequence[Article], *, takes_over: bool
) -> Sequence[Article]:
    """Return the articles whose tables a program has made. Raises `SubscriberHasTable`, `TablesUnfit`."""
    merged = {article.nickname for article in catalogue.list_merged(subscriber.connection)}
    present = [article for article in articles if article not in shared and subscriber.tables.is_there(article)]
    for article in present:
        if not takes_over or article.nickname in merged:
            raise errors.SubscriberHasTable(article.qualified_name)
    require_tables_fit(subscriber, subscriber_name, present)
    return present


def _adopt(subscriber: Node, snapshot: snapshots.SubscriberSnapshot) -> Sequence[PreparedTable]:
    tables = [PreparedTable(subscriber, snapshot, article) for article in snapshot.prepared]
    for table in tables:
        table.adopt()
    return tables


def _take_over(tables: Sequence[PreparedTable], publication: Publication, request: ExistingSubscription) -> None:
    for table in tables:
        table.track(publication)
    # Rows that refer to others are deleted before these.
    for table in reversed(tables):
        table.delete(request.existing, publication.publisher)
    for table in tables:
        table.write(request.existing, publication.publisher, absent_is_delete=request.absent_is_delete)


def _find_shared(subscriber: Node, publication: Publication, articles: Sequence[Article]) -> Sequence[Article]:
    """Return the articles whose tables the subscriber has from another publication of the same publisher.

    Both have all rows: which rows of a filtered table belong here depends on one publication alone.
    """
    known = {
        article.nickname: article
        for other in catalogue.list_publications(subscriber.connection)
        if other.publisher == publication.publisher
        for article in catalogue.list_articles(subscriber.connection, other.pubid)
    }
    return [
        article
        for article in articles
        if article.nickname in known and not (article.is_filtered or known[article.nickname].is_filtered)
    ]


def _complete(
    subscriber: Node, subscription: Subscription, snapshot: snapshots.SubscriberSnapshot, article: Article
) -> None:
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
    on_progress: snapshots.SnapshotProgress = lambda _article, _rows: None,
) -> None:
    """Copy a subscriber's tables again; its own changes are lost (SQL Server: sp_reinitmergesubscription).

    If they were uploaded before, later ones are not lost: `NodeBusy` is raised. The subscriber is filled in one
    transaction; a repeat completes an interrupted call. A node that was restored or copied gets a new nickname: its
    change numbers may have been used already.
    """
    for node in (hub, subscriber):
        node.tables.record_identity()
    subid, mark = pairing.at_hub.subid, secrets.token_hex(16)
    session = max(pairing.at_hub.session, pairing.at_subscriber.session) + 1
    with hub.transaction():
        for article in pairing.articles:
            if hub.tables.find_damage(article) is not None:
                _track_again(hub, article)
        # The subscriber commits its mark first: until the hub does, either is accepted.
        set_subscription(hub.connection, subid, session=session, next_replicastate=mark)
    begun: dict[str, object] = {
        "session": session,
        "replicastate": mark,
        "next_replicastate": None,
        "settledgen": 0,
        "waitinggen": None,
    }
    nickname, generation = _refill(hub, subscriber, pairing, begun, is_uploaded=is_uploaded, on_progress=on_progress)
    with hub.transaction():
        remove_retries_of(hub.connection, pairing.at_hub.nickname, [article.nickname for article in pairing.articles])
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


def _refill(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    begun: Mapping[str, object],
    *,
    is_uploaded: bool,
    on_progress: snapshots.SnapshotProgress,
) -> tuple[int, int]:
    """Copy a subscriber's tables again in one transaction, and begin its subscription with the values of `begun`.

    Returns its nickname, and the generation up to which it has all rows.
    """
    with snapshots.copying(subscriber):
        if is_uploaded and subscriber.rebuilt.is_logged():
            raise NodeBusy(pairing.at_hub.subscriber, "rows were changed after the upload")
        # Versions that it made under the old nickname may be known elsewhere with other contents.
        if not has_met(catalogue.read_nickname(subscriber.connection), pairing):
            catalogue.renew_nickname(subscriber.connection)
        nickname = catalogue.read_nickname(subscriber.connection)
        with hub.changes.enumerating() as enumeration:
            snapshot = snapshots.SubscriberSnapshot(
                enumeration,
                pairing.articles,
                pairing.filters,
                subscriber_type=pairing.at_hub.subscriber_type,
                hub_priority=pairing.hub_priority,
            )
            generation, members = enumeration.generation, snapshot.members()
            snapshots.refill(subscriber, pairing.publication.pubid, pairing.hub, snapshot, on_progress)
        snapshots.store_memberships(hub, nickname, members, generation)
        _lose_subscriptions(subscriber, pairing.articles)
        catalogue.set_publisher(subscriber.connection, pairing.publication.pubid, pairing.hub)
        filled = [article.nickname for article in pairing.articles]
        for source in (pairing.hub, nickname):
            remove_retries_of(subscriber.connection, source, filled)
        set_subscription(
            subscriber.connection,
            pairing.at_hub.subid,
            replnickname=pairing.hub,
            sentgen=0,
            recgen=generation,
            **begun,
        )
    return nickname, generation


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
    own, nicknames = catalogue.read_nickname(hub.connection), {article.nickname for article in lost}
    for publication in catalogue.list_publications(hub.connection):
        listed = {each.nickname for each in catalogue.list_articles(hub.connection, publication.pubid)}
        for subscription in list_subscriptions(hub.connection, publication.pubid):
            if publication.publisher == own and listed & nicknames:
                mark = secrets.token_hex(16)
                set_subscription(hub.connection, subscription.subid, replicastate=mark, next_replicastate=None)


def drop_subscription(
    hub: Node, subscriber: Node | None, publication_name: str, subscriber_name: str
) -> Sequence[Subscription]:
    """End a subscription at both ends; its tables and rows stay (SQL Server: sp_dropmergesubscription).

    Without a subscriber node, only at the hub. Return what the hub keeps: a subscription with another address that the
    database also had, because it was moved or is a copy. Raises `MergePublicationUnknown`, `MergeSubscriptionUnknown`;
    and `NodeCopied`, `NodeRestored`, because a copy of the hub must not end the original's subscription.
    """
    publication = catalogue.get_publication(hub.connection, publication_name)
    if subscriber is not None:
        require_original(hub, is_sure=False)
    known = list_subscriptions(hub.connection, publication.pubid)
    found = [one for one in known if one.subscriber == subscriber_name]
    own, kept = None, set[str]()
    if subscriber is not None and subscriber.tables.is_prepared():
        own = catalogue.find_publication(subscriber.connection, publication_name)
    if not found and own is None:
        raise errors.MergeSubscriptionUnknown(subscriber_name, publication_name)
    if subscriber is not None and own is not None:
        at_subscriber = list_subscriptions(subscriber.connection, own.pubid)
        _require_parted_alike(hub, subscriber, publication, found, at_subscriber)
        kept = {one.subid for one in at_subscriber} - {one.subid for one in found}
        with subscriber.transaction():
            for one in at_subscriber:
                remove_subscription(subscriber.connection, one.subid)
                forget_ranges(subscriber.connection, one.subid)
            forget_publication(subscriber, own)
    articles = catalogue.list_articles(hub.connection, publication.pubid)
    with hub.transaction():
        for one in found:
            remove_subscription(hub.connection, one.subid)
            forget_ranges(hub.connection, one.subid)
            remove_retries_of(hub.connection, one.nickname, [article.nickname for article in articles])
            remove_all_members(hub.connection, one.nickname, articles)
        drop_unused_partitions(hub.connection, publication.pubid)
    return [one for one in known if one.subid in kept]


def _require_parted_alike(
    hub: Node,
    subscriber: Node,
    publication: Publication,
    at_hub: Sequence[Subscription],
    at_subscriber: Sequence[Subscription],
) -> None:
    """Raise `NodeRestored` if both ends have the subscription and their marks do not match."""
    ours, theirs = catalogue.read_nickname(hub.connection), catalogue.read_nickname(subscriber.connection)
    ends = {one.subid: one for one in at_subscriber}
    for one in at_hub:
        if one.subid in ends and not has_met(theirs, Pairing(publication, (), one, ends[one.subid], ours)):
            raise NodeRestored(one.subscriber)


def choose_partition(publication: Publication, articles: Sequence[Article], given: Partition) -> Partition | None:
    """Return the given values that the filters use; None if no article is filtered."""
    if not any(article.is_filtered for article in articles):
        return None
    return require_values(publication, articles, given)


def begin_subscription(
    hub: Node, publication: Publication, articles: Sequence[Article], subscription: Subscription
) -> None:
    """Write the subscription with its partition, in the caller's transaction, in place of one that was interrupted.

    Raises `AddressTaken` if another database has the address.
    """
    for begun in list_subscriptions(hub.connection, publication.pubid):
        is_same = begun.nickname == subscription.nickname
        if begun.subscriber == subscription.subscriber and begun.sent and not is_same:
            last = f"at {begun.last_sync:%Y-%m-%d %H:%M:%S}Z" if begun.last_sync else "never"
            raise errors.AddressTaken(begun.subscriber, publication.name, last)
        if begun.subscriber == subscription.subscriber or is_same:
            remove_subscription(hub.connection, begun.subid)
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
