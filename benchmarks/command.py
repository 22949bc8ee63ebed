"""`make bench`: capture beside PostgreSQL's client and Debezium, latency, consumers, change tracking, replication."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from benchmarks.commands import COMMANDS
from benchmarks.cycles import CYCLES
from benchmarks.initial_copy import INITIAL_COPY
from benchmarks.keeping import KEEPING
from benchmarks.latency import MEASURED_S, measure_latency
from benchmarks.merge import MERGE
from benchmarks.monitor import MONITOR
from benchmarks.object_store import OBJECT_STORE
from benchmarks.reading import READING
from benchmarks.reading_changes import CHANGES
from benchmarks.replication import REPLICATION
from benchmarks.report import describe_goals, describe_latency, describe_table, describe_throughput
from benchmarks.sizing import SIZING
from benchmarks.spark_start import SPARK_START
from benchmarks.stops import STOPS
from benchmarks.table import Sizes, Table
from benchmarks.tables_as_of import TABLES_AS_OF
from benchmarks.targets import TARGETS
from benchmarks.throughput import Throughput, measure, warm_up
from benchmarks.tracking import TRACKING
from benchmarks.workers import WORKERS
from benchmarks.workloads import DEFAULT, LATENCY, WORKLOADS
from rowtide.lake.session import build_session

_KNOWN = [
    *(*WORKLOADS, LATENCY, *CYCLES, *CHANGES, *READING, *TABLES_AS_OF, *TRACKING, *REPLICATION, *MERGE, *COMMANDS),
    *(*MONITOR, *OBJECT_STORE, *SPARK_START, *WORKERS, *TARGETS, *INITIAL_COPY, *KEEPING, *STOPS, *SIZING),
]

_LAKES = {**READING, **TABLES_AS_OF}
OVER_SOCKET = ("inserts", "inserts-5m")
CAPTURE = (LATENCY, *CYCLES, *CHANGES, *OVER_SOCKET, "50-tables", "2-kb-rows", "20-columns", "net-changes")


def main() -> None:
    """Measure and print a table for each workload, and the goals."""
    arguments = _parse()
    names = _choose(arguments)
    # The latency first: what it measures has the machine for itself.
    latency = measure_latency(arguments.seconds or MEASURED_S) if LATENCY in names else None
    if latency is not None:
        _print(describe_latency(latency))
    throughputs = list(_measure([name for name in names if name in WORKLOADS], arguments))
    tables = [*_read([name for name in names if name in _LAKES])]
    sizes = Sizes(arguments.rows, arguments.runs, arguments.seconds)
    compared = (CYCLES, CHANGES, TRACKING, REPLICATION, MERGE, COMMANDS, OBJECT_STORE, WORKERS, TARGETS, INITIAL_COPY)
    for workloads in (*compared, MONITOR, SPARK_START, KEEPING, STOPS, SIZING):
        tables += _compare(workloads, [name for name in names if name in workloads], sizes)
    _print(describe_goals(throughputs, latency, tables))


def _read(names: Sequence[str]) -> Iterator[Table]:
    for name in names:
        print(f"Making a lake for {name} ...", flush=True)
        yield from _printed(_LAKES[name]())


def _compare(
    workloads: Mapping[str, Callable[[Sizes], Iterator[Table]]], names: Sequence[str], sizes: Sizes
) -> Iterator[Table]:
    for name in names:
        print(f"Measuring {name} ...", flush=True)
        yield from _printed(workloads[name](sizes))


def _printed(tables: Iterable[Table]) -> Iterator[Table]:
    for found in tables:
        _print(describe_table(found))
        yield found


def _measure(names: Sequence[str], arguments: argparse.Namespace) -> Iterator[Throughput]:
    if not names:
        return
    print("Starting Spark and warming it up ...", flush=True)
    spark = build_session(conf={"spark.driver.memory": "2g"})
    warm_up(spark)
    for name in names:
        workload = WORKLOADS[name]
        rows = arguments.rows or workload.rows
        for over_socket in _ways(name, arguments):
            found = measure(workload, rows, arguments.runs, spark, over_socket=over_socket)
            _print(describe_throughput(found))
            yield found


def _ways(name: str, arguments: argparse.Namespace) -> Sequence[bool]:
    """Return whether a workload is measured over the local socket, over TCP, or both."""
    if arguments.capture:
        return (True, False) if name in OVER_SOCKET else (False,)
    return (arguments.socket,)


def _choose(arguments: argparse.Namespace) -> Sequence[str]:
    if arguments.capture:
        return CAPTURE
    return _KNOWN if arguments.all else arguments.workload


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "--workload", nargs="+", choices=_KNOWN, default=DEFAULT, metavar="NAME", help=", ".join(_KNOWN)
    )
    parser.add_argument("--all", action="store_true", help="every workload")
    parser.add_argument("--capture", action="store_true", help="what capture has goals for, also over the local socket")
    parser.add_argument("--rows", type=int, help="rows in each log or table, in place of the workload's own number")
    parser.add_argument("--runs", type=int, default=3, help="of the fast ways, the median is shown")
    parser.add_argument("--socket", action="store_true", help="the server's local socket in place of TCP")
    parser.add_argument("--seconds", type=int, help="how long the latency is measured, or writers write")
    return parser.parse_args()
