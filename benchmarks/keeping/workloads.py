"""The workloads of current tables, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.keeping.hundred_tables import measure_hundred_tables
from benchmarks.keeping.target_latency import measure_target_latency
from benchmarks.table import Sizes, Table

KEEPING: dict[str, Callable[[Sizes], Iterator[Table]]] = {
    "hundred-tables": measure_hundred_tables,
    "target-latency": measure_target_latency,
}
