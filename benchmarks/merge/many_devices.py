"""Many SQLite devices that synchronise with one PostgreSQL hub, several at a time."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.goals import at_least, at_most
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import Partition
from rowtide.merge.fan_out import SyncOutcome

DEVICES, CHANGES = 200, 10
_ROWS = 100
"""Rows of each device."""
_WORKERS = 8
_RATE_GOAL, _P95_GOAL_S = 20, 2.0
_ROUNDS = 3


def measure_devices(sizes: Sizes) -> Iterator[Table]:
    """Change a few rows at each device and at the hub, and synchronise all by `sync_all`, in some rounds."""
    devices = min(sizes.rows or DEVICES, DEVICES)
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        source.execute("create table visit (id int primary key, device text not null, note text, done int)")
        of_devices = f"generate_series(0, {devices - 1}) device, generate_series(0, {_ROWS - 1}) i"
        source.execute(f"insert into visit select device * {_ROWS} + i, device, 'a note', 0 from {of_devices}")
        merge = MergeReplication(source.url)
        merge.add_publication("shop")
        merge.add_article("shop", "visit", where="device = host_name()")
        paths = [Path(folder) / f"device-{number}.db" for number in range(devices)]
        for number, path in enumerate(paths):
            merge.add_subscription("shop", f"sqlite:///{path}", partition=Partition(str(number)))
        described: list[tuple[str, ...]] = []
        found: list[SyncOutcome] = []
        rates: list[float] = []
        for number in range(_ROUNDS):
            _change(source, paths)
            began, cpu = time.perf_counter(), time.process_time()
            outcomes = merge.sync_all("shop", workers=_WORKERS)
            took, used = time.perf_counter() - began, time.process_time() - cpu
            rates.append(devices / took)
            found += outcomes
            moved = sum(outcome.uploaded + outcome.downloaded for outcome in outcomes)
            figures = (f"{took:.1f}", f"{rates[-1]:.1f}", f"{_p95(outcomes):.2f}", f"{moved:,}")
            described.append((str(number + 1), *figures, f"{used / devices * 1000:.0f}"))
        name = f"{devices} devices, {CHANGES} changes each, {_WORKERS} at a time"
        goals = (
            at_least(f"{name}: synchronisations/s", _RATE_GOAL, statistics.median(rates)),
            at_most(f"{name}: p95, s", _P95_GOAL_S, _p95(found)),
            at_most(f"{name}: failed", 0, sum(outcome.error is not None for outcome in found)),
        )
        headings = ("round", "s", "synchronisations/s", "p95 s", "rows moved", "our CPU, ms each")
        remark = (
            f"By the clock, connecting included. Each device has {_ROWS} rows; the hub changes one of each as well."
        )
        yield Table(name, headings, tuple(described), goals, remark)


def _change(source: Source, paths: Sequence[Path]) -> None:
    source.execute(f"update visit set done = done + 1 where id % {_ROWS} = 0")
    for path in paths:
        with closing(sqlite3.connect(path)) as program, program:
            program.execute(f"update visit set note = note || '!' where id % {_ROWS} between 1 and {CHANGES}")


def _p95(outcomes: Sequence[SyncOutcome]) -> float:
    return statistics.quantiles((outcome.seconds for outcome in outcomes), n=20)[-1]
