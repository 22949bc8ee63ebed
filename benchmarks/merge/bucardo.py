"""How fast changes come from one PostgreSQL to another: merged by rowtide, and by Bucardo."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg

from benchmarks.merge.bucardo_process import INSTALLATION, NAME, find_programs, open_bucardo
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from benchmarks.tracking.postgres_orders import INSERT, OPERATIONS, SHAPE
from rowtide.merge.api import MergeReplication

ROWS = 100_000
_ORDER = ("update", "delete", "insert")
_NODES = ("here", "there")

Synchronise = Callable[[], float]
"""Merges, and returns in how many seconds."""


def measure_beside(sizes: Sizes) -> Iterator[Table]:
    """Change all rows of a table at one node, and merge, in turn: by us and, where it is installed, by Bucardo."""
    rows = sizes.rows or ROWS
    programs = find_programs()
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        Path(folder).chmod(0o755)
        ways: dict[str, Callable[[], AbstractContextManager[Synchronise]]] = {"rowtide": lambda: _ours(source)}
        if programs is not None:
            ways[NAME] = lambda: _theirs(source, programs, Path(folder) / "bucardo")
        figures = [_measure(source, way, opened, rows, sizes.runs) for way, opened in ways.items()]
    headings = (text for operation in _ORDER for text in (f"{operation}s: statement, s", "merged, s", "rows/s"))
    remark = "By the clock. The statement pays for the triggers. Connecting is in our time, and not in its."
    if programs is None:
        remark += f" {NAME} is not installed: {INSTALLATION}."
    yield Table(
        f"merge of {rows:,} rows between two PostgreSQL databases", ("way", *headings), tuple(figures), (), remark
    )


def _measure(
    source: Source, way: str, opened: Callable[[], AbstractContextManager[Synchronise]], rows: int, runs: int
) -> tuple[str, ...]:
    for node in _NODES:
        source.execute(f"create database {node}")
    _execute(source, _NODES[0], f"create table orders {SHAPE}")
    _execute(source, _NODES[0], INSERT.format(table="orders", first=1, last=rows))
    statements, merges = defaultdict(list), defaultdict(list)
    with opened() as synchronise:
        synchronise()
        for _ in range(runs):
            for operation in _ORDER:
                begin = time.perf_counter()
                _execute(source, _NODES[0], OPERATIONS[operation].format(table="orders", first=1, last=rows))
                statements[operation].append(time.perf_counter() - begin)
                merges[operation].append(synchronise())
                _require_equal(source)
    for node in _NODES:
        source.execute(f"drop database {node} with (force)")
    described = [way]
    for operation in _ORDER:
        seconds = statistics.median(merges[operation])
        described += [f"{statistics.median(statements[operation]):.2f}", f"{seconds:.2f}", f"{rows / seconds:,.0f}"]
    return tuple(described)


@contextmanager
def _ours(source: Source) -> Iterator[Synchronise]:
    hub, subscriber = (_url(source, node) for node in _NODES)
    merge = MergeReplication(hub)
    merge.add_publication("shop")
    merge.add_article("shop", "orders")
    merge.add_subscription("shop", subscriber)

    def synchronise() -> float:
        begin = time.perf_counter()
        merge.sync("shop", subscriber)
        return time.perf_counter() - begin

    yield synchronise


@contextmanager
def _theirs(source: Source, programs: Path, folder: Path) -> Iterator[Synchronise]:
    here, there = _NODES
    _execute(source, there, f"create table orders {SHAPE}")
    with (
        psycopg.connect(_url(source, here)) as reading,
        psycopg.connect(_url(source, there)) as writing,
        reading.cursor().copy("copy orders to stdout") as rows,
        writing.cursor().copy("copy orders from stdin") as copy,
    ):
        for part in rows:
            copy.write(part)
    with open_bucardo(programs, folder) as bucardo, bucardo.merging(source, _NODES, "orders"):
        yield bucardo.synchronise


def _require_equal(source: Source) -> None:
    here, there = (_execute(source, node, "select count(*), sum(id), sum(amount) from orders") for node in _NODES)
    assert here == there, f"{here} here, {there} there"


def _execute(source: Source, node: str, statement: str) -> tuple[object, ...] | None:
    with psycopg.connect(_url(source, node), autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchone() if cursor.description is not None else None


def _url(source: Source, node: str) -> str:
    return source.url.rpartition("/")[0] + f"/{node}"
