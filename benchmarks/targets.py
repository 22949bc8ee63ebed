"""Targets of ten million rows and a million changes, beside a merge of the prepared net changes by hand."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.goals import at_most
from benchmarks.made_lake import (
    COLUMNS,
    INSTANCE,
    LSN_STEP,
    LSNS_PER_CYCLE,
    ROWS_PER_TRANSACTION,
    MadeLake,
    make_changes,
)
from benchmarks.table import Sizes, Table
from rowtide.cdc.consumers.consumers import ConsumedInstance, Consumer
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.lake.session import build_session, for_reading
from rowtide.targets.applying import Due
from rowtide.targets.definitions import Target
from rowtide.targets.options import CURRENT, HISTORY, TargetOptions
from rowtide.targets.table_format import without_lease
from rowtide.targets.tables import TableApplier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS, CHANGES_PER_ROW = 10_000_000, 0.1
_BATCHES = 20
_HAND = "hand"
_BY_HAND = """
merge into delta.`{table}` as t using delta.`{changes}` as s on t.id = s.id
when matched and s.`__$operation` = 1 then delete
when matched then update set t.customer = s.customer, t.amount = s.amount, t.status = s.status, t.note = s.note
when not matched then insert ({columns}) values ({values})
"""


def compare_targets(sizes: Sizes) -> Iterator[Table]:
    """Apply the same changes to a current table, to a history, and by hand to a copy, some times in turn."""
    rows = sizes.rows or ROWS
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        made = MadeLake(build_session(conf={"spark.driver.memory": "2g"}), Path(folder) / "lake")
        made.append(_changes(made, rows, 0, 1), [0])
        for target in (_define(kind, f"{folder}/{kind}") for kind in (CURRENT, HISTORY)):
            _apply(made, target)
            _fill(made, target, rows)
        made.spark.table(f"delta.`{folder}/current/{INSTANCE}`").write.format("delta").save(f"{folder}/{_HAND}")
        count = int(rows * CHANGES_PER_ROW) // _BATCHES
        for batch in range(1, _BATCHES + 1):
            made.append(
                _changes(made, rows, batch, count), range(0, count // ROWS_PER_TRANSACTION * LSN_STEP + 1, LSN_STEP)
            )
        prepared = f"{folder}/prepared"
        changes = Changes(for_reading(made.spark), made.lake)
        net = changes.get_net_changes(INSTANCE, CommitLsn(2 * LSNS_PER_CYCLE), None, "all with merge")
        net.write.format("delta").save(prepared)
        times = _measure(made, folder, prepared, sizes.runs)
    yield _compared("current target", "by hand", times[CURRENT], times[_HAND], rows, 1.2)
    yield _compared("history target", "current target", times[HISTORY], times[CURRENT], rows, 1.5)


def _measure(made: MadeLake, folder: str, prepared: str, runs: int) -> dict[str, float]:
    """Return the median seconds of each way; every run has copies of the tables of its own."""
    names, values = ", ".join(COLUMNS), ", ".join(f"s.{name}" for name in COLUMNS)
    times: dict[str, list[float]] = {way: [] for way in (_HAND, CURRENT, HISTORY)}
    for run in range(1 + runs):
        for way, found in times.items():
            place = f"{folder}/{way}-{run}"
            shutil.copytree(f"{folder}/{way}", place)
            begin = time.perf_counter()
            if way == _HAND:
                made.spark.sql(_BY_HAND.format(table=place, changes=prepared, columns=names, values=values))
            else:
                _apply(made, _define(way, place))
            found.append(time.perf_counter() - begin)
            shutil.rmtree(place)
    # The first run warms up.
    return {way: statistics.median(found[1:]) for way, found in times.items()}


def _define(kind: str, path: str) -> Target:
    now = datetime.now(UTC)
    instance = ConsumedInstance(INSTANCE, "m1")
    consumer = Consumer("target:bench", (instance,), timedelta(hours=168), None, None, None, None, now, (INSTANCE,))
    return Target(kind, kind, kind, TargetOptions(path=path), consumer, now)


def _apply(made: MadeLake, target: Target) -> None:
    recorded, high = PublishedLake(made.lake).read_instance_and_high(INSTANCE)
    TableApplier(made.lake, target, lambda: made.spark, without_lease).apply(Due(recorded, None, high))


def _fill(made: MadeLake, target: Target, rows: int) -> None:
    """Insert the rows that are there before the changes."""
    names = list(COLUMNS)
    selected = ["id", *_values("0")]
    if target.kind == HISTORY:
        names += ["valid_from_lsn", "valid_from_time", "is_current"]
        selected += ["1L as valid_from_lsn", "timestamp '2026-01-01' as valid_from_time", "true as is_current"]
    made.spark.range(1, rows, 1, 40).selectExpr(*selected).createOrReplaceTempView("filled")
    table = f"delta.`{target.options.path}/{INSTANCE}`"
    made.spark.sql(f"insert into {table} ({', '.join(names)}) select {', '.join(names)} from filled")


def _changes(made: MadeLake, rows: int, batch: int, count: int) -> DataFrame:
    """Return a cycle's change rows: updates of keys all over the table; in the first, one insert."""
    if not batch:
        return make_changes(made, count, "0", batch, operations=[2], values=_values)
    return make_changes(made, count, f"1 + pmod(xxhash64(id, {batch}), {rows - 1})", batch, values=_values)


def _values(version: str) -> list[str]:
    return [
        "id % 1000 as customer",
        f"cast(id % 10000 + {version} as decimal(12,2)) as amount",
        f"concat('status ', {version}) as status",
        "concat('note ', id) as note",
    ]


def _compared(name: str, other: str, our_s: float, other_s: float, rows: int, goal: float) -> Table:
    ratio = our_s / other_s
    return Table(
        f"{name}: {int(rows * CHANGES_PER_ROW):,} changes of {rows:,} rows",
        (f"{name}, s", f"{other}, s", "ratio"),
        ((f"{our_s:.2f}", f"{other_s:.2f}", f"{ratio:.2f}"),),
        (at_most(f"{name}, of {other}", goal, ratio),),
    )


TARGETS: dict[str, Callable[[Sizes], Iterator[Table]]] = {"targets": compare_targets}
