"""The results as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.goals import Goal, at_least, at_most
from benchmarks.latency import TOTAL, Latency
from benchmarks.measured import Measured
from benchmarks.peers import CEILING, DEBEZIUM
from benchmarks.table import Table
from benchmarks.thread import LOG_READER, THREAD
from benchmarks.throughput import Throughput

_MEBIBYTE = 1024 * 1024
_RUNNING = ("running: k rows/s", "transactions/s", f"of {CEILING}", f"of {DEBEZIUM}")


def describe_throughput(found: Throughput) -> Iterator[str]:
    """Yield a table of every way, and where the time of each went."""
    workload, rows = found.workload, found.rows
    transactions = workload.transactions(rows)
    yield f"\n### {workload.name}: {rows:,} rows, {transactions:,} transactions, tables: {workload.tables}\n"
    yield f"All over {'the local socket, but for Debezium, which cannot' if found.over_socket else 'TCP'}.\n"
    yield _row("one log", "s", "k rows/s", "start s", *_RUNNING, "peak MiB")
    yield "|---|---|---|---|---|---|---|---|---|"
    ceiling, debezium = (_named(found.results, name) for name in (CEILING, DEBEZIUM))
    for result in found.results:
        yield _row(
            result.name,
            f"{result.seconds:.2f}",
            f"{rows / result.seconds / 1000:.0f}",
            f"{result.start_s:.2f}",
            f"{rows / result.running_s / 1000:.0f}",
            f"{transactions / result.running_s:,.0f}",
            f"{ceiling.running_s / result.running_s:.2f}",
            f"{debezium.running_s / result.running_s:.2f}",
            "" if result.peak_memory is None else f"{result.peak_memory / _MEBIBYTE:.0f}",
        )
    for result in found.results:
        yield from _describe_phases(result)


def _describe_phases(result: Measured) -> Iterator[str]:
    if not result.phases:
        return
    yield f"\nWhere the {result.seconds:.2f} s of “{result.name}” go (threads overlap):\n"
    yield "| s | |\n|---|---|"
    for label, seconds in sorted(result.phases.items(), key=lambda item: -item[1]):
        yield _row(f"{seconds:.2f}", label)


def describe_latency(found: Latency) -> Iterator[str]:
    """Yield a table of the way from commit to queryable."""
    rate = found.transactions / found.seconds
    yield f"\n### latency: {rate:.0f} transactions/s over four tables for {found.seconds} s\n"
    cpu = f"{found.cpu_s / found.seconds:.2f} CPU s a second of capture and log reader"
    yield f"Commit to queryable, {found.transactions:,} transactions in {found.cycles} cycles, {cpu}:\n"
    yield "| s | mean | median | 95th percentile | 99th percentile |\n|---|---|---|---|---|"
    for label, part in found.parts.items():
        yield _row(label, *(f"{value:.2f}" for value in (part.mean, part.median, part.p95, part.p99)))


def describe_table(found: Table) -> Iterator[str]:
    """Yield what was measured side by side."""
    yield f"\n### {found.name}\n"
    if found.remark:
        yield f"{found.remark}\n"
    yield _row(*found.columns)
    yield "|---" * len(found.columns) + "|"
    for row in found.rows:
        yield _row(*row)


def describe_goals(
    throughputs: Sequence[Throughput], latency: Latency | None, tables: Sequence[Table]
) -> Iterator[str]:
    """Yield a table of the goals that something was measured for."""
    goals = [goal for found in throughputs for goal in _goals_of(found)]
    goals += _goals_of_latency(latency) if latency is not None else []
    goals += [goal for table in tables for goal in table.goals]
    yield "\n### Goals\n"
    yield "| goal | needed | measured | met |\n|---|---|---|---|"
    for goal in goals:
        yield _row(goal.name, goal.needed, goal.measured, "yes" if goal.is_met else "no")


def _goals_of(found: Throughput) -> Iterator[Goal]:
    reader, thread = (_named(found.results, name) for name in (LOG_READER, THREAD))
    workload = found.workload.name
    socket = ", local socket" if found.over_socket else ""
    for way, peer, needed in _LEAST.get((workload, found.over_socket), ()):
        ratio = _named(found.results, peer).running_s / _named(found.results, way).running_s
        yield at_least(f"{workload}{socket}: {way}, of {peer}", needed, ratio)
    if workload == "single-rows":
        rate = found.workload.transactions(found.rows) / thread.running_s
        yield at_least("single-row transactions/s captured", 10_000, rate)
    assert reader.peak_memory is not None, "it runs in a process of its own"
    yield at_most(f"{workload}{socket}: log reader's peak MiB", 1024, reader.peak_memory / _MEBIBYTE)


_LEAST = {
    ("inserts", True): ((LOG_READER, CEILING, 0.95), (THREAD, CEILING, 0.6)),
    ("inserts-5m", True): ((LOG_READER, CEILING, 0.95), (THREAD, CEILING, 0.6)),
    ("inserts", False): ((LOG_READER, CEILING, 0.95), (THREAD, DEBEZIUM, 4)),
    ("inserts-5m", False): ((THREAD, DEBEZIUM, 4),),
    ("50-tables", False): ((THREAD, CEILING, 0.9), (THREAD, DEBEZIUM, 2.5)),
    ("2-kb-rows", False): ((THREAD, CEILING, 0.7),),
    ("20-columns", False): ((THREAD, CEILING, 0.8),),
}
"""By workload, and whether over the local socket: at least so many times a peer's rate."""


def _goals_of_latency(found: Latency) -> list[Goal]:
    total = found.parts[TOTAL]
    return [
        at_most("commit to queryable, median s", 0.7, total.median),
        at_most("commit to queryable, 95th percentile s", 1.5, total.p95),
    ]


def _named(results: Sequence[Measured], name: str) -> Measured:
    return next(result for result in results if result.name == name)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
