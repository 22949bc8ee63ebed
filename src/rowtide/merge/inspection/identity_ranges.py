"""List the identity ranges that a node knows (SQL Server: MSmerge_identity_range)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from rowtide.merge.articles import Article, Publication
from rowtide.merge.catalogue import get_publication, list_articles, list_publications, read_nickname
from rowtide.merge.definitions import identity_ranges
from rowtide.merge.nodes.roles.transactions import Transactions
from rowtide.merge.progress import list_subscriptions


@dataclass(frozen=True, slots=True)
class MergeIdentityRange:
    """A node's numbers of a table: the primary range and the secondary one, both ends included.

    `node` is a subscriber, or None for the publisher. `max_used` is the last number known to be used; of the publisher
    the last one given to any node.
    """

    publication: str
    article: str
    node: str | None
    range_begin: int
    range_end: int
    next_range_begin: int
    next_range_end: int
    is_pub_range: bool
    max_used: int | None


def list_identity_ranges(node: Transactions, publication: str | None = None) -> Sequence[MergeIdentityRange]:
    """Return the ranges that a node knows, by publication and article, the publisher's first.

    Raises `MergePublicationUnknown`.
    """
    if publication is not None:
        chosen: Sequence[Publication] = [get_publication(node.connection, publication)]
    else:
        chosen = list_publications(node.connection)
    rows = node.connection.execute(select(identity_ranges)).mappings().all()
    found = []
    for each in chosen:
        articles: dict[int, Article] = {one.nickname: one for one in list_articles(node.connection, each.pubid)}
        for row in rows:
            article = articles.get(row["artid"])
            owners = _owners(node, each)
            if article is not None and row["subid"] in owners:
                found.append(
                    MergeIdentityRange(
                        each.name,
                        article.name,
                        owners[row["subid"]],
                        row["range_begin"],
                        row["range_end"],
                        row["next_range_begin"],
                        row["next_range_end"],
                        bool(row["is_pub_range"]),
                        row["max_used"],
                    )
                )
    return sorted(found, key=lambda each: (each.publication, each.article, each.node or "", each.is_pub_range))


def _owners(node: Transactions, publication: Publication) -> dict[str, str | None]:
    """Return the names of the nodes that have ranges, by their ids; None for the publisher."""
    subscriptions = list_subscriptions(node.connection, publication.pubid)
    is_publisher = publication.publisher == read_nickname(node.connection)
    owners: dict[str, str | None] = {one.subid: one.subscriber for one in subscriptions}
    return owners | ({publication.pubid: None} if is_publisher else {})
