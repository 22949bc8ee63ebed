"""Opening the agent of one subscription: what it delivers, from which log store, to which subscriber."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial

from sqlalchemy import Engine

from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import read_source
from rowtide.log.manifest import Manifest
from rowtide.log.store import open_store
from rowtide.replication import definitions
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.agent import DeliveryReport, DistributionAgent
from rowtide.replication.distribution.batches import BatchLimits
from rowtide.replication.postgres.delivery import PostgresDelivery
from rowtide.replication.tracers import record_arrival


@contextmanager
def open_agent(
    engine: Engine,
    url: str,
    subscription: Subscription,
    limits: BatchLimits,
    on_batch: Callable[[DeliveryReport], None] = lambda _report: None,
) -> Iterator[DistributionAgent]:
    """Open a subscription's agent, which takes the place of any before.

    It shares nothing with other agents: each may run in a thread of its own. Raises `DatabaseNotEnabled`, and what
    opening a subscriber raises.
    """
    with translated(), engine.connect() as connection:
        source = read_source(connection, url)
        articles = definitions.list_subscribed(connection, subscription.agent_id)
    store = open_store(source.log_store)
    manifest = Manifest(store)
    manifest.load()
    with closing(PostgresDelivery.open(subscription.subscriber, subscription.guid)) as delivery:
        agent = DistributionAgent(
            subscription,
            articles,
            store,
            manifest,
            delivery,
            limits=limits,
            on_batch=on_batch,
            on_token=partial(record_arrival, engine, subscription.agent_id),
        )
        yield agent
        agent.advance()
