"""What consumers do with a lake, beside what else they could do with it: net changes, a merge, the last minute."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.goals import at_most
from benchmarks.made_lake import (
    COLUMNS,
    INSTANCE,
    LSN_STEP,
    LSNS_PER_CYCLE,
    ROWS_PER_TRANSACTION,
    SECONDS_PER_CYCLE,
    MadeLake,
    make_changes,
)
from benchmarks.table import Table
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.lake.session import build_session, for_reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEYS = 1_000_000
ROWS_PER_CYCLE = 100_000
CYCLES = 100
OLD_CYCLES, YOUNG_CYCLES = 2_000, 10
_RUNS = 3
_FEW = 50


class ResultsDiffer(Exception):
    """What is compared does not do the same."""


def _compared(name: str, ours: str, our_s: float, other: str, other_s: float, goal: float) -> Table:
    """Return seconds of ours and of what it is compared with, on the same rows in one run; `goal` bounds the ratio."""
    ratio = our_s / other_s
    return Table(
        name,
        (f"{ours}, s", f"{other}, s", "ratio"),
        ((f"{our_s:.2f}", f"{other_s:.2f}", f"{ratio:.2f}"),),
        (at_most(f"{name}, of {other}", goal, ratio),),
    )


def compare_net_changes() -> Iterator[Table]:
    """Net changes of ten million change rows of a million keys, and a merge of the last million's."""
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        made = MadeLake(build_session(conf={"spark.driver.memory": "2g"}), Path(folder) / "lake")
        for cycle in range(CYCLES):
            made.append(_orders(made, cycle), _lsns(cycle))
        changes = Changes(for_reading(made.spark), made.lake)
        other_s, expected = _ask_duckdb(made, Path(folder))
        our_s = _median(lambda: _exhaust(changes.get_net_changes(INSTANCE)))
        found = changes.get_net_changes(INSTANCE).selectExpr("count(*)", "sum(id)", "sum(`__$operation`)").collect()[0]
        if tuple(found) != expected:
            raise ResultsDiffer(f"{tuple(found)} and {expected}")
        yield _compared("net changes of 10 M rows, 1 M keys", "get_net_changes", our_s, "DuckDB", other_s, 1.5)
        yield _compare_merge(made, changes, folder)


def compare_ages() -> Iterator[Table]:
    """Changes of the last minute, from a lake after ten cycles and after two thousand."""
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        made = MadeLake(build_session(conf={"spark.driver.memory": "2g"}), Path(folder) / "lake")
        seconds = {}
        for cycles in (YOUNG_CYCLES, OLD_CYCLES):
            while made.cycle < cycles:
                made.append(_few_orders(made), range(0, _FEW * LSN_STEP, LSN_STEP))
                made.compact_in_turn()
            seconds[cycles] = _median(lambda: _read_last_minute(made), runs=7)
        yield _compared(
            "changes of the last minute",
            f"after {OLD_CYCLES:,} cycles",
            seconds[OLD_CYCLES],
            f"after {YOUNG_CYCLES}",
            seconds[YOUNG_CYCLES],
            1.1,
        )


def _read_last_minute(made: MadeLake) -> None:
    cycles = min(60 // SECONDS_PER_CYCLE, made.cycle - 1)
    first = CommitLsn((made.cycle - cycles) * LSNS_PER_CYCLE)
    rows = Changes(for_reading(made.spark), made.lake).get_all_changes(INSTANCE, first).collect()
    assert len(rows) == (cycles + 1) * _FEW, len(rows)


def _few_orders(made: MadeLake) -> DataFrame:
    """Return a few updates, of one transaction each."""
    return make_changes(made, _FEW, f"id + {made.cycle}", made.cycle, per_transaction=1)


def _orders(made: MadeLake, cycle: int) -> DataFrame:
    """Return a cycle's change rows: first inserts of all keys, then updates, at last deletes of half of the keys."""
    if cycle < CYCLES // 10:
        return make_changes(made, ROWS_PER_CYCLE, f"{cycle * ROWS_PER_CYCLE} + id", cycle, operations=[2])
    if cycle >= CYCLES - CYCLES // 20:
        return make_changes(made, ROWS_PER_CYCLE, f"{(cycle - 95) * ROWS_PER_CYCLE} + id", cycle, operations=[1])
    return make_changes(made, ROWS_PER_CYCLE // 2, f"pmod(xxhash64(id, {cycle}), {KEYS})", cycle)


def _lsns(cycle: int) -> range:
    is_update = CYCLES // 10 <= cycle < CYCLES - CYCLES // 20
    transactions = ROWS_PER_CYCLE // (2 if is_update else 1) // ROWS_PER_TRANSACTION
    return range(0, transactions * LSN_STEP, LSN_STEP)


def _ask_duckdb(made: MadeLake, folder: Path) -> tuple[float, tuple[object, ...]]:
    """Return the seconds that DuckDB takes for the same, with as many threads, and counts to compare with."""
    import duckdb

    files = [str(file) for file in Path(made.path).glob("*.parquet")]
    with duckdb.connect(str(folder / "net.duckdb")) as connection:
        connection.execute(f"set threads = {made.spark.sparkContext.defaultParallelism}")
        seconds = _median(lambda: connection.execute(_DUCKDB, [files]))
        counted = connection.execute("select count(*), sum(id), sum(operation) from net").fetchone()
    assert counted is not None
    return seconds, tuple(counted)


_DUCKDB = """
create or replace temp table net as
with numbered as (
    select *, row_number() over (
            partition by id order by "__$start_lsn" desc, "__$seqval" desc, "__$operation" desc) as place,
        first_value("__$operation") over (
            partition by id order by "__$start_lsn", "__$seqval", "__$operation") as first_operation
    from read_parquet($1) where "__$operation" in (1, 2, 4))
select "__$start_lsn", id, customer, amount, status, note,
       case when "__$operation" = 1 then 1 when first_operation = 2 then 2 else 4 end as operation
from numbered where place = 1 and not ("__$operation" = 1 and first_operation = 2)
"""


def _compare_merge(made: MadeLake, changes: Changes, folder: str) -> Table:
    """Merge the net changes of the last ten cycles into a copy of the table; and the same from a table of them."""
    first = CommitLsn((made.cycle - 9) * LSNS_PER_CYCLE)
    before = changes.get_net_changes(INSTANCE, None, first.decrement(), "all with merge")
    before.select(*COLUMNS).write.format("delta").save(f"{folder}/before")
    net = changes.get_net_changes(INSTANCE, first, None, "all with merge")
    net.write.format("delta").save(f"{folder}/prepared")
    prepared = made.spark.read.format("delta").load(f"{folder}/prepared")
    times: dict[str, list[float]] = {"net": [], "prepared": []}
    for run in range(_RUNS):
        for name, source in (("prepared", prepared), ("net", net)):
            target = f"{folder}/{name}-{run}"
            made.spark.read.format("delta").load(f"{folder}/before").write.format("delta").save(target)
            begin = time.perf_counter()
            _merge(source, target)
            times[name].append(time.perf_counter() - begin)
    ours, other = (statistics.median(times[name]) for name in ("net", "prepared"))
    return _compared("merge of 10 cycles into 1 M rows", "net changes, merged", ours, "a table of them", other, 1.3)


def _merge(source: DataFrame, target: str) -> None:
    from delta.tables import DeltaTable

    values: dict[str, str | Column] = {
        name: f"source.{name}" for name in ("id", "customer", "amount", "status", "note")
    }
    merge = (
        DeltaTable.forPath(source.sparkSession, target)
        .alias("target")
        .merge(source.alias("source"), "target.id = source.id")
    )
    merge = merge.whenMatchedDelete("source.`__$operation` = 1").whenMatchedUpdate(set=values)
    merge.whenNotMatchedInsert("source.`__$operation` = 5", values=values).execute()


def _exhaust(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _median(measured: Callable[[], object], runs: int = _RUNS) -> float:
    """Return the median seconds, after a run that warms up."""
    measured()
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        measured()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


READING: Mapping[str, Callable[[], Iterator[Table]]] = {
    "net-changes": compare_net_changes,
    "old-lake": compare_ages,
}
"""What consumers do, by the workload's name."""
