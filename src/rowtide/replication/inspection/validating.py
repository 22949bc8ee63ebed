"""Compare subscribers' rows with the published ones while both change (SQL Server: sp_publication_validation).

Each side is read in its own snapshot; the publisher's value is moved along the log to the subscriber's position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from rowtide.core.lsn import Position
from rowtide.core.secrets import redact
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import read_source
from rowtide.replication import definitions
from rowtide.replication.articles import Article
from rowtide.replication.claims import list_claims
from rowtide.replication.definitions import Subscription, SubscriptionState
from rowtide.replication.errors import ArticleUnknown
from rowtide.replication.inspection.comparing import Comparison, open_comparison
from rowtide.replication.inspection.moving import NotComparable, add_to_buckets, total
from rowtide.replication.targets.fingerprints import Fingerprint

PASSED, FAILED = 20575, 20574
"""SQL Server's messages."""
_POLL_S = 0.5

OnCompare = Callable[[str, str, int, int], None]
"""Called before an article is compared, with the subscriber, its table, its number from 1 and the number of all."""


@dataclass(frozen=True, slots=True)
class ValidationRequest:
    """What is compared: row counts, or also checksums; one article or all, at one subscriber or at all.

    What delivery keeps from being compared is tried again for `wait_s`, while a process delivers.
    """

    with_checksum: bool = False
    article: str | None = None
    subscriber: str | None = None
    wait_s: float = 10.0


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


def validate(
    engine: Engine,
    url: str,
    publication: str,
    request: ValidationRequest,
    on_compare: OnCompare = lambda _subscriber, _table, _number, _of: None,
) -> Sequence[ArticleValidation]:
    """Compare the articles of subscriptions.

    Raises `PublicationUnknown`, `SubscriptionUnknown`, `ArticleUnknown`, `LogNotRead`, and what connecting raises.
    """
    with translated(), engine.connect() as connection:
        read_source(connection, url)
        wanted = find_wanted(connection, publication, request.article, request.subscriber)
    results: list[ArticleValidation] = []
    for subscription, articles in wanted:
        results += _validate(engine, url, subscription, articles, request, on_compare)
    return results


def find_wanted(
    connection: Connection, publication: str, article: str | None, subscriber: str | None
) -> Sequence[tuple[Subscription, Sequence[Article]]]:
    """Return subscriptions with their articles: those that are named, or all."""
    definitions.get_publication(connection, publication)
    subscriptions = (
        definitions.list_subscriptions(connection, publication)
        if subscriber is None
        else (definitions.get_subscription(connection, publication, subscriber),)
    )
    found: list[tuple[Subscription, Sequence[Article]]] = []
    for subscription in subscriptions:
        subscribed = definitions.list_subscribed(connection, subscription.agent_id)
        articles = [one for one in subscribed if article in (None, one.name, f"{one.schema}.{one.table}")]
        if article is not None and not articles:
            raise ArticleUnknown(article, publication)
        found.append((subscription, articles))
    return found


def _validate(
    engine: Engine,
    url: str,
    subscription: Subscription,
    articles: Sequence[Article],
    request: ValidationRequest,
    on_compare: OnCompare,
) -> Sequence[ArticleValidation]:
    """Compare the articles of one subscription; those that cannot be compared yet again, as long as is waited."""
    deadline = time.monotonic() + request.wait_s
    results: dict[str, ArticleValidation] = {}
    waiting = list(articles)
    while waiting:
        is_last = time.monotonic() >= deadline or not _is_delivered(engine, subscription)
        again: list[Article] = []
        with open_comparison(engine, url, subscription, waiting) as comparison:
            for number, article in enumerate(comparison.articles, 1):
                on_compare(redact(subscription.subscriber), article.name, number, len(waiting))
                try:
                    results[article.article_id] = _compare(comparison, article, with_checksum=request.with_checksum)
                except NotComparable as error:
                    results[article.article_id] = _not_compared(subscription, article, error.reason)
                    again += [one for one in waiting if one.article_id == article.article_id and error.may_pass]
        waiting = [] if is_last else again
        if waiting:
            time.sleep(_POLL_S)
    return [results[article.article_id] for article in articles]


def _is_delivered(engine: Engine, subscription: Subscription) -> bool:
    if subscription.state is not SubscriptionState.ACTIVE:
        return False
    with translated(), engine.connect() as connection:
        return subscription.agent_id in list_claims(connection)


def _compare(comparison: Comparison, article: Article, *, with_checksum: bool) -> ArticleValidation:
    move = comparison.plan(article)
    published, present = comparison.read_buckets(article, 1, with_checksum=with_checksum)
    changes = comparison.list_changes(move, with_values=with_checksum)
    moved = add_to_buckets(article, published, changes, 1, with_checksum=with_checksum)
    theirs, ours = total(moved, with_checksum=with_checksum), total(present, with_checksum=with_checksum)
    is_equal = theirs == ours
    return ArticleValidation(
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


def reasons(results: Sequence[ArticleValidation]) -> Iterator[str]:
    """Yield why articles were not compared."""
    for one in results:
        if one.reason is not None:
            yield f"{one.article} at {one.subscriber}: {one.reason}"
