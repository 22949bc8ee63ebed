"""One comparison of a subscriber with its publisher: both read in a snapshot each, neither locked nor stopped.

The subscriber is read first: what it has is then visible at the publisher. (SQL Server: sp_publication_validation.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection, Engine

from rowtide.core.lsn import Position
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.events.catalogue import ArticleValidated
from rowtide.events.event import emit
from rowtide.log.postgres.control_table import mark_log
from rowtide.log.store.location import open_own_manifest
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import read_segment
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.requests import CompareOptions, RowValidation
from rowtide.replication.articles.schema_changes import bound
from rowtide.replication.distribution.delivery_interface import resume_position
from rowtide.replication.distribution.reader_entry import read_log
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.distributor.claims import list_claims
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.publishing import ArticleUnknown
from rowtide.replication.inspection.rows_at_position import (
    NotComparable,
    PositionMove,
    add_to_buckets,
    find_position,
    require_between,
    total,
)
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.targets.compared_rows import (
    WHOLE,
    Buckets,
    ComparedRows,
    Division,
    Fingerprint,
    Row,
    SubscribedRows,
)
from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.targets.postgres.comparison.rows import PublishedRows, open_published

_PAUSE_S = 0.5
Found = TypeVar("Found")
Wanted = tuple[Subscription, Sequence[Article]]
"""A subscription, and those of its articles that are compared."""


@frozen
class SubscriberComparison:
    """A subscriber and its publisher, read in a snapshot each; `end`: the log has what the publisher's sees below."""

    subscription: Subscription
    published: PublishedRows
    subscribed: SubscribedRows
    manifest: Manifest
    end: Position
    articles: tuple[Article, ...]
    """As the subscriber has them."""

    def plan(self, article: Article) -> PositionMove:
        """Return how the publisher's rows come to the article's position. Raises `NotComparable`."""
        state, subscription = self.manifest.state, self.subscription
        if self.subscribed.status is not SnapshotStatus.DELIVERED:
            raise NotComparable("its rows are being copied to the subscriber")
        for constraints in (self.subscribed.constraints, self.published.constraints):
            if article.article_id in constraints:
                raise NotComparable(constraints[article.article_id])
        reader, recorded = state.readers.get(subscription.reader), self.subscribed.progress
        resumed = recorded.position if reader is None else resume_position(recorded, reader)
        position, _ = find_position(state, subscription, article, resumed)
        require_between(state, subscription, article, position, self.end)
        published = self.published
        return PositionMove(
            article,
            forwards=subscription.forwards,
            snapshot=published.snapshot,
            position=position,
            begin=Position.of(state.epoch, published.begin),
            end=self.end,
            unseen_since=published.unseen_since,
        )

    def list_changes(self, move: PositionMove, *, with_values: bool) -> Iterator[tuple[Row, int]]:
        """Yield the rows that a move adds and removes, a segment in memory at a time. Raises `NotComparable`."""
        state, store = self.manifest.state, self.manifest.store
        for segment in move.find_segments(state):
            yield from move.list_changes(state, read_segment(store, segment.path), with_values=with_values)

    def read_buckets(self, article: Article, division: Division, *, with_checksum: bool) -> tuple[Buckets, Buckets]:
        """Return the fingerprints of the publisher's rows in its snapshot, and of the subscriber's, read at once."""

        def read(rows: ComparedRows) -> Buckets:
            return rows.read_buckets(article, division, with_checksum=with_checksum)

        with ThreadPoolExecutor(1) as beside:
            # The file of a SQLite subscriber stays in the thread that opened it.
            published = beside.submit(read, self.published.rows)
            present = read(self.subscribed.rows)
            return published.result(), present


@frozen
class Publisher:
    """A publisher read in a snapshot; the log store has what it sees, which is before `end`."""

    rows: PublishedRows
    manifest: Manifest
    end: Position


@contextmanager
def open_comparison(
    engine: Engine, url: str, subscription: Subscription, articles: Sequence[Article]
) -> Iterator[SubscriberComparison]:
    """Read a subscriber and its publisher in a snapshot each.

    Raises what opening a subscriber raises, and as `open_publisher`.
    """
    # The subscriber first: everything that its snapshot has was committed at the publisher before, so the later
    # snapshot there sees it.
    with kind_of(subscription.subscriber).open_rows(subscription, articles) as subscribed:
        held = tuple(map(bound, subscribed.articles, articles))
        with open_publisher(engine, url, held) as publisher:
            yield SubscriberComparison(
                subscription, publisher.rows, subscribed, publisher.manifest, publisher.end, held
            )


@contextmanager
def open_publisher(engine: Engine, url: str, articles: Sequence[Article]) -> Iterator[Publisher]:
    """Read a publisher in a snapshot, and the log up to what that sees.

    Raises `LogNotRead`, and what reading the log raises.
    """
    with translated(), engine.connect() as connection:
        manifest = open_own_manifest(read_source(connection, url))
    with open_published(url, articles) as published:
        with translated(), engine.begin() as connection:
            # After the publisher's snapshot: all that the snapshot sees is in the log before the mark.
            mark = mark_log(connection)
        read_log(engine, url, manifest, mark)
        yield Publisher(published, manifest, Position.of(manifest.state.epoch, mark + 1))


_COPIED_STILL = "it is copied still, to join its subscription"


def compare_all(
    engine: Engine,
    url: str,
    wanted: Iterable[Wanted],
    options: CompareOptions,
    compare: Callable[[SubscriberComparison, Article], Iterator[Found]],
    not_compared: Callable[[Subscription, Article, str], Found],
) -> Generator[Found]:
    """Yield what is found in each article of subscriptions.

    One for which `compare` raises `NotComparable` is compared again for a while, as long as a process delivers; then
    `not_compared` says why it was not. Raises as `open_comparison`.
    """
    for subscription, articles in wanted:
        if subscription.joins is not None:
            yield from (not_compared(subscription, article, _COPIED_STILL) for article in articles)
            continue
        deadline = time.monotonic() + options.wait_s
        waiting = list(articles)
        while waiting:
            is_last = time.monotonic() >= deadline or not _is_delivered(engine, subscription)
            again: list[Article] = []
            with open_comparison(engine, url, subscription, waiting) as comparison:
                for number, (article, known) in enumerate(zip(comparison.articles, waiting, strict=True), 1):
                    options.on_compare(redact(subscription.subscriber), article.name, number, len(waiting))
                    try:
                        yield from compare(comparison, article)
                    except NotComparable as error:
                        if is_last or not error.may_pass:
                            yield not_compared(subscription, article, error.reason)
                        else:
                            again.append(known)
            # Compared again in new snapshots: what delivery lacked before may have arrived.
            waiting = again
            if waiting:
                time.sleep(_PAUSE_S)


def _is_delivered(engine: Engine, subscription: Subscription) -> bool:
    if subscription.state is not SubscriptionState.ACTIVE:
        return False
    with translated(), engine.connect() as connection:
        return subscription.agent_id in list_claims(connection)


PASSED, FAILED = 20575, 20574
"""SQL Server's messages."""


@frozen
class ArticleValidation:
    """The result for one article at one subscriber, of the same position in the log on both sides.

    It is `passed`, `failed`, or `not compared` for the reason given, without a message and numbers. Checksums are None
    if only rows were counted. `left_out` are columns of the published table that the subscriber does not get, and that
    are not compared, whether a schema change was read that added them or not.
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
    found = list(compare_all(engine, url, wanted, options, compare, _not_compared))
    for one in found:
        if one.message is not None:
            emit(ArticleValidated(one.publication, one.subscriber, one.article, one.message == PASSED))
    return found


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


def _compare(comparison: SubscriberComparison, article: Article, *, with_checksum: bool) -> Iterator[ArticleValidation]:
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
        left_out=_list_left_out(comparison, article),
        position=move.position,
    )


def _list_left_out(comparison: SubscriberComparison, article: Article) -> tuple[str, ...]:
    known = [column.name for column in article.left_out]
    found = comparison.published.unpublished.get(article.article_id, ())
    return tuple(dict.fromkeys((*known, *found)))


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
