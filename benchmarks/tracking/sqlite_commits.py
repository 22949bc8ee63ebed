"""What tracking adds to single rows in SQLite, each committed and on disk before the next."""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.table import Sizes, Table
from benchmarks.tracking.extra_cost import Costs
from benchmarks.tracking.sqlite_orders import INSERT, OPERATIONS, SESSION, TRACKED, UNTRACKED, WAYS, Way, create

JOURNALS = {"wal": "write-ahead log", "delete": "rollback journal"}
_WAYS = tuple(way for way in WAYS if way is not SESSION)
_STATEMENTS = 200
_ROUNDS = 5
_FILLED = 100_000
_GOAL = 1.3


def measure_commits(sizes: Sizes) -> Iterator[Table]:
    """Insert, update and delete rows one by one, in both journals, every way in turn."""
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        disk_ms = _measure_disk(Path(folder) / "disk") * 1000
        for journal, words in JOURNALS.items():
            costs = _measure(Path(folder), journal, sizes.rows or _FILLED)
            remark = f"synchronous = full; an fsync of one page takes {disk_ms:.2f} ms here."
            name = f"SQLite: single rows, committed, {words}"
            yield costs.table(name, remark, costs.limit_factor(name, (way.name for way in TRACKED), _GOAL))


def _measure_disk(path: Path) -> float:
    """Return the median seconds of a page written and synced."""
    times = []
    with path.open("wb", buffering=0) as file:
        for _ in range(_STATEMENTS):
            begin = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def _measure(folder: Path, journal: str, filled: int) -> Costs:
    costs = Costs(UNTRACKED.name, "ms")
    with ExitStack() as stack:
        connections = {
            way.name: stack.enter_context(_filled(folder / f"{journal}-{number}.db", way, journal, filled))
            for number, way in enumerate(_WAYS)
        }
        for number in range(_ROUNDS):
            keys = range(filled + 1 + number * _STATEMENTS, filled + 1 + (number + 1) * _STATEMENTS)
            for operation, statement in OPERATIONS.items():
                writes = {way: partial(_write, connection, statement) for way, connection in connections.items()}
                costs.add_in_turn(operation, writes, keys)
    return costs


@contextmanager
def _filled(path: Path, way: Way, journal: str, rows: int) -> Iterator[sqlite3.Connection]:
    create(path, way)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(INSERT, (1, rows))
        connection.execute(f"pragma journal_mode = {journal}")
        connection.execute("pragma synchronous = full")
        yield connection


def _write(connection: sqlite3.Connection, statement: str, key: int) -> None:
    connection.execute(statement, (key, key))
