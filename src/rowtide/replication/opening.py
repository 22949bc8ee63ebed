"""Opening the agent of a subscription: the publisher, the log store and the subscriber, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import Engine

from rowtide.core.lsn import Position
from rowtide.log.manifest import Manifest
from rowtide.log.store import Store
from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.agent import DeliveryReport, DistributionAgent
from rowtide.replication.distribution.batches import BatchLimits
from rowtide.replication.postgres.delivery import PostgresDelivery
from rowtide.replication.postgres.snapshot_source import PostgresSnapshotSource
from rowtide.replication.postgres.snapshot_target import PostgresSnapshotTarget
from rowtide.replication.snapshot.agent import SnapshotAgent, SnapshotReport
from rowtide.replication.snapshot.copies import ArticleCopy, HandOver
from rowtide.replication.snapshot.target import SnapshotState
from rowtide.replication.subscription_agent import SubscriptionAgent


@dataclass(frozen=True, slots=True)
class Watchers:
    """Who is told of what agents do."""

    on_batch: Callable[[DeliveryReport], None] = lambda _report: None
    on_snapshot: Callable[[SnapshotReport], None] = lambda _report: None


@contextmanager
def open_subscription(
    engine: Engine,
    url: str,
    subscription: Subscription,
    articles: Sequence[Article],
    store: Store,
    manifest: Manifest,
    limits: BatchLimits,
    watchers: Watchers,
) -> Iterator[SubscriptionAgent]:
    """Open a subscription's agent, which takes the place of any before. Raises what opening a subscriber raises."""
    source = PostgresSnapshotSource(engine, url)
    known = {article.article_id: article for article in articles}
    epoch = manifest.refresh().epoch

    def open_snapshot() -> SnapshotAgent:
        return SnapshotAgent(
            source, target, articles, subscription.subscriber, epoch=epoch, on_report=watchers.on_snapshot
        )

    def plan_hand_over(state: SnapshotState, end: Position) -> HandOver:
        grouped = groupby(state.copied, key=lambda copied: copied.chunk.article_id)
        copies = {
            article_id: ArticleCopy(known[article_id], tuple(chunks), source.locate) for article_id, chunks in grouped
        }
        return HandOver(end, copies, target.finish)

    @contextmanager
    def open_distribution(hand_over: HandOver | None) -> Iterator[DistributionAgent]:
        with closing(PostgresDelivery.open(subscription.subscriber, subscription.guid)) as delivery:
            yield DistributionAgent(
                subscription,
                articles,
                store,
                manifest,
                delivery,
                limits=limits,
                on_batch=watchers.on_batch,
                hand_over=hand_over,
            )

    with (
        closing(PostgresSnapshotTarget.open(subscription.subscriber, subscription.guid)) as target,
        SubscriptionAgent(target, open_snapshot, plan_hand_over, open_distribution) as agent,
    ):
        yield agent
