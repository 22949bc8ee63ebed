"""Create, change and drop publications and their articles, at the hub."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from rowtide.core.names import require_name
from rowtide.databases.kinds import DatabaseKind
from rowtide.merge.articles import (
    INTEGERS,
    Article,
    JoinFilter,
    Partition,
    PartitionOptions,
    Publication,
    SubscriberType,
    UploadOptions,
)
from rowtide.merge.catalogue import (
    find_article,
    find_publication,
    get_publication,
    list_all_articles,
    list_articles,
    list_merged,
    list_publications,
    put_article,
    put_publication,
    read_nickname,
    read_purged,
    remove_article,
    remove_publication,
    set_definition,
    set_publication,
    was_rowguid_there,
)
from rowtide.merge.conflicts.resolvers import require_resolver
from rowtide.merge.errors import (
    JoinFilterRefused,
    KeyNotNumbered,
    MergeArticleExists,
    MergeKeyMissing,
    MergePublicationExists,
    RepublisherNotServer,
    ResolverRefused,
    SubscriptionsLeft,
    UploadOptionsRefused,
)
from rowtide.merge.handlers import find_handler
from rowtide.merge.nodes.node import Node, TableDescription
from rowtide.merge.nodes.table_parts import PartKind
from rowtide.merge.partitions import partition_membership
from rowtide.merge.partitions.filters import require_values
from rowtide.merge.progress import list_subscriptions, set_subscription
from rowtide.merge.publishing.filter_checks import check_filter, check_join
from rowtide.merge.publishing.ordering import order_articles
from rowtide.merge.publishing.record_links import require_record_options, require_records
from rowtide.merge.publishing.schema_changes import define, dropped_at, notice, record, redefine
from rowtide.merge.publishing.vertical_partitions import choose_columns
from rowtide.merge.session.identity_ranges import begin_pool, forget_ranges

_NICKNAME_BITS = 31
_AUTOINCREMENT = re.compile(r"\bautoincrement\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ArticleOptions:
    """Options of an article (SQL Server: sp_addmergearticle)."""

    column_tracking: bool = False
    resolver: str = "priority"
    compensate_for_errors: bool = False
    where: str | None = None
    partition_options: PartitionOptions = PartitionOptions.OVERLAPPING
    columns: Sequence[str] | None = None
    record_conflict_detection: bool = False
    record_conflict_resolution: bool = False
    renumber: bool = False
    upload_options: UploadOptions = UploadOptions.ALLOWED
    identity_range: int = 0
    publisher_identity_range: int = 0
    threshold: int = 100


@dataclass(frozen=True, slots=True)
class ArticleChanges:
    """New options of an article; None leaves an option as it is. `joins` are conditions by the parents' names."""

    where: str | None = None
    joins: Mapping[str, str] = field(default_factory=dict)
    resolver: str | None = None
    column_tracking: bool | None = None
    compensate_for_errors: bool | None = None
    upload_options: UploadOptions | None = None


def add_publication(
    hub: Node,
    name: str,
    *,
    retention_days: int,
    conflict_retention_days: int = 0,
    realigns: bool = True,
    replicates_ddl: bool = True,
) -> Publication:
    """Create a publication (SQL Server: sp_addmergepublication). Raises `NameUnfit`, `MergePublicationExists`."""
    require_name("publication", name)
    hub.tables.prepare()
    with hub.transaction():
        if find_publication(hub.connection, name) is not None:
            raise MergePublicationExists(name)
        publication = Publication(
            str(uuid4()),
            name,
            read_nickname(hub.connection),
            retention_days,
            replicates_ddl=replicates_ddl,
            realigns=realigns,
            conflict_retention_days=conflict_retention_days,
        )
        put_publication(hub.connection, publication)
    return publication


def change_publication(
    hub: Node, name: str, *, retention_days: int | None = None, replicates_ddl: bool | None = None
) -> Publication:
    """Change a publication's options; None leaves one as it is (SQL Server: sp_changemergepublication).

    Columns that were added while schema changes were not sent are published with the next synchronisation. Raises
    `MergePublicationUnknown`.
    """
    publication = get_publication(hub.connection, name)
    publication = replace(
        publication,
        retention_days=publication.retention_days if retention_days is None else retention_days,
        replicates_ddl=publication.replicates_ddl if replicates_ddl is None else replicates_ddl,
    )
    with hub.transaction():
        set_publication(hub.connection, publication)
        for article in list_articles(hub.connection, publication.pubid) if replicates_ddl else ():
            # Whatever its table is now, it is to be looked at.
            set_definition(hub.connection, publication.pubid, replace(article, fingerprint=""))
    return publication


def add_article(hub: Node, publication_name: str, table: str, options: ArticleOptions) -> Article:
    """Publish a table and track its changes (SQL Server: sp_addmergearticle); a repeat completes an interrupted call.

    Raises `MergePublicationUnknown`, `ArticleTableNotFound`, `MergeKeyMissing`, `MergeArticleExists`,
    `ColumnsRefused`, `ResolverUnknown`, `ResolverRefused`, `UploadOptionsRefused`, `FilterRefused`,
    `RecordOptionsRefused`, `KeyNotNumbered`, `PartitionValueMissing`.
    """
    publication = get_publication(hub.connection, publication_name)
    for other in list_publications(hub.connection):
        notice(hub, other)
    described = hub.tables.describe(table)
    others = list_merged(hub.connection)
    merged = _find_merged(hub, described, others)
    apart = "" if merged is not None else _name_apart(described, others)
    article = _article(described, merged, options, apart)
    _require_new(hub, publication, article, merged)
    _require_server(hub, publication, article)
    require_record_options(article)
    if find_handler(article) is None:
        require_resolver(article)
    if article.procedure is not None:
        hub.tables.check_procedure(article)
    if article.is_upload_only and article.subset_filter is not None:
        raise ResolverRefused(article.resolver, article.qualified_name, "subscribers receive no rows to be filtered")
    _require_direction(article)
    check_filter(hub, article)
    if options.renumber or options.identity_range:
        require_numbered(described, is_growing=bool(options.identity_range))
    is_preserved = _is_preserved(hub, article, is_merged=merged is not None)
    hub.tables.add_rowguid(article)
    with hub.transaction():
        purged = read_purged(hub.connection, article.nickname) if merged is not None else b""
        put_article(hub.connection, publication.pubid, article, purged_lineage=purged, preserve_rowguidcol=is_preserved)
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
    publication = get_publication(hub.connection, publication_name)
    listed = list_articles(hub.connection, publication.pubid)
    of_child, of_parent = (find_article(publication, listed, name) for name in (child, join.parent))
    join = replace(join, parent=of_parent.name)
    filtered = replace(of_child, join_filters=(*of_child.join_filters, join))
    check_join(hub, filtered, of_parent, join)
    require_records(hub, [filtered if one == of_child else one for one in listed])
    with hub.transaction():
        set_definition(hub.connection, publication.pubid, filtered)
        _enter_partitions(hub, publication, filtered)
        order_articles(hub, publication)
        text = f"{filtered.qualified_name}: join {join.parent} on {join.condition}"
        record(hub.connection, publication, filtered, [("add filter", None, text)])
    return filtered


def change_article(hub: Node, publication_name: str, name: str, changes: ArticleChanges) -> Article:
    """Change an article's filters and options (SQL Server: sp_changemergearticle).

    Subscribers follow at their next synchronisation; rows enter and leave as the new filters say. Raises
    `MergePublicationUnknown`, `MergeArticleUnknown`, `FilterRefused`, `JoinFilterRefused`, `PartitionValueMissing`,
    `ResolverUnknown`, `ResolverRefused`, `RecordLinkRefused`, `KeyChanged`, `ColumnNeeded`, `UploadOptionsRefused`,
    `MergeArticleExists`. New upload options need reinitialization: see `DirectionsChanged`.
    """
    publication = get_publication(hub.connection, publication_name)
    listed = list_articles(hub.connection, publication.pubid)
    article = find_article(publication, listed, name)
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
    changed = find_article(publication, list_articles(hub.connection, publication.pubid), article.name)
    with hub.transaction():
        _enter_partitions(hub, publication, changed)
    return changed


def alter_article(hub: Node, publication_name: str, name: str, clause: str) -> Article:
    """Alter an article's table at the hub, and take the change into its definition at once.

    `clause` is what follows `alter table NAME`. Raises `MergePublicationUnknown`, `MergeArticleUnknown`,
    `TableNotAltered`, `KeyChanged`, `ColumnNeeded`.
    """
    publication = get_publication(hub.connection, publication_name)
    notice(hub, publication)
    article = find_article(publication, list_articles(hub.connection, publication.pubid), name)
    redefine(hub, article, clause=clause)
    return find_article(publication, list_articles(hub.connection, publication.pubid), article.name)


def _changed(hub: Node, publication: Publication, article: Article, changes: ArticleChanges) -> Article:
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
    if changes.upload_options is not None:
        changed = replace(changed, subscriber_upload_options=changes.upload_options)
        _require_direction(changed)
        _require_directed_alike(hub, publication, changed)
    if changed.is_upload_only != article.is_upload_only:
        raise ResolverRefused(changed.resolver, article.qualified_name, "it decides which rows subscribers have")
    if find_handler(changed) is None:
        require_resolver(changed)
    check_filter(hub, changed)
    listed = list_articles(hub.connection, publication.pubid)
    for join in changed.join_filters:
        check_join(hub, changed, find_article(publication, listed, join.parent), join)
    for subscription in list_subscriptions(hub.connection, publication.pubid):
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
    publication = get_publication(hub.connection, publication_name)
    with hub.transaction():
        return partition_membership.add_partition(hub.connection, publication.pubid, partition, is_explicit=True)


def drop_article(hub: Node, publication_name: str, name: str) -> None:
    """Remove a table from a publication (SQL Server: sp_dropmergearticle).

    While there are subscriptions, it is tracked until each has uploaded what it had changed. Raises
    `MergeArticleUnknown`, `JoinFilterRefused`.
    """
    publication = get_publication(hub.connection, publication_name)
    listed = list_articles(hub.connection, publication.pubid)
    article = find_article(publication, listed, name)
    others = [one for one in listed if one != article]
    filtered = next((one for one in others if article.name in (join.parent for join in one.join_filters)), None)
    if filtered is not None:
        raise JoinFilterRefused(filtered.name, article.name, "it is the parent, and would be there no more")
    with hub.transaction():
        if list_subscriptions(hub.connection, publication.pubid):
            set_definition(hub.connection, publication.pubid, replace(article, is_dropped=True))
            text = f"drop article {article.qualified_name}"
            record(hub.connection, publication, article, [("drop article", None, text)])
        else:
            drop_from(hub, publication, article)


def finish_drops(hub: Node, publication: Publication) -> None:
    """Remove dropped articles from the hub once no subscriber has them any more. Idempotent."""
    leaving = [each for each in list_all_articles(hub.connection, publication.pubid) if each.is_dropped]
    if not leaving:
        return
    with hub.transaction():
        known = list_subscriptions(hub.connection, publication.pubid)
        for article in leaving:
            if all(one.schema_version >= dropped_at(hub.connection, publication, article) for one in known):
                for one in known:
                    partition_membership.remove_all_members(hub.connection, one.nickname, [article])
                drop_from(hub, publication, article)


def drop_publication(hub: Node, name: str) -> None:
    """Drop a publication and its articles (SQL Server: sp_dropmergepublication).

    With the last publication, all of merge's objects are dropped. Raises `MergePublicationUnknown`,
    `SubscriptionsLeft`.
    """
    publication = get_publication(hub.connection, name)
    _require_no_subscriptions(hub, publication)
    with hub.transaction():
        forget_publication(hub, publication)


def forget_publication(node: Node, publication: Publication) -> None:
    """Remove a publication from a node, in the caller's transaction."""
    for article in list_all_articles(node.connection, publication.pubid):
        drop_from(node, publication, article)
    remove_publication(node.connection, publication.pubid)
    forget_ranges(node.connection, publication.pubid)
    if not list_publications(node.connection):
        node.tables.remove()


def drop_from(node: Node, publication: Publication, article: Article) -> None:
    """Remove an article from a node, in the caller's transaction; its table stays."""
    is_preserved = was_rowguid_there(node.connection, article.nickname)
    remove_article(node.connection, publication.pubid, article.name)
    if article.nickname in {other.nickname for other in list_merged(node.connection)}:
        return
    if node.tables.is_there(article):
        node.tables.untrack(article)
        if not is_preserved:
            node.tables.drop_rowguid(article)


def _require_direction(article: Article) -> None:
    """Raise `UploadOptionsRefused` if nothing would travel."""
    if article.is_upload_only and article.subscriber_upload_options is not UploadOptions.ALLOWED:
        options = int(article.subscriber_upload_options)
        raise UploadOptionsRefused(article.qualified_name, options, "it is upload-only: nothing would be exchanged")


def _find_merged(hub: Node, described: TableDescription, merged: Sequence[Article]) -> Article | None:
    """Return the article that has a table already; one that came from another kind of database names it else."""
    return next((article for article in merged if _is_of(article, hub, described)), None)


def _is_of(article: Article, hub: Node, described: TableDescription) -> bool:
    if article.schema and not described.schema:
        return article.file_table.lower() == described.table.lower()
    if described.schema and not article.schema:
        return hub.tables.is_there(article) and hub.tables.describe(article.table).name == described.name
    return article.qualified_name == described.name


def _name_apart(described: TableDescription, merged: Iterable[Article]) -> str:
    """Return a table's name with its schema if a table of another schema has the name already; else empty."""
    taken = {one.file_table.lower() for one in merged if one.qualified_name != described.name}
    return f"{described.schema}_{described.table}" if described.schema and described.table.lower() in taken else ""


def _article(described: TableDescription, merged: Article | None, options: ArticleOptions, name_apart: str) -> Article:
    if not any(column.key_ordinal for column in described.columns):
        raise MergeKeyMissing(described.name)
    columns = choose_columns(described, options.columns)
    if merged is not None:
        # A publisher of another kind may have richer types.
        known = {column.name: column for column in merged.columns}
        columns = tuple(known.get(column.name, column) for column in columns)
    article = Article(
        name=merged.name if merged is not None else name_apart or described.table,
        schema=described.schema,
        table=described.table,
        nickname=merged.nickname if merged is not None else 1 + secrets.randbits(_NICKNAME_BITS - 1),
        columns=columns,
        column_tracking=options.column_tracking,
        resolver=options.resolver,
        compensate_for_errors=options.compensate_for_errors,
        subset_filter=options.where,
        partition_options=options.partition_options,
        renumber=options.renumber,
        identity_range=options.identity_range,
        publisher_identity_range=options.publisher_identity_range,
        threshold=options.threshold,
        table_in_files=merged.table_in_files if merged is not None else name_apart,
        subscriber_upload_options=options.upload_options,
        vertical_partition=len(columns) != len(described.columns),
        record_conflict_detection=options.record_conflict_detection,
        record_conflict_resolution=options.record_conflict_resolution,
    )
    return define(described, article if merged is None else merged.as_table_of(article))


def _require_new(hub: Node, publication: Publication, article: Article, merged: Article | None) -> None:
    found = next(
        (one for one in list_all_articles(hub.connection, publication.pubid) if one.name == article.name), None
    )
    if found is not None:
        reason = f"publication {publication.name} has an article {article.name}"
        waiting = ", which is dropped once all subscribers have synchronised" if found.is_dropped else ""
        raise MergeArticleExists(article.qualified_name, reason + waiting)
    if merged is not None and merged.column_tracking != article.column_tracking:
        reason = "another publication has it with" + ("out" if article.column_tracking else "") + " column tracking"
        raise MergeArticleExists(article.qualified_name, reason)
    if merged is None:
        return
    if (merged.vertical_partition or article.vertical_partition) and merged.columns != article.columns:
        raise MergeArticleExists(article.qualified_name, "another publication has it with other columns")
    _require_directed_alike(hub, publication, article)
    if article.identity_range and any(_numbers(hub, other, article) for other in list_publications(hub.connection)):
        raise MergeArticleExists(article.qualified_name, "another publication has it with identity ranges")


def _require_directed_alike(hub: Node, publication: Publication, article: Article) -> None:
    """Raise `MergeArticleExists` if another publication of the hub has the table with other options: a subscriber could
    have both.
    """
    for other in list_publications(hub.connection):
        if other.pubid == publication.pubid or other.publisher != publication.publisher:
            continue
        for one in list_articles(hub.connection, other.pubid):
            is_alike = one.subscriber_upload_options is article.subscriber_upload_options
            if one.nickname == article.nickname and not (is_alike and one.is_directed_as(article)):
                reason = f"publication {other.name} has it with other upload options, or in another direction"
                raise MergeArticleExists(article.qualified_name, reason)


def _numbers(hub: Node, publication: Publication, article: Article) -> bool:
    """Whether a publication of this hub gives the numbers of an article's table."""
    listed = list_articles(hub.connection, publication.pubid)
    is_own = publication.publisher == read_nickname(hub.connection)
    return is_own and any(one.nickname == article.nickname and bool(one.identity_range) for one in listed)


def _require_server(hub: Node, publication: Publication, article: Article) -> None:
    """Raise `RepublisherNotServer` if the hub has the table itself as a client of another publisher."""
    for other in list_publications(hub.connection):
        if other.publisher == publication.publisher:
            continue
        if any(one.nickname == article.nickname for one in list_articles(hub.connection, other.pubid)):
            own = list_subscriptions(hub.connection, other.pubid)
            if any(one.subscriber_type is not SubscriberType.SERVER for one in own):
                raise RepublisherNotServer(article.qualified_name, other.name)


def _is_preserved(hub: Node, article: Article, *, is_merged: bool) -> bool:
    """Return whether the table had its own column `rowguid` before it was merged."""
    if is_merged:
        return was_rowguid_there(hub.connection, article.nickname)
    return hub.tables.has_rowguid(article)


def _require_no_subscriptions(hub: Node, publication: Publication) -> None:
    subscribers = [one.subscriber for one in list_subscriptions(hub.connection, publication.pubid)]
    if subscribers:
        raise SubscriptionsLeft(publication.name, ", ".join(subscribers))


def require_numbered(described: TableDescription, *, is_growing: bool) -> None:
    """Raise `KeyNotNumbered` unless a table's key is one integer column that the database numbers itself.

    `is_growing`: it never gives a number again, nor one of another row that was deleted.
    """
    key = [column for column in described.columns if column.key_ordinal]
    reason = None
    if len(key) != 1:
        reason = f"its key has {len(key)} columns"
    elif key[0].type_text not in INTEGERS:
        reason = f"its key {key[0].name} is of type {key[0].type_text}"
    elif not any(part.kind is PartKind.IDENTITY and part.name == key[0].name for part in described.parts):
        reason = f"its key {key[0].name} is neither identity nor serial"
    elif is_growing and described.kind is DatabaseKind.SQLITE and not _AUTOINCREMENT.search(described.statement or ""):
        reason = f"its key {key[0].name} is not declared with AUTOINCREMENT, without which SQLite counts by itself"
    if reason is not None:
        raise KeyNotNumbered(described.name, reason)
