"""Lists of publications, articles and filters (SQL Server: sp_helpmergepublication, sp_helpmergearticle)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rowtide.merge.articles import Article, Publication
from rowtide.merge.catalogue import get_publication, list_articles, list_publications, read_nickname
from rowtide.merge.nodes.roles.transactions import Transactions
from rowtide.merge.progress import list_subscriptions


@dataclass(frozen=True, slots=True)
class MergePublication:
    """A publication as a node has it (SQL Server: sp_helpmergepublication).

    `run_as`: with whose rights the code of tables of other roles runs that this node writes.
    """

    publication: str
    role: str
    articles: int
    subscriptions: int
    retention_days: int
    run_as: str


@dataclass(frozen=True, slots=True)
class MergeArticle:
    """A merged table and its resolver (SQL Server: sp_helpmergearticle)."""

    publication: str
    article: str
    source_owner: str
    source_object: str
    columns: tuple[str, ...]
    column_tracking: bool
    resolver: str
    subset_filter: str | None
    partition_options: int
    subscriber_upload_options: int
    compensate_for_errors: bool
    on_unseen_children: str
    processing_order: int


@dataclass(frozen=True, slots=True)
class MergeFilter:
    """A row filter, or a join filter with its parent (SQL Server: sp_helpmergefilter).

    `filter_type`: 1 join filter, 2 link of logical records, 3 both.
    """

    publication: str
    article: str
    parent: str | None
    condition: str
    join_unique_key: bool | None
    filter_type: int | None


def list_merge_publications(node: Transactions) -> Sequence[MergePublication]:
    """Return the publications that a node takes part in."""
    own = read_nickname(node.connection)
    return tuple(
        MergePublication(
            publication=publication.name,
            role="publisher" if publication.publisher == own else "subscriber",
            articles=len(list_articles(node.connection, publication.pubid)),
            subscriptions=len(list_subscriptions(node.connection, publication.pubid)),
            retention_days=publication.retention_days,
            run_as=publication.run_as.value,
        )
        for publication in list_publications(node.connection)
    )


def list_merge_articles(node: Transactions, publication: str | None = None) -> Sequence[MergeArticle]:
    """Return the articles of a publication, or of all. Raises `MergePublicationUnknown`."""
    return tuple(
        MergeArticle(
            publication=found.name,
            article=article.name,
            source_owner=article.schema,
            source_object=article.table,
            columns=tuple(column.name for column in article.columns),
            column_tracking=article.column_tracking,
            resolver=article.resolver,
            subset_filter=article.subset_filter,
            partition_options=int(article.partition_options),
            subscriber_upload_options=int(article.subscriber_upload_options),
            compensate_for_errors=article.compensate_for_errors,
            on_unseen_children=article.on_unseen_children.value,
            processing_order=article.processing_order,
        )
        for found, article in _articles(node, publication)
    )


def list_merge_filters(node: Transactions, publication: str | None = None) -> Sequence[MergeFilter]:
    """Return row filters and join filters of a publication, or of all. Raises `MergePublicationUnknown`."""
    filters = []
    for found, article in _articles(node, publication):
        if article.subset_filter is not None:
            filters.append(MergeFilter(found.name, article.name, None, article.subset_filter, None, None))
        filters += [
            MergeFilter(found.name, article.name, join.parent, join.condition, join.unique_key, int(join.filter_type))
            for join in article.join_filters
        ]
    return tuple(filters)


def _articles(node: Transactions, publication: str | None) -> Sequence[tuple[Publication, Article]]:
    known = list_publications(node.connection)
    chosen = known if publication is None else (get_publication(node.connection, publication),)
    return [(found, article) for found in chosen for article in list_articles(node.connection, found.pubid)]
