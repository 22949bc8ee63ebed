"""Thousands of small cycles in one process: none is dearer than the early ones, and nothing piles up in memory."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import rowtide
from builders.capture.captured_databases import CapturedDatabase
from builders.lakes.delta_tables import own
from rowtide.lake.tables import COMPACTION_INTERVAL
from rowtide.log.opening import open_log_reader

EARLY, LATE = 100, 10_000
WINDOW = 40
TOLERANCE = 1.2
MIB = 1024 * 1024
LOG_END = "(pg_current_wal_insert_lsn() - '0/0')::bigint"


@dataclass(frozen=True, slots=True)
class Memory:
    """What the driver holds, in MiB, after both garbage collectors have run."""

    python: float
    heap: float
    classes_and_code: float

    @property
    def total(self) -> float:
        return self.python + self.heap + self.classes_and_code


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_cycle_10000_costs_no_more_time_and_memory_than_a_100th(
    captured: CapturedDatabase,
) -> None:
    captured.execute("create table item (id int primary key, n int)")
    captured.enable("item")
    captured.capture()
    seconds: list[float] = []
    memory: dict[int, Memory] = {}
    with cycles(captured) as run_cycle:
        for number in range(1, LATE + 1):
            seconds.append(run_cycle(f"insert into item values ({number}, 0)"))
            if number in (EARLY, LATE):
                memory[number] = measure_memory(captured)
    early, late = median(seconds[EARLY - WINDOW : EARLY]), median(seconds[-WINDOW:])
    assert late < early * TOLERANCE, f"a cycle took {early:.3f} s, and {late:.3f} s at the end"
    assert memory[LATE].total < memory[EARLY].total * TOLERANCE, memory
    changes = rowtide.open_lake(str(captured.lake)).get_all_changes("public_item").to_arrow().read_all()
    assert changes["id"].to_pylist() == list(range(1, LATE + 1))
    assert len(own(Path(captured.lake, "cdc/public_item_CT")).files) < 2 * COMPACTION_INTERVAL


@contextmanager
def cycles(captured: CapturedDatabase) -> Iterator[Callable[[str], float]]:
    """Yield a function that captures what a statement does in a cycle of its own, and returns the cycle's seconds."""
    with open_log_reader(captured.url) as reader, captured.open_capture() as capture:
        manifest = captured.manifest()

        def run_cycle(statement: str) -> float:
            ((before_commit,),) = captured.execute(
                f"{statement} returning (pg_current_wal_insert_lsn() - '0/0')::bigint"
            )
            while manifest.refresh().position.log <= before_commit:
                reader.step()
            begun = time.monotonic()
            while capture.position.log <= before_commit:
                capture.step()
            return time.monotonic() - begun

        yield run_cycle


def measure_memory(captured: CapturedDatabase) -> Memory:
    """Collect garbage in Python and in the JVM, and measure what remains."""
    java: Any = captured.spark.sparkContext._jvm
    gc.collect()
    java.System.gc()
    used = java.java.lang.management.ManagementFactory.getMemoryMXBean()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Memory(
        python=pages * os.sysconf("SC_PAGESIZE") / MIB,
        heap=used.getHeapMemoryUsage().getUsed() / MIB,
        classes_and_code=used.getNonHeapMemoryUsage().getUsed() / MIB,
    )
