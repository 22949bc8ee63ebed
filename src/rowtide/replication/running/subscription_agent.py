"""The agent of one subscription: what its subscriber lacks is copied, then its changes are delivered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from types import TracebackType

from sqlalchemy import Engine

from rowtide.core.lsn import Position
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import read_source
from rowtide.log.manifest import Manifest
from rowtide.log.ownership import open_own_manifest
from rowtide.log.store import Store, open_store
from rowtide.replication import definitions
from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.agent import DistributionAgent
from rowtide.replication.distribution.batches import BatchLimits
from rowtide.replication.distribution.skip_errors import NOTHING_SKIPPED, SkipErrors
from rowtide.replication.errors import ArticleEnded, CommandError
from rowtide.replication.running.watchers import DroppedTable, SkippedCommand, Watchers
from rowtide.replication.snapshot.agent import SnapshotAgent
from rowtide.replication.snapshot.copies import ArticleCopy, HandOver
from rowtide.replication.snapshot.publisher import PostgresSnapshotSource
from rowtide.replication.snapshot.target import SnapshotState, SnapshotStatus, SnapshotTarget
from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.tracers import record_arrival

OpenDistribution = Callable[[SnapshotState], AbstractContextManager[DistributionAgent]]


class SubscriptionAgent:
    """A snapshot agent until its work is done, a distribution agent from then on. Use as a context manager."""

    def __init__(
        self,
        target: SnapshotTarget,
        open_snapshot: Callable[[], SnapshotAgent],
        open_distribution: OpenDistribution,
    ) -> None:
        self._target = target
        self._open_snapshot = open_snapshot
        self._open_distribution = open_distribution
        self._snapshot: SnapshotAgent | None = None
        self._distribution: DistributionAgent | None = None
        self._held = ExitStack()

    @property
    def position(self) -> Position | None:
        """Everything below is delivered; None while rows are copied."""
        return self._distribution.position if self._distribution is not None else None

    def step(self) -> bool:
        """Do one piece of work; return whether there was any. Raises what either agent raises."""
        if self._distribution is not None:
            return self._distribution.step()
        state = self._target.read_state()
        if state.status is SnapshotStatus.COPYING:
            self._snapshot = self._snapshot or self._open_snapshot()
            return self._snapshot.step()
        if state.status is SnapshotStatus.DELIVERED:
            # One connection is enough from here on.
            self._target.close()
        self._distribution = self._held.enter_context(self._open_distribution(state))
        return True

    def __enter__(self) -> SubscriptionAgent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.__exit__(kind, error, trace)


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
