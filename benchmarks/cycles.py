"""How long a cycle takes that has a few rows of many tables, in a running `rowtide cdc run`."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.goals import at_most
from benchmarks.running_capture import CaptureSilent, RunningCapture, run_capture
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table

CYCLE_WARM_UPS = 2
"""Cycles before those that are measured: the first makes the tables."""
_PATIENCE_S = 60
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Shape:
    """So many tables, each with so many rows in the cycle's one transaction; the goal in seconds."""

    tables: int
    rows: int
    most_s: float


@dataclass(frozen=True, slots=True)
class Cycle:
    """Seconds of a cycle, from its transaction's commit until it is published, and of CPU time in between."""

    seconds: float
    published_s: float
    cpu_s: float


SHAPES = (Shape(4, 100, 0.15), Shape(50, 6, 0.6), Shape(200, 6, 2.5), Shape(500, 6, 6))


def measure_cycles(sizes: Sizes) -> Iterator[Table]:
    """Capture transactions of each shape, one a cycle; of `sizes.runs` cycles the median counts."""
    for shape in SHAPES:
        yield _measure(shape, sizes.runs)


CYCLES: dict[str, Callable[[Sizes], Iterator[Table]]] = {"cycles": measure_cycles}


def _measure(shape: Shape, runs: int) -> Table:
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        names = [f"measured_{number}" for number in range(shape.tables)]
        source.write(f"create table {name} (id bigint primary key, bucket int, note text)" for name in names)
        source.enable(names)
        with run_capture(source) as capture:
            cycles = [run_cycle(source, capture, names, shape.rows, number) for number in range(CYCLE_WARM_UPS + runs)]
    cycles = cycles[CYCLE_WARM_UPS:]
    seconds = statistics.median(cycle.seconds for cycle in cycles)
    name = f"cycle of {shape.tables} tables with {shape.rows} rows each"
    published_s = statistics.median(cycle.published_s for cycle in cycles)
    cpu_s = statistics.median(cycle.cpu_s for cycle in cycles)
    return Table(
        name,
        ("cycle, s", "commit to published, s", "CPU s in between"),
        ((f"{seconds:.3f}", f"{published_s:.3f}", f"{cpu_s:.2f}"),),
        (at_most(f"{name}, s", shape.most_s, seconds),),
    )


def run_cycle(
    source: Source,
    capture: RunningCapture,
    names: list[str],
    count: int,
    number: int,
    on_published: Callable[[], None] = lambda: None,
) -> Cycle:
    """Write so many rows to each table in a transaction, the `number`th, and wait until they are published."""
    first = 1 + number * count
    rows = f"select i, i % 10, md5(i::text) from generate_series({first}, {first + count - 1}) i"
    before = max((scan.session_id for scan in source.cdc.list_scan_sessions()), default=0)
    cpu_s = capture.cpu_seconds()
    source.write([f"do $$ begin {'; '.join(f'insert into {name} {rows}' for name in names)}; end $$"])
    begin = time.monotonic()
    capture.await_published(source.mark())
    published_s, cpu_s = time.monotonic() - begin, capture.cpu_seconds() - cpu_s
    on_published()
    return Cycle(_find_duration(source, before, len(names) * count), published_s, cpu_s)


def _find_duration(source: Source, before: int, rows: int) -> float:
    """Return the duration of the scan with these rows, after an earlier one; it is recorded a moment later.

    Raises `CaptureSilent`.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        scans = [scan for scan in source.cdc.list_scan_sessions() if scan.session_id > before and scan.command_count]
        if sum(scan.command_count for scan in scans) >= rows:
            return sum(scan.duration for scan in scans)
        time.sleep(_POLL_S)
    raise CaptureSilent(f"no scan of {rows} rows was recorded")
