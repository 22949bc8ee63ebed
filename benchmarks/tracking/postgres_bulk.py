"""What tracking adds to writes in PostgreSQL: of many rows in a statement, and of single rows, committed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psycopg

from benchmarks.cpu import cpu_seconds
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from benchmarks.tracking.extra_cost import Costs
from benchmarks.tracking.postgres_orders import (
    INSERT,
    OPERATIONS,
    ROW_OPERATIONS,
    SHAPE,
    TRACKED,
    UNTRACKED,
    WAYS,
    Way,
    create,
    drop,
    take_anchor,
)

ROWS = 500_000
_FILLED = 100_000
_STATEMENTS = 200
_ROUNDS = 5
_COMMITTED_GOAL = 1.3


def measure_writes(sizes: Sizes) -> Iterator[Table]:
    """Insert, update and delete all rows at once, then rows one by one; every way in turn."""
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        yield from _measure_bulk(source, sizes.rows or ROWS, sizes.runs)
        yield _measure_commits(source, sizes.rows or _FILLED)


def _measure_bulk(source: Source, rows: int, runs: int) -> Iterator[Table]:
    cpu, elapsed = (Costs(UNTRACKED.name, "µs a row") for _ in range(2))
    for _ in range(runs):
        for way in WAYS:
            create(source, way)
            for operation in OPERATIONS:
                cpu_s, elapsed_s = _write(source, way, operation, rows)
                cpu.add(way.name, operation, cpu_s / rows * 1e6)
                elapsed.add(way.name, operation, elapsed_s / rows * 1e6)
            drop(source, way)
    name = f"PostgreSQL: {rows:,} rows, one statement"
    goals = [goal for way in TRACKED for goal in cpu.limit_more(name, [way.name], way.goals_us)]
    yield cpu.table(name, f"CPU time of the session's process; orders {SHAPE}.", goals)
    yield elapsed.table(f"{name}, elapsed", "The same by the clock: what the session waits for the disk is in it.")


def _write(source: Source, way: Way, operation: str, rows: int) -> tuple[float, float]:
    """Return CPU and elapsed seconds, the commit included; each statement has pages to write whole, and own stamps."""
    if way in TRACKED:
        take_anchor(source, way)
    source.execute("checkpoint")
    statement = OPERATIONS[operation].format(table=way.table, first=1, last=rows).encode()
    with psycopg.connect(source.url, autocommit=True) as connection:
        pid = connection.info.backend_pid
        begin, begin_cpu = time.perf_counter(), cpu_seconds(pid)
        connection.execute(statement)
        return cpu_seconds(pid) - begin_cpu, time.perf_counter() - begin


def _measure_commits(source: Source, filled: int) -> Table:
    for way in WAYS:
        create(source, way)
        source.execute(INSERT.format(table=way.table, first=1, last=filled))
    source.execute("checkpoint")
    costs = Costs(UNTRACKED.name, "ms")
    with ExitStack() as stack:
        sessions = {way: stack.enter_context(psycopg.connect(source.url, autocommit=True)) for way in WAYS}
        for number in range(_ROUNDS):
            keys = range(filled + 1 + number * _STATEMENTS, filled + 1 + (number + 1) * _STATEMENTS)
            for operation, statement in ROW_OPERATIONS.items():
                writes = {
                    way.name: partial(_commit, session, statement.format(table=way.table).encode())
                    for way, session in sessions.items()
                }
                costs.add_in_turn(operation, writes, keys)
    remark = "fsync and synchronous_commit are on; a session for each way, statements prepared."
    name = "PostgreSQL: single rows, committed"
    name = "PostgreSQL: single rows, committed"
    return costs.table(name, remark, costs.limit_factor(name, (way.name for way in TRACKED), _COMMITTED_GOAL))


def _commit(session: psycopg.Connection, statement: bytes, key: int) -> None:
    session.execute(statement, {"key": key}, prepare=True)
