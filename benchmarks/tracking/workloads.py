"""The workloads of change tracking, by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from benchmarks.table import Sizes, Table
from benchmarks.tracking import (
    postgres_bulk,
    postgres_enumeration,
    postgres_writers,
    sqlite_bulk,
    sqlite_commits,
    sqlite_enumeration,
    sqlite_writers,
)

TRACKING: Mapping[str, Callable[[Sizes], Iterator[Table]]] = {
    "tracking-sqlite": sqlite_bulk.measure_bulk,
    "tracking-sqlite-commits": sqlite_commits.measure_commits,
    "tracking-sqlite-enumeration": sqlite_enumeration.measure_enumeration,
    "tracking-sqlite-writers": sqlite_writers.measure_writers,
    "tracking-postgres": postgres_bulk.measure_writes,
    "tracking-postgres-enumeration": postgres_enumeration.measure_enumeration,
    "tracking-postgres-writers": postgres_writers.measure_writers,
}
