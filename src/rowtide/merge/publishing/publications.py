"""Create, change and drop publications and their articles, at the hub."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from rowtide.core.names import require_name
from rowtide.merge import catalogue
from rowtide.merge.articles import Article, JoinFilter, Partition, Publication
from rowtide.merge.conflicts.resolvers import require_resolver
from rowtide.merge.errors.publishing import (
    JoinFilterRefused,
    MergePublicationExists,
    ResolverRefused,
    SubscriptionsLeft,
)
from rowtide.merge.exchange_state import forget_retries, list_subscriptions, set_subscription
from rowtide.merge.handlers import find_handler
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions import partition_membership
from rowtide.merge.partitions.filters import require_values
from rowtide.merge.publishing.filter_checks import check_filter, check_join, require_record_options, require_records
from rowtide.merge.publishing.new_articles import (
    define_new,
    find_merged,
    is_preserved,
    name_apart,
    require_directed_alike,
    require_direction,
    require_new,
    require_numbered,
    require_server,
)
from rowtide.merge.publishing.requests import (
    ArticleRequest,
    MergeArticleChanges,
    MergePublicationChanges,
    NewMergePublication,
)
from rowtide.merge.publishing.schema_changes import dropped_at, notice, record, redefine
from rowtide.merge.publishing.vertical_partitions import order_articles
from rowtide.merge.session.identity_ranges import begin_pool, forget_ranges


def add_publication(hub: Node, request: NewMergePublication) -> Publication:
    """Create a publication (SQL Server: sp_addmergepublication). Raises `NameUnfit`, `MergePublicationExists`."""
    require_name("publication", request.name)
    hub.tables.prepare()
    with hub.transaction():
        if catalogue.find_publication(hub.connection, request.name) is not None:
            raise MergePublicationExists(request.name)
        publication = Publication(
            str(uuid4()),
            request.name,
            catalogue.read_nickname(hub.connection),
            request.retention_days,
            replicates_ddl=request.replicate_ddl,
            realigns=request.allow_partition_realignment,
            conflict_retention_days=request.conflict_retention_days,
            run_as=request.run_as,
        )
        catalogue.put_publication(hub.connection, publication)
    return publication


def change_publication(hub: Node, changes: MergePublicationChanges) -> Publication:
    """Change a publication's options; None leaves one as it is (SQL Server: sp_changemergepublication).

    Columns that were added while schema changes were not sent are published with the next synchronisation. Raises
    `MergePublicationUnknown`.
    """
    publication = catalogue.get_publication(hub.connection, changes.name)
    days, follows, run_as = changes.retention_days, changes.replicate_ddl, changes.run_as
    publication = replace(
        publication,
        retention_days=publication.retention_days if days is None else days,
        replicates_ddl=publication.replicates_ddl if follows is None else follows,
        run_as=publication.run_as if run_as is None else run_as,
    )
    with hub.transaction():
        catalogue.set_publication(hub.connection, publication)
        catalogue.set_run_as(hub.connection, publication.pubid, publication.run_as)
        for article in catalogue.list_articles(hub.connection, publication.pubid) if follows else ():
            # Its table is compared again with its definition, whatever has changed.
            catalogue.set_definition(hub.connection, publication.pubid, replace(article, fingerprint=""))
    return publication


def add_article(hub: Node, publication_name: str, table: str, request: ArticleRequest) -> Article:
    """Publish a table and track its changes (SQL Server: sp_addmergearticle); a repeat completes an interrupted call.

    Raises `MergePublicationUnknown`, `ArticleTableNotFound`, `MergeKeyMissing`, `MergeArticleExists`,
    `ColumnsRefused`, `ResolverUnknown`, `ResolverRefused`, `UploadOptionsRefused`, `FilterRefused`,
    `RecordOptionsRefused`, `KeyNotNumbered`, `PartitionValueMissing`.
    """
    publication = catalogue.get_publication(hub.connection, publication_name)
    for other in catalogue.list_publications(hub.connection):
        notice(hub, other)
    described = hub.tables.describe(table)
    others = catalogue.list_merged(hub.connection)
    merged = find_merged(hub, described, others)
    apart = "" if merged is not None else name_apart(described, others)
    article = define_new(described, merged, request, apart)
    require_new(hub, publication, article, merged)
    require_server(hub, publication, article)
    require_record_options(article)
    if find_handler(article) is None:
        require_resolver(article)
    if article.procedure is not None:
        hub.tables.check_procedure(article)
    if article.is_upload_only and article.subset_filter is not None:
        raise ResolverRefused(article.resolver, article.qualified_name, "subscribers receive no rows to be filtered")
    require_direction(article)
    check_filter(hub, article)
    if request.renumber or request.identity_range:
        require_numbered(described, is_growing=bool(request.identity_range))
    hub.tables.require_owners([article], publication.run_as)
    had_rowguid = is_preserved(hub, article, is_merged=merged is not None)
    hub.tables.add_rowguid(article)
    with hub.transaction():
        purged = catalogue.read_purged(hub.connection, article.nickname) if merged is not None else b""
        catalogue.put_article(
            hub.connection, publication.pubid, article, purged_lineage=purged, preserve_rowguidcol=had_rowguid
        )
        hub.tables.track(article)
        if article.identity_range:
            begin_pool(hub, publication, article)
        _enter_partitions(hub, publication, article)
        order_articles(hub, publication)
        record(hub.connection, publication, article, [("add article", None, f"add article {article.qualified_name}")])
    return article


def add_filter(hub: Node, publication_name: str, child: str, join: JoinFilter) -> Article:
    """Add a join filter: an article's rows follow the parent's rows that they join to (SQL Server: sp_addmergefilter).

    The join names the parent as a user does.

    Raises `MergePublicationUnknown`, `MergeArticleUnknown`, `JoinFilterRefused`, `FilterRefused`,
    `RecordLinkRefused`.
    """
    publication = catalogue.get_publication(hub.connection, publication_name)
    listed = catalogue.list_articles(hub.connection, publication.pubid)
    of_child, of_parent = (catalogue.find_article(publication, listed, name) for name in (child, join.parent))
    join = replace(join, parent=of_parent.name)
    filtered = replace(of_child, join_filters=(*of_child.join_filters, join))
    check_join(hub, filtered, of_parent, join)
    require_records(hub, [filtered if one == of_child else one for one in listed])
    with hub.transaction():
        catalogue.set_definition(hub.connection, publication.pubid, filtered)
        _enter_partitions(hub, publication, filtered)
        order_articles(hub, publication)
        text = f"{filtered.qualified_name}: join {join.parent} on {join.condition}"
        record(hub.connection, publication, filtered, [("add filter", None, text)])
    return filtered


def change_article(hub: Node, changes: MergeArticleChanges) -> Article:
    """Change an article's filters and options (SQL Server: sp_changemergearticle).

    Subscribers follow at their next synchronisation; rows enter and leave as the new filters say. Raises
    `MergePublicationUnknown`, `MergeArticleUnknown`, `FilterRefused`, `JoinFilterRefused`, `PartitionValueMissing`,
    `ResolverUnknown`, `ResolverRefused`, `RecordLinkRefused`, `KeyChanged`, `ColumnNeeded`, `UploadOptionsRefused`,
    `MergeArticleExists`. New upload options need reinitialization: see `DirectionsChanged`.
    """
    publication = catalogue.get_publication(hub.connection, changes.publication)
    listed = catalogue.list_articles(hub.connection, publication.pubid)
    article = catalogue.find_article(publication, listed, changes.article)
    for parent in set(changes.joins) - {join.parent for join in article.join_filters}:
        raise JoinFilterRefused(article.name, parent, "it does not follow it")

    def change(other: Publication, current: Article) -> Article:
        if changes.column_tracking is not None:
            current = replace(current, column_tracking=changes.column_tracking)
        if other != publication:
            return current
        changed = _changed(hub, publication, current, changes)
        require_records(hub, [changed if one.name == changed.name else one for one in listed])
        return changed

    redefine(hub, article, change)
    changed = catalogue.find_article(
        publication, catalogue.list_articles(hub.connection, publication.pubid), article.name
    )
    with hub.transaction():
        _enter_partitions(hub, publication, changed)
    return changed


def alter_article(hub: Node, publication_name: str, name: str, clause: str) -> Article:
    """Alter an article's table at the hub, and take the change into its definition at once.

    `clause` is what follows `alter table NAME`. Raises `MergePublicationUnknown`, `MergeArticleUnknown`,
    `TableNotAltered`, `KeyChanged`, `ColumnNeeded`.
    """
    publication = catalogue.get_publication(hub.connection, publication_name)
    notice(hub, publication)
    article = catalogue.find_article(publication, catalogue.list_articles(hub.connection, publication.pubid), name)
    redefine(hub, article, clause=clause)
    return catalogue.find_article(publication, catalogue.list_articles(hub.connection, publication.pubid), article.name)


def _changed(hub: Node, publication: Publication, article: Article, changes: MergeArticleChanges) -> Article:
    """Return an article with other options. Raises what `change_article` raises."""
    resolver, compensates = changes.resolver, changes.compensate_for_errors
    changed = replace(
        article,
        subset_filter=article.subset_filter if changes.where is None else changes.where,
        join_filters=tuple(
            replace(join, condition=changes.joins.get(join.parent, join.condition)) for join in article.join_filters
        ),
        resolver=article.resolver if resolver is None else resolver,
        compensate_for_errors=article.compensate_for_errors if compensates is None else compensates,
    )
    if changes.on_unseen_children is not None:
        changed = replace(changed, on_unseen_children=changes.on_unseen_children)
    if changes.upload_options is not None:
        changed = replace(changed, subscriber_upload_options=changes.upload_options)
        require_direction(changed)
        require_directed_alike(hub, publication, changed)
    if changed.is_upload_only != article.is_upload_only:
        raise ResolverRefused(changed.resolver, article.qualified_name, "it decides which rows subscribers have")
    if find_handler(changed) is None:
        require_resolver(changed)
    check_filter(hub, changed)
    listed = catalogue.list_articles(hub.connection, publication.pubid)
    for join in changed.join_filters:
        check_join(hub, changed, catalogue.find_article(publication, listed, join.parent), join)
    for subscription in list_subscriptions(hub.connection, publication.pubid):
        # A subscription that lacks a value which the new filter uses could not be synchronised any more.
        require_values(publication, [changed], subscription.partition or Partition())
    return changed


def _enter_partitions(hub: Node, publication: Publication, article: Article) -> None:
    """Give each subscription a partition if an article is the first with a filter, in the caller's transaction.

    Raises `PartitionValueMissing`.
    """
    for subscription in list_subscriptions(hub.connection, publication.pubid) if article.is_filtered else ():
        partition = subscription.partition or Partition()
        require_values(publication, [article], partition)
        if subscription.partition is None:
            number = partition_membership.add_partition(hub.connection, publication.pubid, partition, is_explicit=False)
            set_subscription(hub.connection, subscription.subid, partition_id=number)


def add_partition(hub: Node, publication_name: str, partition: Partition) -> int:
    """Create a partition before the first subscription to it (SQL Server: sp_addmergepartition); return its number.

    Raises `MergePublicationUnknown`.
    """
    publication = catalogue.get_publication(hub.connection, publication_name)
    with hub.transaction():
        return partition_membership.add_partition(hub.connection, publication.pubid, partition, is_explicit=True)


def drop_partition(hub: Node, publication_name: str, partition: Partition) -> bool:
    """Remove a partition that was added by itself (SQL Server: sp_dropmergepartition); return whether it was.

    Raises `MergePublicationUnknown`.
    """
    publication = catalogue.get_publication(hub.connection, publication_name)
    with hub.transaction():
        return partition_membership.drop_partition(hub.connection, publication.pubid, partition)


def drop_article(hub: Node, publication_name: str, name: str) -> None:
    """Remove a table from a publication (SQL Server: sp_dropmergearticle).

    While there are subscriptions, it is tracked until each has uploaded what it had changed. Raises
    `MergeArticleUnknown`, `JoinFilterRefused`.
    """
    publication = catalogue.get_publication(hub.connection, publication_name)
    listed = catalogue.list_articles(hub.connection, publication.pubid)
    article = catalogue.find_article(publication, listed, name)
    others = [one for one in listed if one != article]
    filtered = next((one for one in others if article.name in (join.parent for join in one.join_filters)), None)
    if filtered is not None:
        raise JoinFilterRefused(filtered.name, article.name, "it is the parent, and would no longer be there")
    with hub.transaction():
        if list_subscriptions(hub.connection, publication.pubid):
            catalogue.set_definition(hub.connection, publication.pubid, replace(article, is_dropped=True))
            text = f"drop article {article.qualified_name}"
            record(hub.connection, publication, article, [("drop article", None, text)])
        else:
            drop_from(hub, publication, article)


def finish_drops(hub: Node, publication: Publication) -> None:
    """Remove dropped articles from the hub once no subscriber has them any more. Idempotent."""
    leaving = [each for each in catalogue.list_all_articles(hub.connection, publication.pubid) if each.is_dropped]
    if not leaving:
        return
    with hub.transaction():
        known = list_subscriptions(hub.connection, publication.pubid)
        for article in leaving:
            # A subscriber that has not followed may still upload what it changed in the table.
            if all(one.schema_version >= dropped_at(hub.connection, publication, article) for one in known):
                for one in known:
                    partition_membership.remove_all_members(hub.connection, one.nickname, [article])
                drop_from(hub, publication, article)


def drop_publication(hub: Node, name: str) -> None:
    """Drop a publication and its articles (SQL Server: sp_dropmergepublication).

    With the last publication, all of merge's objects are dropped. Raises `MergePublicationUnknown`,
    `SubscriptionsLeft`.
    """
    publication = catalogue.get_publication(hub.connection, name)
    _require_no_subscriptions(hub, publication)
    with hub.transaction():
        forget_publication(hub, publication)


def forget_publication(node: Node, publication: Publication) -> None:
    """Remove a publication from a node, in the caller's transaction."""
    for article in catalogue.list_all_articles(node.connection, publication.pubid):
        drop_from(node, publication, article)
    catalogue.remove_publication(node.connection, publication.pubid)
    forget_ranges(node.connection, publication.pubid)
    if not catalogue.list_publications(node.connection):
        node.tables.remove()


def drop_from(node: Node, publication: Publication, article: Article) -> None:
    """Remove an article from a node, in the caller's transaction; its table stays."""
    is_preserved = catalogue.was_rowguid_there(node.connection, article.nickname)
    catalogue.remove_article(node.connection, publication.pubid, article.name)
    # Another publication still merges the table, and needs its triggers and rowguids.
    if article.nickname in {other.nickname for other in catalogue.list_merged(node.connection)}:
        return
    # The hub's number of the table is the same where it is subscribed to again, with other rows.
    forget_retries(node.connection, article.nickname)
    if node.tables.is_there(article):
        node.tables.untrack(article)
        if not is_preserved:
            node.tables.drop_rowguid(article)


def _require_no_subscriptions(hub: Node, publication: Publication) -> None:
    subscribers = [one.subscriber for one in list_subscriptions(hub.connection, publication.pubid)]
    if subscribers:
        raise SubscriptionsLeft(publication.name, ", ".join(subscribers))
