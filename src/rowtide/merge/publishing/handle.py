"""Publications and articles of a hub: the part of `rowtide.connect(url).merge` that can be rehearsed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from rowtide.core.formats import removing
from rowtide.core.options import member_of, takes
from rowtide.merge.articles import Article, FilterType, JoinFilter, Partition, Publication
from rowtide.merge.catalogue import find_article, get_publication, list_articles
from rowtide.merge.errors.rows import IdentityRangeMissing
from rowtide.merge.exchange_state import list_subscriptions
from rowtide.merge.nodes.connecting import MergeHandle, open_node
from rowtide.merge.nodes.node import Node
from rowtide.merge.publishing.publications import (
    add_article,
    add_filter,
    add_partition,
    add_publication,
    alter_article,
    change_article,
    change_publication,
    drop_article,
    drop_partition,
    drop_publication,
)
from rowtide.merge.publishing.requests import (
    MergeArticleChanges,
    MergePublicationChanges,
    NewMergeArticle,
    NewMergePublication,
    choose_partition,
)
from rowtide.merge.session.identity_ranges import adjust_publisher, restore_pool


class MergePublishing(MergeHandle):
    """Publications and articles of a hub."""

    @contextmanager
    def _altering(self, publication: str | None = None) -> Iterator[Node]:
        with self._opened(publication) as hub:
            yield hub
            _renew_views(hub)

    def _opened(self, publication: str | None) -> AbstractContextManager[Node]:
        return open_node(self.url) if publication is None else self._open_hub(publication)

    @takes(NewMergePublication)
    def add_publication(self, publication: NewMergePublication) -> Publication:
        """Create a publication (SQL Server: sp_addmergepublication). Raises `MergePublicationExists`."""
        with self._altering() as hub:
            return add_publication(hub, publication)

    @takes(MergePublicationChanges)
    def change_publication(self, changes: MergePublicationChanges) -> Publication:
        """Change a publication (SQL Server: sp_changemergepublication). Raises `MergePublicationUnknown`."""
        with self._altering(changes.name) as hub:
            return change_publication(hub, changes)

    @takes(NewMergeArticle)
    def add_article(self, article: NewMergeArticle) -> Article:
        """Publish a table and start tracking its changes (SQL Server: sp_addmergearticle).

        Raises `MergePublicationUnknown`, `ArticleTableNotFound`,
        `MergeKeyMissing`, `MergeArticleExists`, `ColumnsRefused`, `ResolverUnknown`, `ResolverRefused`,
        `UploadOptionsRefused`, `FilterRefused`, `RecordOptionsRefused`, `KeyNotNumbered`, `SubscriptionsLeft`.
        """
        with self._altering(article.publication) as hub:
            return add_article(hub, article.publication, article.table, article)

    def add_filter(
        self,
        publication: str,
        child: str,
        parent: str,
        condition: str,
        *,
        unique_key: bool = False,
        filter_type: FilterType = FilterType.JOIN,
    ) -> Article:
        """Add a join filter: a child's rows follow the parent's rows that they join to (SQL Server: sp_addmergefilter).

        `condition` qualifies each column with its table; `unique_key` promises that a child's row matches one row of
        the parent at most. Raises `MergePublicationUnknown`, `MergeArticleUnknown`,
        `JoinFilterRefused`, `FilterRefused`, `RecordLinkRefused`, `SubscriptionsLeft`.
        """
        join = JoinFilter(parent, condition, unique_key, member_of(FilterType, filter_type, "filter_type"))
        with self._altering(publication) as hub:
            return add_filter(hub, publication, child, join)

    @takes(MergeArticleChanges)
    def change_article(self, changes: MergeArticleChanges) -> Article:
        """Change an article's filters and options (SQL Server: sp_changemergearticle).

        Subscribers follow at their next synchronisation; for new `upload_options` they must be reinitialized. Raises
        `MergePublicationUnknown`, `MergeArticleUnknown`, `FilterRefused`, `JoinFilterRefused`, `PartitionValueMissing`,
        `PartitionValueUnfit`, `ResolverUnknown`, `ResolverRefused`, `KeyChanged`, `ColumnNeeded`,
        `UploadOptionsRefused`, `MergeArticleExists`.
        """
        with self._altering(changes.publication) as hub:
            return change_article(hub, changes)

    def alter_article(self, publication: str, article: str, clause: str) -> Article:
        """Alter an article's table, and take the change into its definition at once; subscribers follow.

        `clause` is what follows `alter table NAME` in the hub's SQL. Any program may alter the table by itself, too:
        the next synchronisation notices. Raises `MergePublicationUnknown`, `MergeArticleUnknown`, `KeyChanged`,
        `ColumnNeeded`.
        """
        with self._altering(publication) as hub:
            return alter_article(hub, publication, article, clause)

    def add_partition(
        self,
        publication: str,
        partition: Partition | None = None,
        *,
        host_name: str | None = None,
        login: str | None = None,
    ) -> int:
        """Create a partition before the first subscription to it (SQL Server: sp_addmergepartition); return its number.

        Raises `MergePublicationUnknown`, `OptionsContradict`.
        """
        chosen = choose_partition(partition, host_name, login)
        with self._altering(publication) as hub:
            return add_partition(hub, publication, chosen)

    def drop_partition(
        self,
        publication: str,
        partition: Partition | None = None,
        *,
        host_name: str | None = None,
        login: str | None = None,
    ) -> bool:
        """Remove a partition that `add_partition` created (SQL Server: sp_dropmergepartition); return whether it did.

        One with subscriptions goes with the last of them. Raises `MergePublicationUnknown`, `OptionsContradict`.
        """
        chosen = choose_partition(partition, host_name, login)
        with self._altering(publication) as hub:
            return drop_partition(hub, publication, chosen)

    def drop_article(self, publication: str, article: str) -> None:
        """Remove a table from a publication (SQL Server: sp_dropmergearticle).

        While there are subscriptions, the hub tracks it until each has uploaded what it had changed; tables and rows
        stay everywhere. Raises `MergePublicationUnknown`, `MergeArticleUnknown`, `JoinFilterRefused`.
        """
        with self._altering(publication) as hub:
            drop_article(hub, publication, article)

    def drop_publication(self, name: str) -> None:
        """Drop a publication (SQL Server: sp_dropmergepublication).

        Raises `MergePublicationUnknown`, `SubscriptionsLeft`.
        """
        with removing(), self._altering(name) as hub:
            drop_publication(hub, name)


class MergeRehearsal(MergePublishing):
    """The same calls without effect; `statements` has what they would run."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.statements: list[str] = []

    @contextmanager
    def _altering(self, publication: str | None = None) -> Iterator[Node]:
        with self._opened(publication) as hub, hub.rehearsing(self.statements):
            yield hub
            _renew_views(hub)


def _renew_views(hub: Node) -> None:
    if hub.tables.is_prepared():
        hub.tables.renew_views()


def adjust_identity_range(hub: Node, publication_name: str, name: str) -> bool:
    """Give the publisher new ranges if it has used its own (SQL Server: sp_adjustpublisheridentityrange).

    Return whether it got any. Raises `MergePublicationUnknown`, `MergeArticleUnknown`, `IdentityRangeMissing`,
    `IdentityRangeExhausted`, `NodeBusy`.
    """
    return adjust_publisher(hub, *_find(hub, publication_name, name))


def restore_identity_range(hub: Node, publication_name: str, name: str) -> int:
    """Move the pool behind all numbers that may have been given (SQL Server: sp_restoremergeidentityrange).

    Return the last number that counts as given. Raises as `adjust_identity_range` does.
    """
    publication, article = _find(hub, publication_name, name)
    return restore_pool(hub, publication, article, len(list_subscriptions(hub.connection, publication.pubid)))


def _find(hub: Node, publication_name: str, name: str) -> tuple[Publication, Article]:
    publication = get_publication(hub.connection, publication_name)
    article = find_article(publication, list_articles(hub.connection, publication.pubid), name)
    if not article.identity_range:
        raise IdentityRangeMissing(article.qualified_name)
    return publication, article
