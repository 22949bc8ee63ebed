"""`make bench`: the capture thread against pg_recvlogical, in one run on one log."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.source import Source, open_source
from benchmarks.thread import Measured, median, run_log_reader, run_pg_recvlogical, run_thread
from rowtide.lake.session import build_session

WARM_UPS, WARM_UP_ROWS = 4, 250_000
"""A capture that has run for a minute: the JVM has compiled what it runs by then."""


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows in the log")
    parser.add_argument("--runs", type=int, default=3, help="of the fast ways, the median is shown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        Path(folder).chmod(0o755)
        with open_source(Path(folder)) as source:
            print_table(measure(source, arguments.rows, arguments.runs), arguments.rows)


def measure(source: Source, rows: int, runs: int) -> list[Measured]:
    """Warm Spark up on rows of their own, write the log, and go through it in each way."""
    print("Starting Spark and warming it up ...", flush=True)
    spark = build_session(memory="2g")
    for number in range(WARM_UPS):
        source.insert(WARM_UP_ROWS, first=1 + number * WARM_UP_ROWS)
        source.cdc.run(once=True, spark=spark)
    print(f"Writing {rows:,} rows ...", flush=True)
    source.insert(rows, first=10_000_000)
    end = source.execute("select pg_current_wal_insert_lsn()")
    # The log's end is reached by a transaction behind it.
    source.execute("select pg_logical_emit_message(true, 'benchmark', 'end')")
    return [
        median(runs, lambda number: run_pg_recvlogical(source, end, number)),
        median(runs, lambda number: run_log_reader(source, end, number)),
        run_thread(source, spark),
    ]


def print_table(results: list[Measured], rows: int) -> None:
    """Print rates, each as a ratio to the first, and where the time went."""
    ceiling = results[0].seconds
    print(f"\n| {rows:,} narrow rows, one log | s | k rows/s | of {results[0].name} |\n|---|---|---|---|")
    for result in results:
        rate = rows / result.seconds / 1000
        print(f"| {result.name} | {result.seconds:.2f} | {rate:.0f} | {ceiling / result.seconds:.2f} |")
    for result in results:
        if result.phases:
            print(f"\nWhere the {result.seconds:.2f} s of “{result.name}” go (threads overlap):")
            for label, seconds in sorted(result.phases.items(), key=lambda item: -item[1]):
                print(f"  {seconds:7.2f} s  {label}")


if __name__ == "__main__":
    main()
