"""Deliver backlogs with Spark: one task per subscription, so that a cluster delivers to many subscribers at once.

A task is the distribution agent itself. If Spark runs a task again, or twice, the later one takes over: the epoch at
the subscriber fences the earlier one. The rest, and later changes, are delivered without Spark.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import Position
from rowtide.core.redaction import hiding_alike
from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import parse_url
from rowtide.lake.jars import lack_named
from rowtide.lake.session import pinned, require_reachable, spark_watched
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.store.location import open_own_manifest
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.replication.distribution.run_context import DeliveryContext, DeliveryReport, Watchers
from rowtide.replication.distributor import subscription_records
from rowtide.replication.distributor.claims import SubscriptionClaims
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.running.subscription_agent import SubscriptionAgent
from rowtide.replication.subscription_settings import SettingsChanges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_ROWS = 100_000
"""Least number of rows worth a Spark job: fewer are delivered before a job has started."""


@frozen
class DeliveredBacklog:
    """A task's result; `failure` is the error that stopped it, which the next agent will meet too."""

    subscriber: str
    reached: Position | None
    transactions: int
    commands: int
    seconds: float
    failure: str | None


def deliver_backlogs(
    spark: SparkSession,
    engine: Engine,
    url: str,
    publication: str | None,
    settings: SettingsChanges,
    *,
    least_rows: int = LEAST_ROWS,
) -> tuple[DeliveredBacklog, ...]:
    """Deliver what the log store has now to subscriptions that lack much of it; wait until that is done.

    Workers reach the publisher, the log store and the subscribers by the same names and with the same passwords;
    subscribers that only this machine can reach, such as SQLite files, are skipped, and so are subscriptions that a run
    delivers. Raises `DatabaseNotPublished`, `SparkLost`.
    """
    with translated(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        source = read_source(connection, url)
        subscriptions = subscription_records.list_subscriptions(connection, publication)
        manifest = open_own_manifest(source)
        verify_provenance(connection, manifest)
        state = manifest.state
        worthwhile = [found for found in subscriptions if _is_worth_a_task(found, state, least_rows)]
        # Held by this process while its tasks deliver.
        claimed = SubscriptionClaims(connection).take(found.agent_id for found in worthwhile)
        chosen = [found for found in worthwhile if found.agent_id in claimed]
        if not chosen:
            return ()
        require_reachable(source.log_store)
        return _deliver_in_tasks(
            spark, len(chosen), lambda place: deliver_backlog(url, chosen[place], state.position, settings)
        )


def _deliver_in_tasks(
    spark: SparkSession, count: int, deliver: Callable[[int], DeliveredBacklog]
) -> tuple[DeliveredBacklog, ...]:
    """Call `deliver` with each number below `count`, in a task of its own; return the results."""
    from pyspark.sql.functions import udf

    deliver_alike = hiding_alike(deliver)
    task = udf(lambda place: pickle.dumps(deliver_alike(place)), "binary").asNondeterministic()
    with spark_watched(), lack_named():
        rows = pinned(spark).range(0, count, 1, count).select(task("id")).collect()
    return tuple(pickle.loads(delivered) for (delivered,) in rows)  # noqa: S301 - our own task wrote it


def _is_worth_a_task(subscription: Subscription, state: ManifestState, least_rows: int) -> bool:
    reader = state.readers.get(subscription.reader)
    is_file = parse_url(subscription.subscriber).kind.is_file
    is_whole = subscription.joins is None
    if reader is None or subscription.state is not SubscriptionState.ACTIVE or is_file or not is_whole:
        return False
    return sum(segment.rows for segment in segments_between(state, reader.position, state.position)) >= least_rows


def deliver_backlog(
    url: str, subscription: Subscription, target: Position, settings: SettingsChanges
) -> DeliveredBacklog:
    """Deliver to one subscription up to a position, or until an error."""
    began, reports = time.monotonic(), list[DeliveryReport]()
    reached, failure = None, None
    try:
        watchers = Watchers(on_batch=reports.append)
        context = DeliveryContext(url, open_engine(url), watchers=watchers, settings=settings)
        with SubscriptionAgent.open(context, subscription) as agent:
            _step_to(target, agent.step, lambda: agent.position)
            reached = agent.position
    except RowtideError as error:
        failure = str(error)
    return DeliveredBacklog(
        subscriber=subscription.subscriber,
        reached=reached,
        transactions=sum(report.transactions for report in reports),
        commands=sum(report.commands for report in reports),
        seconds=time.monotonic() - began,
        failure=failure,
    )


def _step_to(target: Position, step: Callable[[], bool], position: Callable[[], Position | None]) -> None:
    """Step while there is anything to do; a snapshot that waits for a transaction is left to the next agent."""
    while step():
        reached = position()
        if reached is not None and reached >= target:
            return
