"""Synchronise subscriptions as Spark's tasks: a cluster's workers are the agents of a hub's servers.

A task is the Merge Agent of one subscriber. If Spark runs a task again, or twice, the later synchronisation replaces
the earlier one; what was exchanged stays.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rowtide.core.redaction import hiding_alike
from rowtide.databases.urls import parse_url
from rowtide.lake.jars import lack_named
from rowtide.lake.session import pinned, spark_watched
from rowtide.merge.articles import DeviceLimits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from rowtide.merge.fan_out import FanOutTarget, SyncOutcome, synchronise_target


def can_be_a_task(hub_url: str, target: FanOutTarget) -> bool:
    """Whether a worker reaches both ends: a file is on this machine alone."""
    return not any(parse_url(url).kind.is_file for url in (hub_url, target.subscriber))


def synchronise_in_tasks(
    spark: SparkSession,
    hub_url: str,
    targets: Sequence[FanOutTarget],
    limits: DeviceLimits,
    *,
    on_outcome: Callable[[SyncOutcome], None],
) -> list[SyncOutcome]:
    """Synchronise each target in a task of its own; return the results.

    Workers reach the hub and the subscribers by the same names, and with the same password files. Raises `SparkLost`.
    """
    from pyspark.sql.functions import udf

    if not targets:
        return []
    synchronise = hiding_alike(lambda place: synchronise_target(hub_url, targets[place], limits))
    task = udf(lambda place: pickle.dumps(synchronise(place)), "binary").asNondeterministic()
    count = len(targets)
    with spark_watched(), lack_named():
        rows = pinned(spark).range(0, count, 1, count).select(task("id")).collect()
    found = [outcome for (outcomes,) in rows for outcome in pickle.loads(outcomes)]  # noqa: S301 - our own task wrote it
    for outcome in found:
        on_outcome(outcome)
    return found
