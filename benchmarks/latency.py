"""Commit to queryable: pgbench's TPC-B at a steady rate over four tables, against a running `rowtide cdc run`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.children import environment
from benchmarks.segment_times import SegmentTimes, Times
from benchmarks.source import Source, open_source
from benchmarks.timeline import Timeline, read_commits, read_timeline
from rowtide.cdc.lake_tables import system_table_path
from rowtide.core.lsn import parse_log_position
from rowtide.lake.session import build_session

TABLES = ("pgbench_accounts", "pgbench_branches", "pgbench_tellers", "pgbench_history")
TRANSACTIONS_PER_S = 500
WARM_UP_S = 120
"""So long the JVM goes on compiling what it runs: a capture that has run for half a minute is a second slower."""
TOTAL = "commit to queryable"
MEASURED_S = 60

_SCALE, _CLIENTS = 10, 4
_PATIENCE_S = 300
_STOP_TIMEOUT_S = 60
_POLL_S = 0.1


class CaptureSilent(Exception):
    """`rowtide cdc run` ended, or does not come to the point that is waited for."""


@dataclass(frozen=True, slots=True)
class Part:
    """Seconds of one part of the way, over transactions."""

    mean: float
    median: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Latency:
    """The parts of the way from commit to queryable, in order, and the whole as `TOTAL`."""

    seconds: int
    transactions: int
    cycles: int
    parts: Mapping[str, Part]


def measure_latency(seconds: int) -> Latency:
    """Load the server for a while beforehand, then for `seconds`, whose transactions count."""
    print(f"Measuring the latency: {WARM_UP_S} s to warm up, then {seconds} s ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        _pgbench(source, "--initialize", f"--scale={_SCALE}", "--quiet")
        source.enable(TABLES)
        with _capture(source) as process, SegmentTimes.watch(source.cdc.get_source().log_store) as segments:
            begin = time.time() + WARM_UP_S
            _pgbench(source, *_load(WARM_UP_S + seconds))
            _await_published(source, process, source.mark())
        instances = [f"public_{table}" for table in TABLES]
        timeline = read_timeline(build_session(memory="2g"), source.lake, instances, segments, begin)
        return summarize(timeline, seconds)


def summarize(timeline: Timeline, seconds: int) -> Latency:
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
    return Latency(seconds, len(timeline.committed), len(np.unique(timeline.cycles)), parts)


def _summarize(part: Times) -> Part:
    return Part(float(part.mean()), *np.percentile(part, (50, 95, 99)).tolist())


def _load(seconds: int) -> list[str]:
    rate = [f"--client={_CLIENTS}", f"--rate={TRANSACTIONS_PER_S}", f"--time={seconds}"]
    return ["--builtin=tpcb-like", "--no-vacuum", "--protocol=prepared", *rate]


def _pgbench(source: Source, *options: str) -> None:
    command = [str(source.server.binary("pgbench")), *options]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **source.server.environment()})


@contextmanager
def _capture(source: Source) -> Iterator[subprocess.Popen[bytes]]:
    """Run `rowtide cdc run` until the context ends; it has published its first cycle before."""
    messages = source.folder / "cdc-run"
    command = [sys.executable, "-m", "rowtide", "cdc", "run", "--db", source.url]
    with messages.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment())
    try:
        _await_published(source, process, source.mark())
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_STOP_TIMEOUT_S)


def _await_published(source: Source, process: subprocess.Popen[bytes], end: str) -> None:
    """Return when everything before the log position is published. Raises `CaptureSilent`."""
    target, deadline = parse_log_position(end), time.monotonic() + _PATIENCE_S
    while True:
        reader = source.read_log_store().readers.get("cdc")
        if reader is not None and reader.position.log >= target and read_commits(_publications(source)):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise CaptureSilent((source.folder / "cdc-run").read_text(errors="replace")[-2000:])
        time.sleep(_POLL_S)


def _publications(source: Source) -> str:
    return system_table_path(source.lake, "lsn_time_mapping")
