"""Opening the agent of one subscription: what it copies and delivers, from which publisher, to which subscriber."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from sqlalchemy import Engine

from rowtide.core.lsn import Position
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import read_source
from rowtide.log.manifest import Manifest
from rowtide.log.possession import open_own_manifest
from rowtide.log.store import Store, open_store
from rowtide.replication import definitions
from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.agent import DistributionAgent
from rowtide.replication.distribution.batches import BatchLimits
from rowtide.replication.errors import ArticleEnded, CommandError
from rowtide.replication.postgres.snapshot_source import PostgresSnapshotSource
from rowtide.replication.skip_errors import NOTHING_SKIPPED, SkipErrors
from rowtide.replication.snapshot.agent import SnapshotAgent
from rowtide.replication.snapshot.copies import ArticleCopy, HandOver
from rowtide.replication.snapshot.target import SnapshotState, SnapshotTarget
from rowtide.replication.subscribers import kind_of
from rowtide.replication.subscription_agent import SubscriptionAgent
from rowtide.replication.tracers import record_arrival
from rowtide.replication.watchers import DroppedTable, SkippedCommand, Watchers


@contextmanager
def open_agent(
    engine: Engine,
    url: str,
    subscription: Subscription,
    limits: BatchLimits,
    watchers: Watchers,
    skips: SkipErrors = NOTHING_SKIPPED,
) -> Iterator[SubscriptionAgent]:
    """Open a subscription's agent, which takes the place of any before.

    It shares nothing with other agents: each may run in a thread of its own. Raises `DatabaseNotEnabled`, and what
    opening a subscriber raises.
    """
    with translated(), engine.connect() as connection:
        source = read_source(connection, url)
        articles = definitions.list_subscribed(connection, subscription.agent_id)
    store = open_store(source.log_store)
    manifest = open_own_manifest(source, store)
    with closing(kind_of(subscription.subscriber).open_snapshot(subscription)) as target:
        parts = _Parts(engine, url, subscription, articles, store, manifest, target, limits, watchers, skips)
        with SubscriptionAgent(target, parts.open_snapshot, parts.open_distribution) as agent:
            yield agent


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a subscription's two agents are made of."""

    engine: Engine
    url: str
    subscription: Subscription
    articles: tuple[Article, ...]
    store: Store
    manifest: Manifest
    target: SnapshotTarget
    limits: BatchLimits
    watchers: Watchers
    skips: SkipErrors

    def open_snapshot(self) -> SnapshotAgent:
        return SnapshotAgent(
            self._source,
            self.target,
            self.articles,
            self.subscription.subscriber,
            epoch=self.manifest.refresh().epoch,
            on_report=self.watchers.on_snapshot,
        )

    @contextmanager
    def open_distribution(self, state: SnapshotState) -> Iterator[DistributionAgent]:
        opened = kind_of(self.subscription.subscriber).open_delivery(self.subscription, self.articles, self.skips)
        with closing(opened) as delivery:
            agent = DistributionAgent(
                self.subscription,
                self.articles,
                self.store,
                self.manifest,
                delivery,
                limits=self.limits,
                on_batch=self.watchers.on_batch,
                on_token=partial(record_arrival, self.engine, self.subscription.agent_id),
                on_skipped=self._tell_skipped,
                on_dropped=self._tell_dropped,
                hand_over=None if state.end is None else self._plan_hand_over(state, state.end),
            )
            yield agent
            agent.advance()

    def _tell_skipped(self, error: CommandError) -> None:
        self.watchers.on_skipped(SkippedCommand(self.subscription, error))

    def _tell_dropped(self, error: ArticleEnded) -> None:
        self.watchers.on_dropped(DroppedTable(self.subscription, error))

    def _plan_hand_over(self, state: SnapshotState, end: Position) -> HandOver:
        known = {article.article_id: article for article in self.articles}
        grouped = groupby(state.copied, key=lambda copied: copied.chunk.article_id)
        copies = {
            article_id: ArticleCopy(known[article_id], tuple(chunks), self._source.locate)
            for article_id, chunks in grouped
        }
        return HandOver(end, copies, self._finish_snapshot)

    def _finish_snapshot(self) -> None:
        self.target.finish()
        self.target.close()

    @property
    def _source(self) -> PostgresSnapshotSource:
        return PostgresSnapshotSource(self.engine, self.url)
