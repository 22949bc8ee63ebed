"""How fast a PostgreSQL hub and a SQLite file exchange changes, and how little an empty synchronisation takes."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg

from benchmarks.goals import Goal, at_least, at_most
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from benchmarks.tracking import postgres_orders, sqlite_orders
from rowtide.merge.api import MergeReplication

ROWS = 100_000
_EMPTY_ROUNDS = 20
_RATE_GOAL, _EMPTY_GOAL_MS, _PROPORTION_GOAL = 30_000, 150, 2.0
_SMALL, _CHANGED = 10, 1_000
"""The table that is so much smaller, and the rows that are changed in either."""


def measure_exchange(sizes: Sizes) -> Iterator[Table]:
    """Exchange all rows of a table each way, then nothing, then a few of a large table and of a small one."""
    rows = sizes.rows or ROWS
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        yield _measure_rates(source, Path(folder), rows)
    yield _measure_proportion(rows)


def _measure_rates(source: Source, folder: Path, rows: int) -> Table:
    merge, url, program = _begin(source, folder / "field.db", rows)
    name = f"exchange of {rows:,} rows, PostgreSQL hub and SQLite file"
    measured: list[tuple[str, float]] = [("initial copy", _seconds(lambda: merge.add_subscription("shop", url)))]
    for operation in ("update", "delete", "insert"):
        statement = postgres_orders.OPERATIONS[operation].format(table="orders", first=1, last=rows)
        source.execute(statement)
        measured.append((f"download, {operation}s", _seconds(lambda: merge.sync("shop", url))))
    for operation in ("update", "delete", "insert"):
        program.execute(sqlite_orders.OPERATIONS[operation], (1, rows))
        measured.append((f"upload, {operation}s", _seconds(lambda: merge.sync("shop", url))))
    measured.append(("copied, without merging", _copy_seconds(source, folder / "copy.db")))
    empty = [_seconds(lambda: merge.sync("shop", url)) * 1000 for _ in range(_EMPTY_ROUNDS)]
    program.close()
    goals = [
        at_least(f"{name}, {what}: rows/s", _RATE_GOAL, rows / seconds) for what, seconds in measured if "load," in what
    ]
    goals.append(at_most("empty synchronisation: ms", _EMPTY_GOAL_MS, statistics.median(empty)))
    described = [(what, f"{seconds:.2f}", f"{rows / seconds:,.0f}") for what, seconds in measured]
    described.append(("nothing: median of 20", f"{statistics.median(empty) / 1000:.3f}", ""))
    remark = (
        "By the clock, connecting included. Copied: read by `copy`, inserted by Python's sqlite3, in one transaction."
    )
    return Table(name, ("what", "s", "rows/s"), tuple(described), tuple(goals), remark)


def _measure_proportion(rows: int) -> Table:
    """Synchronise as many changes of a large table and of a small one."""
    found = {}
    for size in (rows // _SMALL, rows * _SMALL):
        with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
            merge, url, program = _begin(source, Path(folder) / "field.db", size)
            program.close()
            merge.add_subscription("shop", url)
            rounds = []
            for _ in range(5):
                source.execute(postgres_orders.UPDATE.format(table="orders", first=1, last=_CHANGED))
                rounds.append(_seconds(lambda: merge.sync("shop", url)))  # noqa: B023 - called at once
            found[size] = statistics.median(rounds)
    (_, small), (_, large) = found.items()
    name = f"download of {_CHANGED:,} changed rows"
    goals: tuple[Goal, ...] = (at_most(f"{name}, large table: factor", _PROPORTION_GOAL, large / small),)
    described = tuple((f"{size:,} rows", f"{seconds:.3f}", f"{seconds / small:.2f}") for size, seconds in found.items())
    return Table(name, ("of a table of", "s", "factor"), described, goals)


def _begin(source: Source, path: Path, rows: int) -> tuple[MergeReplication, str, sqlite3.Connection]:
    """Publish a filled table; return the hub, a subscriber's URL and a program's connection to it."""
    source.execute(f"create table orders {postgres_orders.SHAPE}")
    source.execute(postgres_orders.INSERT.format(table="orders", first=1, last=rows))
    merge = MergeReplication(source.url)
    merge.add_publication("shop")
    merge.add_article("shop", "orders")
    program = sqlite3.connect(path, isolation_level=None)
    program.execute("pragma journal_mode = wal")
    return merge, f"sqlite:///{path}", program


def _copy_seconds(source: Source, path: Path) -> float:
    with closing(sqlite3.connect(path)) as target, psycopg.connect(source.url) as connection:
        target.execute(f"create table {sqlite_orders.SHAPE}")

        def copy() -> None:
            statement = "copy (select id, customer, amount, status, note from orders) to stdout"
            with connection.cursor().copy(statement) as rows:
                target.executemany("insert into orders values (?, ?, ?, ?, ?)", rows.rows())
            target.commit()

        return _seconds(copy)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
