"""How long an enumeration keeps another program from writing to a SQLite file."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.children import run_child
from benchmarks.goals import at_most
from benchmarks.table import Sizes, Table
from benchmarks.tracking.sqlite_commits import JOURNALS
from benchmarks.tracking.sqlite_orders import BESIDE, IN_ROW, INSERT, UNTRACKED, Way, create, take_anchor
from benchmarks.tracking.sqlite_writer_process import Answer, Settings
from rowtide.core.anchors import Anchor
from rowtide.tracking import ChangeTracking

ROWS = 200_000
SECONDS = 10
_REST_S = 0.001
_GOAL_MS = 25
_PHASES = (False, True, False, True)


@dataclass(slots=True)
class Load:
    """Seconds that the writer waited for the lock and then wrote, and of enumerations, each read to the end."""

    waits_s: list[float] = field(default_factory=list)
    writes_s: list[float] = field(default_factory=list)
    reads_s: list[float] = field(default_factory=list)


def measure_writers(sizes: Sizes) -> Iterator[Table]:
    """Let a process write, in turn alone and beside enumerations one after the other; in both journals."""
    rows, seconds = sizes.rows or ROWS, sizes.seconds or SECONDS
    for journal, words in JOURNALS.items():
        for way in (IN_ROW, BESIDE):
            with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
                alone, beside = _measure(Path(folder), journal, way, rows, seconds)
            yield _table(f"SQLite: a writer beside enumerations, {words}, {way.name}", journal, alone, beside)


def _measure(folder: Path, journal: str, way: Way, rows: int, seconds: int) -> tuple[Load, Load]:
    path = folder / "orders.db"
    create(path, UNTRACKED)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"pragma journal_mode = {journal}")
        way.prepare(path)
        first = take_anchor(path)
        # All of it is what each enumeration reads.
        connection.execute(INSERT, (1, rows))
    alone, beside = Load(), Load()
    for number, is_enumerated in enumerate(_PHASES):
        load = beside if is_enumerated else alone
        settings = Settings(str(path), rows, seconds, _REST_S)
        with ThreadPoolExecutor(1) as thread:
            writer = thread.submit(
                run_child, "benchmarks.tracking.sqlite_writer_process", settings, folder, str(number)
            )
            while is_enumerated and not writer.done():
                _enumerate(path, first, load)
            answer = Answer(**writer.result())
        load.waits_s += answer.waits_s
        load.writes_s += answer.writes_s
    return alone, beside


def _enumerate(path: Path, since: Anchor, load: Load) -> None:
    with closing(sqlite3.connect(path)) as connection:
        begin = time.perf_counter()
        with ChangeTracking(connection).changes(["orders"], since) as changes:
            for _ in changes:
                pass
        load.reads_s.append(time.perf_counter() - begin)


def _table(name: str, journal: str, alone: Load, beside: Load) -> Table:
    longest_ms = max(beside.waits_s) * 1000
    goals = [at_most(f"{name}: longest wait for the lock, ms", _GOAL_MS, longest_ms)] if journal == "wal" else []
    reads, read_ms = len(beside.reads_s), statistics.median(beside.reads_s) * 1000
    return Table(
        name,
        (
            "the writer",
            "transactions",
            "wait for the lock, 99th percentile ms",
            "longest",
            "then, median ms",
            "longest",
        ),
        (("alone", *_describe(alone)), ("beside enumerations", *_describe(beside))),
        tuple(goals),
        f"{reads:,} enumerations of all changes, one after the other, {read_ms:.0f} ms each.",
    )


def _describe(load: Load) -> tuple[str, ...]:
    waits, writes = (sorted(value * 1000 for value in values) for values in (load.waits_s, load.writes_s))
    late = waits[int(len(waits) * 0.99)]
    return f"{len(waits):,}", f"{late:.2f}", f"{waits[-1]:.1f}", f"{statistics.median(writes):.2f}", f"{writes[-1]:.1f}"
