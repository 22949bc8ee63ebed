"""Running replication: the log reader where nobody else has it, and an agent for each subscription."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from sqlalchemy import Engine

from rowtide.agents.log_reader import LogReaderProcess
from rowtide.agents.loop import Agent, run_agent
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import read_source
from rowtide.log.manifest import Manifest
from rowtide.log.postgres.lease import describe_holder
from rowtide.log.postgres.membership import mark_log
from rowtide.log.store import open_store
from rowtide.replication import definitions
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.agent import DeliveryReport, DistributionAgent
from rowtide.replication.distribution.batches import BatchLimits
from rowtide.replication.distribution.delivery import Delivery
from rowtide.replication.subscribers import kind_of

_IDLE_S = 0.1
_ONCE = "rowtide.once"


def run_replication(
    url: str,
    *,
    publication: str | None,
    once: bool,
    stop: threading.Event,
    limits: BatchLimits,
    on_batch: Callable[[DeliveryReport], None],
    on_retry: Callable[[RowtideError, float], None],
) -> None:
    """Read the log and deliver until `stop` is set; `once`: until all that was committed before is delivered.

    Raises what needs a decision, of any of the subscriptions.
    """
    run = _Run(url, publication, stop, limits, on_batch, on_retry, is_once=once)
    run_agent(run.open, stop=stop, idle_s=_IDLE_S, on_retry=on_retry)


@contextmanager
def open_agents(
    engine: Engine,
    url: str,
    publication: str | None,
    limits: BatchLimits,
    on_batch: Callable[[DeliveryReport], None] = lambda _report: None,
) -> Iterator[Sequence[DistributionAgent]]:
    """Open the agents of a publication's subscriptions, or of all; each takes the place of any before.

    Raises `DatabaseNotEnabled`, `PublicationUnknown`, and what opening a subscriber raises.
    """
    with translated(), engine.connect() as connection:
        source = read_source(connection, url)
        if publication is not None:
            definitions.get_publication(connection, publication)
        subscriptions = definitions.list_subscriptions(connection, publication)
        articles = [definitions.list_subscribed(connection, found.agent_id) for found in subscriptions]
    store = open_store(source.log_store)
    # One for all: they take turns.
    manifest = Manifest(store)
    manifest.load()
    with ExitStack() as stack:
        yield [
            DistributionAgent(
                subscription,
                subscribed,
                store,
                manifest,
                stack.enter_context(closing(_open_delivery(subscription))),
                limits=limits,
                on_batch=on_batch,
            )
            for subscription, subscribed in zip(subscriptions, articles, strict=True)
        ]


def _open_delivery(subscription: Subscription) -> Delivery:
    return kind_of(subscription.subscriber).open_delivery(subscription.subscriber, subscription.guid)


class _Run:
    """What a run keeps, however often it is opened."""

    def __init__(
        self,
        url: str,
        publication: str | None,
        stop: threading.Event,
        limits: BatchLimits,
        on_batch: Callable[[DeliveryReport], None],
        on_retry: Callable[[RowtideError, float], None],
        *,
        is_once: bool,
    ) -> None:
        self._url = url
        self._publication = publication
        self._stop = stop
        self._limits = limits
        self._on_batch = on_batch
        self._on_retry = on_retry
        self._is_once = is_once
        self._target: int | None = None
        self._has_run = False
        self._engine = open_engine(url, application_name=f"rowtide replication on {describe_holder()}")

    @contextmanager
    def open(self) -> Iterator[Agent]:
        if self._is_once and self._target is None:
            with translated(), self._engine.begin() as connection:
                read_source(connection, self._url)
                self._target = mark_log(connection, _ONCE)
        with (
            open_agents(self._engine, self._url, self._publication, self._limits, self._on_batch) as agents,
            LogReaderProcess(self._url, self._on_retry, has_run=self._has_run) as reader,
        ):
            self._has_run = True
            yield _Distributor(agents, reader, self._target, self._stop)


class _Distributor:
    """The agents of a run, in turn, while the log reader is kept running."""

    def __init__(
        self, agents: Sequence[DistributionAgent], reader: LogReaderProcess, target: int | None, stop: threading.Event
    ) -> None:
        self._agents = agents
        self._reader = reader
        self._target = target
        self._stop = stop

    def step(self) -> bool:
        self._reader.keep_running()
        worked = [agent.step() for agent in self._agents]
        if self._target is not None and all(agent.position.log > self._target for agent in self._agents):
            self._stop.set()
        return any(worked)
