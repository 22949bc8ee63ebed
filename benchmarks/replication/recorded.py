"""The calls of a backlog, taken down once and sent again by libpq's pipeline: what a subscriber can take of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing

from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.databases.postgres.connect import open_engine
from rowtide.log.catalogue import read_source
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest
from rowtide.replication.articles.schema_changes import Followed
from rowtide.replication.distribution.agent import DistributionAgent
from rowtide.replication.distribution.calls.ordered import OrderedCalls, ProcedureCall
from rowtide.replication.distribution.delivery_interface import Delivery, DeliveryProgress, JoiningArticle
from rowtide.replication.distribution.run_context import DeliveryContext
from rowtide.replication.distributor import subscription_records
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import CommandError
from rowtide.replication.targets.postgres.calls.procedures import call
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.postgres.delivery.pipeline import Pipeline

Batch = list[ProcedureCall]


class CallRefused(Exception):
    """The subscriber refused a call that was taken down."""


class Recording:
    """A `Delivery` that keeps the calls of each batch."""

    def __init__(self, position: Position) -> None:
        self.progress = DeliveryProgress(position, 0, 0)
        self.batches: list[Batch] = []

    def begin(self, *, one_by_one: bool = False, committed_us: int | None = None) -> None:  # noqa: ARG002 - calls are kept one by one, without times
        self.batches.append([])

    def begin_early(self) -> None:
        """Never."""

    def run(self, calls: OrderedCalls) -> None:
        self.batches[-1] += calls

    def alter(self, followed: Followed) -> None:
        raise CallRefused(f"{followed.before.table} was altered, which is not measured")

    def join(self, joining: JoiningArticle) -> None:
        raise CallRefused(f"{joining.article.table} joins, which is not measured")

    def flush(self) -> None:
        pass

    def end(self, reached: Position) -> Sequence[CommandError]:
        self.progress = DeliveryProgress(reached, self.progress.batch + 1, 0)
        return ()

    def close(self) -> None:
        pass


def record(url: str, subscription: Subscription, target: int) -> tuple[Sequence[Batch], float]:
    """Return the batches of a subscription up to a log position, and the seconds of reading and encoding them."""
    recording = Recording(min(subscription.starts.values()))
    return recording.batches, deliver(url, subscription, target, recording)


def deliver(url: str, subscription: Subscription, target: int, delivery: Delivery) -> float:
    """Deliver a subscription up to a log position by a delivery of one's own; return the seconds."""
    engine = open_engine(url)
    with engine.connect() as connection:
        log_store = read_source(connection, url).log_store
        articles = subscription_records.list_subscribed(connection, subscription.agent_id)
    began = time.monotonic()
    manifest = Manifest.open(open_store(log_store))
    agent = DistributionAgent(DeliveryContext(url, engine), subscription, articles, manifest, delivery)
    while agent.position.log <= target:
        agent.step()
    return time.monotonic() - began


def send(batches: Sequence[Batch], subscriber: str) -> float:
    """Run batches, each a transaction, waiting only for the last; return the seconds. Raises `CallRefused`."""
    names: dict[tuple[str, Operation], bytes] = {}
    began = time.monotonic()
    with closing(connect(subscriber, application_name="benchmark")) as connection:
        pipeline = Pipeline(connection)
        for batch in batches:
            pipeline.execute("begin")
            for _, _, article, operation, arguments in batch:
                called = (article.article_id, operation)
                if called not in names:
                    names[called] = b"call_%d" % len(names)
                    pipeline.prepare(names[called], call(article, operation))
                pipeline.run(names[called], arguments)
            pipeline.execute("commit")
        refused = pipeline.synchronize()
    if refused is not None:
        raise CallRefused(refused.message)
    return time.monotonic() - began
