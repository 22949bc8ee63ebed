"""Compare subscribers' rows with the published ones while both change (SQL Server: sp_publication_validation).

Each side is read in its own snapshot; the publisher's value is moved along the log to the subscriber's position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, Engine

from rowtide.core.lsn import Position
from rowtide.core.secrets import redact
from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles.articles import Article
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.publishing import ArticleUnknown
from rowtide.replication.inspection.compare_options import CompareOptions, RowValidation
from rowtide.replication.inspection.comparing import Comparison, Wanted, compare_all
from rowtide.replication.inspection.moving import add_to_buckets, total
from rowtide.replication.publisher import read_source
from rowtide.replication.targets.compared_rows import Fingerprint
from rowtide.replication.targets.divisions import WHOLE

PASSED, FAILED = 20575, 20574
"""SQL Server's messages."""


@dataclass(frozen=True, slots=True)
class ArticleValidation:
    """The result for one article at one subscriber, of the same position in the log on both sides.

    It is `passed`, `failed`, or `not compared` for the reason given, without a message and numbers. Checksums are None
    if only rows were counted. `left_out` are columns of the published table that the subscriber does not get, and that
    are not compared.
    """

    publication: str
    subscriber: str
    article: str
    result: str
    message: int | None
    published_rows: int | None
    subscriber_rows: int | None
    published_checksum: str | None
    subscriber_checksum: str | None
    left_out: tuple[str, ...] = ()
    position: Position | None = None
    reason: str | None = None


def validate(engine: Engine, url: str, wanted: Sequence[Wanted], options: RowValidation) -> Sequence[ArticleValidation]:
    """Compare the articles of subscriptions. Raises as `compare_all`."""
    compare = partial(_compare, with_checksum=options.checksum)
    return list(compare_all(engine, url, wanted, options, compare, _not_compared))


def find_wanted(engine: Engine, url: str, options: CompareOptions) -> Sequence[Wanted]:
    """Return subscriptions with their articles: those that are named, or all.

    Raises `PublicationUnknown`, `SubscriptionUnknown`, `ArticleUnknown`.
    """
    publication, subscriber, article = options.publication, options.subscriber, options.article
    with translated(), engine.connect() as connection:
        read_source(connection, url)
        publication_records.get_publication(connection, publication)
        subscriptions = (
            subscription_records.list_subscriptions(connection, publication)
            if subscriber is None
            else (subscription_records.get_subscription(connection, publication, subscriber),)
        )
        chosen = [(one, _choose_articles(connection, one, article)) for one in subscriptions]
    found = [(one, articles) for one, articles in chosen if articles]
    if article is not None and not found:
        raise ArticleUnknown.of(article, publication)
    return found


def _choose_articles(connection: Connection, subscription: Subscription, name: str | None) -> Sequence[Article]:
    subscribed = subscription_records.list_subscribed(connection, subscription.agent_id)
    return subscribed if name is None else publication_records.find_named(connection, subscribed, name)


def _compare(comparison: Comparison, article: Article, *, with_checksum: bool) -> Iterator[ArticleValidation]:
    move = comparison.plan(article)
    published, present = comparison.read_buckets(article, WHOLE, with_checksum=with_checksum)
    changes = comparison.list_changes(move, with_values=with_checksum)
    moved = add_to_buckets(article, published, changes, WHOLE, with_checksum=with_checksum)
    theirs, ours = total(moved, with_checksum=with_checksum), total(present, with_checksum=with_checksum)
    is_equal = theirs == ours
    yield ArticleValidation(
        publication=comparison.subscription.publication,
        subscriber=redact(comparison.subscription.subscriber),
        article=article.name,
        result="passed" if is_equal else "failed",
        message=PASSED if is_equal else FAILED,
        published_rows=theirs.rows,
        subscriber_rows=ours.rows,
        published_checksum=_as_text(theirs),
        subscriber_checksum=_as_text(ours),
        left_out=tuple(column.name for column in article.left_out),
        position=move.position,
    )


def _as_text(fingerprint: Fingerprint) -> str | None:
    return None if fingerprint.checksum is None else str(fingerprint.checksum)


def _not_compared(subscription: Subscription, article: Article, reason: str) -> ArticleValidation:
    return ArticleValidation(
        publication=subscription.publication,
        subscriber=redact(subscription.subscriber),
        article=article.name,
        result="not compared",
        message=None,
        published_rows=None,
        subscriber_rows=None,
        published_checksum=None,
        subscriber_checksum=None,
        left_out=tuple(column.name for column in article.left_out),
        reason=reason,
    )
