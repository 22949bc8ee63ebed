"""A table as of now, of a snapshot of ten million rows and a million changes since, beside reading the snapshot."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import rowtide
from benchmarks.goals import at_most
from benchmarks.made_lake import COLUMNS, INSTANCE, LSN_STEP, ROWS_PER_TRANSACTION, MadeLake, make_changes, order_values
from benchmarks.table import Table
from rowtide.cdc.spark_changes import Changes
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.session import build_session, for_reading
from rowtide.lake.stores import locate
from rowtide.lake.tables import read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS, CHUNKS = 10_000_000, 40
CHANGES, CYCLES = 1_000_000, 20
_PER_CYCLE = CHANGES // CYCLES
_RUNS = 3
_GOAL = 1.5


def compare_table_as_of() -> Iterator[Table]:
    """By Spark and without, each beside reading the same columns of the base."""
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        made = MadeLake(build_session(conf={"spark.driver.memory": "2g"}), Path(folder) / "lake")
        made.append(_changes(made, 0, 1), [0])
        made.copy(_copied(made, chunk) for chunk in range(CHUNKS))
        for cycle in range(1, CYCLES + 1):
            made.append(
                _changes(made, cycle, _PER_CYCLE), range(0, _PER_CYCLE // ROWS_PER_TRANSACTION * LSN_STEP, LSN_STEP)
            )
        spark = for_reading(made.spark)
        base = read_table(spark, made.base_path).select(*COLUMNS)
        changes = Changes(spark, made.lake)
        yield _compared(
            "table as of now, by Spark",
            lambda: _exhaust(changes.get_table_as_of(INSTANCE).select(*COLUMNS)),
            lambda: _exhaust(base),
        )
        lake = rowtide.open_lake(made.lake)
        yield _compared(
            "table as of now, without Spark",
            lambda: _count(lake.get_table_as_of(INSTANCE, None, COLUMNS).batches()),
            lambda: _count(_stream_base(made.base_path)),
        )


def _compared(name: str, ours: Callable[[], object], other: Callable[[], object]) -> Table:
    """Measure both in turn, after a run of each that warms up."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(_RUNS + 1):
        for measured, found in zip((ours, other), times, strict=True):
            begin = time.perf_counter()
            measured()
            found.append(time.perf_counter() - begin)
    our_s, other_s = (statistics.median(found[1:]) for found in times)
    return Table(
        f"{name}: 10 M rows, 1 M changes",
        ("table as of now, s", "reading the base, s", "ratio"),
        ((f"{our_s:.2f}", f"{other_s:.2f}", f"{our_s / other_s:.2f}"),),
        (at_most(f"{name}, of reading the base", _GOAL, our_s / other_s),),
    )


def _changes(made: MadeLake, cycle: int, count: int) -> DataFrame:
    """Return a cycle's change rows: updates of keys all over the table."""
    return make_changes(made, count, f"pmod(xxhash64(id, {cycle}), {ROWS})", cycle)


def _copied(made: MadeLake, chunk: int) -> DataFrame:
    count = ROWS // CHUNKS
    return made.spark.range(chunk * count, (chunk + 1) * count, 1, 1).selectExpr("id", *order_values("0"))


def _exhaust(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _stream_base(path: str) -> Iterator[object]:
    base = open_snapshot(locate(path))
    assert base is not None
    return base.stream(COLUMNS)


def _count(batches: Iterator[object]) -> int:
    return sum(1 for _ in batches)


TABLES_AS_OF: Mapping[str, Callable[[], Iterator[Table]]] = {"table-as-of": compare_table_as_of}
"""Tables as of an LSN, by the workload's name."""
