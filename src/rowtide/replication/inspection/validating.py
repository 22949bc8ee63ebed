"""Compare subscribers' rows with the published ones (SQL Server: sp_publication_validation).

Each side is read in its own snapshot: undelivered changes count as differences. Stop writes to the publication and let
everything be delivered first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from rowtide.core.secrets import redact
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import read_source
from rowtide.replication import definitions
from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.targets.fingerprints import Fingerprint
from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.targets.postgres.fingerprints import read_published

PASSED, FAILED = 20575, 20574
"""SQL Server's messages."""


@dataclass(frozen=True, slots=True)
class ArticleValidation:
    """The result for one article at one subscriber; checksums are None if only rows were counted.

    `left_out` are columns of the published table that the subscriber does not get, and that are not compared.
    """

    publication: str
    subscriber: str
    article: str
    result: str
    message: int
    published_rows: int
    subscriber_rows: int
    published_checksum: str | None
    subscriber_checksum: str | None
    left_out: tuple[str, ...] = ()


def validate(engine: Engine, url: str, publication: str, *, with_checksum: bool) -> Sequence[ArticleValidation]:
    """Compare each article of each subscription. Raises `PublicationUnknown`, and what connecting raises."""
    with translated(), engine.connect() as connection:
        read_source(connection, url)
        definitions.get_publication(connection, publication)
        subscriptions = definitions.list_subscriptions(connection, publication)
        articles = [definitions.list_subscribed(connection, found.agent_id) for found in subscriptions]
    found: list[ArticleValidation] = []
    for subscription, subscribed in zip(subscriptions, articles, strict=True):
        published = read_published(url, subscribed, with_checksum=with_checksum)
        subscriber = subscription.subscriber
        present = kind_of(subscriber).read_fingerprints(subscriber, subscribed, with_checksum=with_checksum)
        found += compare(subscription, subscribed, published, present)
    return found


def compare(
    subscription: Subscription,
    articles: Sequence[Article],
    published: Sequence[Fingerprint],
    present: Sequence[Fingerprint],
) -> Iterator[ArticleValidation]:
    """Return for each article whether both sides are equal. Pure."""
    for article, theirs, ours in zip(articles, published, present, strict=True):
        is_equal = theirs == ours
        yield ArticleValidation(
            publication=subscription.publication,
            subscriber=redact(subscription.subscriber),
            article=article.name,
            result="passed" if is_equal else "failed",
            message=PASSED if is_equal else FAILED,
            published_rows=theirs.rows,
            subscriber_rows=ours.rows,
            published_checksum=theirs.checksum,
            subscriber_checksum=ours.checksum,
            left_out=tuple(column.name for column in article.left_out),
        )
