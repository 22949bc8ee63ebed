"""Look after a publisher's identity ranges."""

from __future__ import annotations

from rowtide.merge.articles import Article, Publication
from rowtide.merge.catalogue import find_article, get_publication, list_articles
from rowtide.merge.errors.rows import IdentityRangeMissing
from rowtide.merge.nodes.node import Node
from rowtide.merge.progress import list_subscriptions
from rowtide.merge.session.identity_ranges import adjust_publisher, restore_pool


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
