"""`make bench`: capture against PostgreSQL's own client and Debezium on the same logs, its latency, and consumers."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.latency import measure_latency
from benchmarks.reading import READING, Comparison
from benchmarks.report import describe_comparison, describe_goals, describe_latency, describe_throughput
from benchmarks.throughput import Throughput, measure, warm_up
from benchmarks.workloads import DEFAULT, LATENCY, WORKLOADS
from rowtide.lake.session import build_session


def main() -> None:
    """Measure and print a table for each workload, and the goals."""
    arguments = _parse()
    names = [*WORKLOADS, LATENCY, *READING] if arguments.all else arguments.workload
    # The latency first: what it measures has the machine for itself.
    latency = measure_latency(arguments.seconds) if LATENCY in names else None
    if latency is not None:
        _print(describe_latency(latency))
    throughputs = _measure([name for name in names if name in WORKLOADS], arguments)
    comparisons = list(_compare([name for name in names if name in READING]))
    _print(describe_goals(throughputs, latency, comparisons))


def _compare(names: Sequence[str]) -> Iterator[Comparison]:
    for name in names:
        print(f"Making a lake for {name} ...", flush=True)
        for found in READING[name]():
            _print(describe_comparison(found))
            yield found


def _measure(names: Sequence[str], arguments: argparse.Namespace) -> list[Throughput]:
    found = []
    if names:
        print("Starting Spark and warming it up ...", flush=True)
        spark = build_session(memory="2g")
        warm_up(spark)
    for name in names:
        workload = WORKLOADS[name]
        rows = arguments.rows or workload.rows
        found.append(measure(workload, rows, arguments.runs, spark, over_socket=arguments.socket))
        _print(describe_throughput(found[-1]))
    return found


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    known = [*WORKLOADS, LATENCY, *READING]
    parser.add_argument("--workload", nargs="+", choices=known, default=DEFAULT, metavar="NAME", help=", ".join(known))
    parser.add_argument("--all", action="store_true", help="every workload")
    parser.add_argument("--rows", type=int, help="rows in each log, in place of the workload's own number")
    parser.add_argument("--runs", type=int, default=3, help="of the fast ways, the median is shown")
    parser.add_argument("--socket", action="store_true", help="the server's local socket in place of TCP")
    parser.add_argument("--seconds", type=int, default=60, help="how long the latency is measured")
    return parser.parse_args()
