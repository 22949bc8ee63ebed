"""One workload: a server of its own, one log, and every way through it in turn."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.measured import Measured, median
from benchmarks.peers import DebeziumLog, run_debezium, run_pg_recvlogical
from benchmarks.source import Source, open_source
from benchmarks.thread import run_log_reader, run_thread
from benchmarks.workloads import WORKLOADS, Workload

WARM_UP_ROWS = 100_000
"""Of the workload itself, before its log: tables are made, plans are compiled, Debezium has its first batches."""

_FIRST_WARM_UPS, _FIRST_WARM_UP_ROWS = 4, 250_000
"""A capture that has run for a minute: the JVM has compiled what it runs by then."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """What was measured of a workload, the ceiling first."""

    workload: Workload
    rows: int
    over_socket: bool
    results: tuple[Measured, ...]


def warm_up(spark: SparkSession) -> None:
    """Let Spark capture for a while."""
    workload = WORKLOADS["inserts"]
    with _prepared(workload, 0, spark, over_socket=False) as source:
        for number in range(_FIRST_WARM_UPS):
            source.write(workload.statements(1 + number * _FIRST_WARM_UP_ROWS, _FIRST_WARM_UP_ROWS))
            source.cdc.run(once=True, spark=spark)


def measure(workload: Workload, rows: int, runs: int, spark: SparkSession, *, over_socket: bool) -> Throughput:
    """Write the log and go through it in each way; of the fast ones, several times, the median is taken."""
    warm_up_rows = min(WARM_UP_ROWS, rows)
    with _prepared(workload, warm_up_rows + rows, spark, over_socket=over_socket) as source:
        debezium = DebeziumLog(source.copy_slot("debezium"), warm_up_rows, rows)
        source.write(workload.statements(1, warm_up_rows))
        source.cdc.run(once=True, spark=spark)
        source.write(workload.statements(warm_up_rows + 1, rows))
        end = source.mark()
        results = (
            median(runs, lambda number: run_pg_recvlogical(source, end, number)),
            median(runs, lambda number: run_log_reader(source, end, number)),
            run_thread(source, spark),
            run_debezium(source, debezium),
        )
    return Throughput(workload, rows, over_socket, results)


@contextmanager
def _prepared(workload: Workload, rows: int, spark: SparkSession, *, over_socket: bool) -> Iterator[Source]:
    """Start a server with the workload's tables, filled and enabled, and let capture see them."""
    with (
        tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder,
        open_source(Path(folder), over_socket=over_socket) as source,
    ):
        source.write(workload.definitions())
        source.write(workload.filling(rows))
        source.execute("checkpoint")
        source.enable(workload.table_names)
        source.cdc.run(once=True, spark=spark)
        yield source
