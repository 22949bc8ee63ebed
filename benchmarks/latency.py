"""Commit to queryable: pgbench's TPC-B at a steady rate over four tables, against a running `rowtide cdc run`."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.running_capture import run_capture
from benchmarks.segment_times import SegmentTimes, Times
from benchmarks.source import Source, open_source
from benchmarks.timeline import Timeline, read_timeline
from rowtide.lake.session import build_session

TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_tellers", "pgbench_history")
TRANSACTIONS_PER_S = 500
WARM_UP_S = 30
"""Until every table has been written to, and its first files are compacted."""
TOTAL = "commit to queryable"
MEASURED_S = 60

_SCALE, _CLIENTS = 10, 4


@dataclass(frozen=True, slots=True)
class Part:
    """Seconds of one part of the way, over transactions."""

    mean: float
    median: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Latency:
    """The parts of the way from commit to queryable, in order, and the whole as `TOTAL`.

    `cpu_s`: CPU seconds of capture and its log reader while the load ran, for `seconds`.
    """

    seconds: int
    cpu_s: float
    transactions: int
    cycles: int
    parts: Mapping[str, Part]


def measure_latency(seconds: int) -> Latency:
    """Load the server for a while beforehand, then for `seconds`, whose transactions count."""
    print(f"Measuring the latency: {WARM_UP_S} s to warm up, then {seconds} s ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        initialize(source)
        source.enable(TABLES)
        with run_capture(source) as capture, SegmentTimes.watch(source.cdc.get_source().log_store) as segments:
            load(source, WARM_UP_S)
            begin, cpu_s = time.time(), capture.cpu_seconds()
            load(source, seconds)
            cpu_s = capture.cpu_seconds() - cpu_s
            capture.await_published(source.mark())
        instances = [f"public_{table}" for table in TABLES]
        timeline = read_timeline(
            build_session(conf={"spark.driver.memory": "2g"}), source.lake, instances, segments, begin
        )
        return summarize(timeline, seconds, cpu_s)


def summarize(timeline: Timeline, seconds: int, cpu_s: float) -> Latency:
    """Return the parts of the way, over all transactions."""
    steps = {
        "wait for the log reader": timeline.durable - timeline.committed,
        "wait for the next cycle": timeline.begun - timeline.durable,
        "record the cycle": timeline.recorded - timeline.begun,
        "append change rows": timeline.appended - timeline.recorded,
        "publish": timeline.queryable - timeline.appended,
        TOTAL: timeline.queryable - timeline.committed,
    }
    parts = {label: _summarize(part) for label, part in steps.items()}
    return Latency(seconds, cpu_s, len(timeline.committed), len(np.unique(timeline.cycles)), parts)


def _summarize(part: Times) -> Part:
    return Part(float(part.mean()), *np.percentile(part, (50, 95, 99)).tolist())


def initialize(source: Source) -> None:
    """Make and fill the tables."""
    _pgbench(source, "--initialize", f"--scale={_SCALE}", "--quiet")


def load(source: Source, seconds: int) -> None:
    """Run transactions at the rate."""
    rate = [f"--client={_CLIENTS}", f"--rate={TRANSACTIONS_PER_S}", f"--time={seconds}"]
    _pgbench(source, "--builtin=tpcb-like", "--no-vacuum", "--protocol=prepared", *rate)


def _pgbench(source: Source, *options: str) -> None:
    command = [str(source.server.binary("pgbench")), *options]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **source.server.environment()})
