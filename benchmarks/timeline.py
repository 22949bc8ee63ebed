"""When each transaction was where: committed, durable in the log store, in a recorded cycle, appended, queryable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from benchmarks.segment_times import SegmentTimes, Times
from rowtide.cdc.published import change_table_path, system_table_path
from rowtide.lake import tables


@dataclass(frozen=True, slots=True)
class Timeline:
    """Six times of each transaction, and the cycle that carried it."""

    cycles: npt.NDArray[np.int64]
    committed: Times
    durable: Times
    begun: Times
    recorded: Times
    appended: Times
    queryable: Times


def read_timeline(
    spark: SparkSession, lake: str, instances: Sequence[str], segments: SegmentTimes, begin: float
) -> Timeline:
    """Read the times of the transactions committed after `begin`."""
    published = (
        tables.read_table(spark, system_table_path(lake, "lsn_time_mapping"))
        .where(f"tran_commit_time >= timestamp_micros({int(begin * 1e6)})")
        .selectExpr("start_lsn", "cycle", "unix_micros(tran_commit_time) / 1e6D as committed")
        .toArrow()
    )
    begun = (
        tables.read_table(spark, system_table_path(lake, "cycles"))
        .selectExpr("cycle", "unix_micros(recorded_at) / 1e6D as begun")
        .toArrow()
    )
    cycles = published["cycle"].to_numpy()
    change_tables = [change_table_path(lake, instance) for instance in instances]
    return Timeline(
        cycles=cycles,
        committed=published["committed"].to_numpy(),
        durable=segments.of(published["start_lsn"].to_numpy()),
        begun=_of_cycles({row["cycle"]: row["begun"] for row in begun.to_pylist()}, cycles),
        recorded=_of_cycles(read_commits(system_table_path(lake, "cycles")), cycles),
        appended=_of_cycles(_latest([read_commits(path) for path in change_tables]), cycles),
        queryable=_of_cycles(read_commits(system_table_path(lake, "lsn_time_mapping")), cycles),
    )


def read_commits(path: str) -> dict[int, float]:
    """Return when each cycle's commit to a Delta table was written, in seconds since 1970."""
    times = {}
    for commit in Path(path).glob("_delta_log/*.json"):
        for action in map(json.loads, commit.read_text().splitlines()):
            if "txn" in action:
                times[action["txn"]["version"]] = commit.stat().st_mtime
    return times


def _latest(tables_commits: Sequence[dict[int, float]]) -> dict[int, float]:
    cycles = {cycle for commits in tables_commits for cycle in commits}
    return {cycle: max(commits[cycle] for commits in tables_commits if cycle in commits) for cycle in cycles}


def _of_cycles(times: dict[int, float], cycles: npt.NDArray[np.int64]) -> Times:
    return np.array([times[cycle] for cycle in cycles.tolist()])
