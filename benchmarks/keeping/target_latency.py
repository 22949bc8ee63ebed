"""Commit to the row in a current table: pgbench's TPC-B at a steady rate over four tables, beside `agent run`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.goals import at_most, figure
from benchmarks.keeping.commands import CommandFailed
from benchmarks.latency import TABLES, TRANSACTIONS_PER_S, WARM_UP_S, initialize, load
from benchmarks.running_capture import AGENT, run_capture
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from rowtide.cdc.published import system_table_path
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.stores import locate

SECONDS = 60
_MOST_S = 5
_TARGET = "warehouse"
_PATIENCE_S = 600


def measure_target_latency(sizes: Sizes) -> Iterator[Table]:
    """Load the server beforehand, then for some seconds, whose transactions count."""
    seconds = sizes.seconds or SECONDS
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        initialize(source)
        # A current table needs a key.
        source.execute("alter table pgbench_history add column hid bigint generated always as identity primary key")
        source.enable(TABLES)
        with run_capture(source, command=AGENT) as agent:
            # An agent begins with the copies; a target waits for them.
            source.targets.add(_TARGET, [f"public_{table}" for table in TABLES], path=f"{folder}/{_TARGET}")
            load(source, min(WARM_UP_S, seconds))
            _await_applied(source, time.time())
            begin, cpu_s = time.time(), agent.cpu_seconds()
            load(source, seconds)
            cpu_s = agent.cpu_seconds() - cpu_s
            end = time.time()
            _await_applied(source, end)
        waits, applies = _read_waits(source, begin, end)
    median, p95, p99 = np.percentile(waits, (50, 95, 99)).tolist()
    yield Table(
        f"target-latency: {TRANSACTIONS_PER_S} transactions/s, four tables",
        ("median, s", "95th percentile, s", "99th, s", "transactions", "applies", "CPU s of agent run"),
        ((*map(figure, (median, p95, p99)), f"{len(waits):,}", str(applies), figure(cpu_s)),),
        (at_most("target-latency: median of commit to current, s", _MOST_S, median),),
        f"From the commit at the source until the set of four tables has it; {seconds} s after a warm-up.",
    )


def _await_applied(source: Source, moment: float) -> None:
    """Return when the target has everything that was committed up to a moment. Raises `CommandFailed`.

    A target has a time by what is committed to captured tables: marks have none, and heartbeats come in minutes.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        position = source.targets.read_position(_TARGET)
        if position.time is not None and position.time.timestamp() >= moment:
            return
        source.execute("update pgbench_branches set bbalance = bbalance where bid = 1")
        time.sleep(1)
    raise CommandFailed("the target does not catch up")


def _read_waits(source: Source, begin: float, end: float) -> tuple[list[float], int]:
    """Return how long each transaction of the time between waited for its apply, and how many applies there were."""
    times = _read(system_table_path(source.lake, "lsn_time_mapping"), "start_lsn", "tran_commit_time")
    applied = _read(system_table_path(source.lake, f"targets.{_TARGET}"), "set_lsn", "recorded_at")
    applied = applied.filter(applied["set_lsn"].is_valid()).group_by("set_lsn").aggregate([("recorded_at", "max")])
    applied = applied.sort_by("set_lsn")
    lsns, recorded = applied["set_lsn"].to_numpy(), _seconds(applied["recorded_at_max"])
    committed, start = _seconds(times["tran_commit_time"]), times["start_lsn"].to_numpy()
    counted = (committed >= begin) & (committed <= end)
    places = np.searchsorted(lsns, start[counted])
    has_apply = places < len(lsns)
    waits = recorded[places[has_apply]] - committed[counted][has_apply]
    return waits.tolist(), len(np.unique(places[has_apply]))


def _read(path: str, *columns: str) -> pa.Table:
    snapshot = open_snapshot(locate(path))
    if snapshot is None:
        raise CommandFailed(f"there is no table {path}")
    return snapshot.read(columns)


def _seconds(times: pa.ChunkedArray[pa.TimestampScalar]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    found: np.ndarray[tuple[int], np.dtype[np.float64]] = times.cast(pa.int64()).to_numpy() / 1e6
    return found
