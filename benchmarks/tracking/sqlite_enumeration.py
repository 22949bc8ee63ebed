"""How long SQLite's tracking takes to say what changed: by the number of changes, not of rows."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.goals import Goal, at_most
from benchmarks.table import Sizes, Table
from benchmarks.tracking.sqlite_orders import BESIDE, IN_ROW, INSERT, UNTRACKED, Way, create, take_anchor
from rowtide.core.anchors import Anchor
from rowtide.tracking import ChangeTracking

ROWS = 10_000_000
_SMALLER = (10_000, 100_000)
_CHANGES = 1_000
_MANY = 0.01
_GOAL_MS = 50


class ChangesDiffer(Exception):
    """An enumeration gave another number of changes than were made."""


def measure_enumeration(sizes: Sizes) -> Iterator[Table]:
    """Change a few rows all over tables of several sizes, and enumerate; both ways to keep stamps."""
    largest = sizes.rows or ROWS
    cases = list(dict.fromkeys([*((rows, _CHANGES) for rows in (*_SMALLER, largest)), (largest, int(largest * _MANY))]))
    name = "SQLite: enumeration"
    rows, goals = [], list[Goal]()
    for way in (IN_ROW, BESIDE):
        for count, changes, milliseconds in _measure(way, cases, sizes.runs):
            rows.append((way.name, f"{count:,}", f"{changes:,}", f"{milliseconds:.1f}"))
            if (count, changes) == (largest, _CHANGES):
                goals.append(
                    at_most(f"{name}, {count:,} rows, {changes:,} changes, {way.name}: ms", _GOAL_MS, milliseconds)
                )
    remark = (
        "Of ten changes eight are updates, one an insert, one a delete, all over the table; the anchor is part of it."
    )
    yield Table(name, ("way", "rows", "changes", "ms"), tuple(rows), tuple(goals), remark)


def _measure(way: Way, cases: list[tuple[int, int]], runs: int) -> Iterator[tuple[int, int, float]]:
    """Yield rows, changes and the median milliseconds of each case."""
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        for rows in dict.fromkeys(rows for rows, _ in cases):
            path = Path(folder) / f"{rows}.db"
            _fill(path, way, rows)
            anchor = take_anchor(path)
            for number, changes in enumerate(changes for count, changes in cases if count == rows):
                milliseconds = []
                for run in range(number * runs, (number + 1) * runs):
                    _change(path, rows, changes, run)
                    seconds, anchor = _enumerate(path, anchor, changes)
                    milliseconds.append(seconds * 1000)
                yield rows, changes, statistics.median(milliseconds)
            path.unlink()


def _fill(path: Path, way: Way, rows: int) -> None:
    """Make a table that had its rows before it was tracked."""
    create(path, UNTRACKED)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma synchronous = off")
        connection.execute(INSERT, (1, rows))
    way.prepare(path)


def _change(path: Path, rows: int, changes: int, run: int) -> None:
    """Update, delete and insert rows, spread over the table; each run has rows of its own."""
    tenth, step = changes // 10, rows // changes
    keys = [(1 + number * step + run % step,) for number in range(9 * tenth)]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        last = connection.execute("select max(id) from orders").fetchone()[0]
        connection.execute("begin")
        connection.executemany("update orders set amount = amount + 1 where id = ?", keys[tenth:])
        connection.executemany("delete from orders where id = ?", keys[:tenth])
        connection.execute(INSERT, (last + 1, last + tenth))
        connection.execute("commit")


def _enumerate(path: Path, since: Anchor, expected: int) -> tuple[float, Anchor]:
    """Return the seconds of an enumeration, read to the end, and its anchor. Raises `ChangesDiffer`."""
    with closing(sqlite3.connect(path)) as connection:
        tracking = ChangeTracking(connection)
        begin = time.perf_counter()
        with tracking.changes(["orders"], since) as changes:
            count = sum(1 for _ in changes)
        seconds = time.perf_counter() - begin
    if count != expected:
        raise ChangesDiffer(f"{count} in place of {expected}")
    return seconds, changes.anchor
