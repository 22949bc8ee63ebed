"""Copies of captured tables: beside their two halves, beside Debezium's snapshot, and beside writers."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psycopg

from benchmarks.goals import at_least, at_most
from benchmarks.peers import run_debezium_snapshot
from benchmarks.running_capture import run_capture
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from rowtide.lake.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, DEBEZIUM_ROWS = 10_000_000, 1_000_000
_FILL = """
insert into item select i, i % 1000, (i * 7) % 100000 / 100.0, 'status-' || i % 10, 'note of ' || i
from generate_series({first}, {last}) i
"""
_VALUES = (
    "cast(id as int) as id",
    "cast(id % 1000 as int) as customer",
    "cast((id * 7) % 100000 / 100 as decimal(10, 2)) as amount",
    "concat('status-', id % 10) as status",
    "concat('note of ', id) as note",
)
_TABLE = "create table item (id int primary key, customer int, amount numeric(10, 2), status text, note text)"
_FILLED_AT_ONCE = 1_000_000

WRITERS, TRANSACTIONS_PER_S, ROWS_PER_S = 4, 500, 50_000
_WRITTEN_S = 30
_MOST_WAIT_MS = 50.0


def compare_initial_copy(sizes: Sizes) -> Iterator[Table]:
    """Copy a table: by `cdc run --once`, by COPY to nothing and Spark's write of such rows, and by Debezium."""
    rows = sizes.rows or ROWS
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        _fill(source, rows)
        piped_s = _timed(lambda: _pipe(source))
        spark = build_session(conf={"spark.driver.memory": "2g"})
        _write(spark, f"{folder}/warm", min(rows, _FILLED_AT_ONCE))
        written_s = _timed(lambda: _write(spark, f"{folder}/plain", rows))
        source.cdc.enable_db(source.lake)
        source.cdc.enable_table("item")
        ours_s = _timed(lambda: source.cdc.run(once=True))
        yield _compared(rows, piped_s, written_s, ours_s)
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        few = min(rows, DEBEZIUM_ROWS)
        _fill(source, few)
        source.cdc.enable_db(source.lake)
        source.cdc.enable_table("item", snapshot=False)
        peer = few / run_debezium_snapshot(source, "public.item", few).seconds
        yield Table(
            f"initial copy beside Debezium's snapshot of {few:,} rows",
            ("way", "k rows/s"),
            (("rowtide, to Delta", f"{rows / ours_s / 1000:.0f}"), ("Debezium, to nothing", f"{peer / 1000:.0f}")),
            (at_least("initial copy, of Debezium's snapshot", 5, rows / ours_s / peer),),
        )


def measure_writers(sizes: Sizes) -> Iterator[Table]:
    """Update single rows at a steady rate, without a copy of the table and beside one at a limited rate."""
    seconds = sizes.seconds or _WRITTEN_S
    rows = sizes.rows or ROWS_PER_S * seconds * 2
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        _fill(source, rows)
        source.cdc.enable_db(source.lake)
        source.cdc.enable_table("item", snapshot=False)
        with run_capture(source):
            alone = _write_steadily(source, rows, seconds)
            source.cdc.resnapshot("item", rows_per_second=ROWS_PER_S)
            beside = _write_steadily(source, rows, seconds)
            (snapshot,) = source.cdc.list_snapshots()
    yield Table(
        f"waits of {TRANSACTIONS_PER_S} updates a second, beside a copy at {ROWS_PER_S:,} rows a second",
        ("", "median, ms", "p99, ms", "longest, ms"),
        (("without a copy", *map(_ms, alone)), ("beside the copy", *map(_ms, beside))),
        (at_most("p99 of a writer's wait beside a copy, ms", _MOST_WAIT_MS, 1000 * beside[1]),),
        remark=f"{snapshot.copied_rows:,} rows were copied meanwhile.",
    )


def _compared(rows: int, piped_s: float, written_s: float, ours_s: float) -> Table:
    halves = piped_s + written_s
    return Table(
        f"initial copy of {rows:,} rows",
        ("way", "s", "k rows/s"),
        tuple(
            (way, f"{seconds:.1f}", f"{rows / seconds / 1000:.0f}")
            for way, seconds in (
                ("COPY, piped to nothing", piped_s),
                ("Spark's write of such rows", written_s),
                ("both", halves),
                ("rowtide cdc run --once", ours_s),
            )
        ),
        (at_most("initial copy, of piped COPY and Spark's write", 1.15, ours_s / halves),),
    )


def _fill(source: Source, rows: int) -> None:
    firsts = range(1, rows + 1, _FILLED_AT_ONCE)
    fills = (_FILL.format(first=first, last=min(first + _FILLED_AT_ONCE - 1, rows)) for first in firsts)
    source.write([_TABLE, *fills, "vacuum analyze item", "checkpoint"])


def _pipe(source: Source) -> None:
    command = [str(source.server.binary("psql")), source.url, "-qXc", "copy item to stdout"]
    environment = {**os.environ, **source.server.environment()}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as copying:
        subprocess.run(["cat"], stdin=copying.stdout, stdout=subprocess.DEVNULL, check=True)
    assert copying.returncode == 0


def _write(spark: SparkSession, path: str, rows: int) -> None:
    spark.range(1, rows + 1).selectExpr(*_VALUES).write.format("delta").save(path)


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _write_steadily(source: Source, rows: int, seconds: int) -> tuple[float, float, float]:
    """Return the median, the 99th percentile and the longest of the seconds that updates took."""
    waits: list[list[float]] = [[] for _ in range(WRITERS)]
    writers = [_Writer(source.url, rows, seconds, number, waits[number]) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    taken = np.concatenate([np.array(each) for each in waits])
    median, p99 = np.percentile(taken, (50, 99)).tolist()
    return median, p99, float(taken.max())


class _Writer(threading.Thread):
    def __init__(self, url: str, rows: int, seconds: int, number: int, waits: list[float]) -> None:
        super().__init__(name=f"writer-{number}")
        self._url, self._rows, self._seconds, self._waits = url, rows, seconds, waits
        self._chosen = np.random.default_rng(number)

    def run(self) -> None:
        period = WRITERS / TRANSACTIONS_PER_S
        with psycopg.connect(self._url, autocommit=True) as session:
            begin = due = time.perf_counter()
            while due < begin + self._seconds:
                time.sleep(max(due - time.perf_counter(), 0))
                key = int(self._chosen.integers(1, self._rows + 1))
                # From when it was due: a writer that is late because the one before waited has waited too.
                session.execute("update item set customer = customer + 1 where id = %s", [key])
                self._waits.append(time.perf_counter() - due)
                due += period


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.1f}"


INITIAL_COPY: Mapping[str, Callable[[Sizes], Iterator[Table]]] = {
    "initial-copy": compare_initial_copy,
    "copy-beside-writers": measure_writers,
}
"""Copies of captured tables, by the workload's name."""
