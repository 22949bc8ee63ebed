"""How long PostgreSQL's tracking takes to say what changed in a large table: recent rows, and rows all over it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg

from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from benchmarks.tracking.postgres_orders import INSERT, SHAPE, TRACKED, Way, drop, take_anchor
from rowtide.core.anchors import Anchor
from rowtide.tracking import ChangeTracking

ROWS = 10_000_000
_CHANGED = 1_000
_PAGES = {"full": "", "with room": "with (fillfactor = 90)"}
_CHANGES = {
    "inserts": INSERT,
    "updates all over the table": (
        "update {table} set amount = amount + 1 "
        "where id in (select 1 + number * {step} + {run} from generate_series(0, {changed} - 1) number)"
    ),
}


class ChangesDiffer(Exception):
    """An enumeration gave another number of changes than were made."""


def measure_enumeration(sizes: Sizes) -> Iterator[Table]:
    """Change a few rows of a large table, whose pages are full or have room, and enumerate."""
    rows = sizes.rows or ROWS
    found = []
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        for way in TRACKED:
            for pages, options in _PAGES.items():
                _fill(source, way, rows, options)
                for changes, statement in _CHANGES.items():
                    milliseconds = statistics.median(_measure(source, way, statement, rows, sizes.runs))
                    found.append((way.name, pages, changes, f"{milliseconds:.1f}"))
                drop(source, way)
    remark = f"{_CHANGED:,} changes of {rows:,} rows; the anchor is part of it."
    yield Table("PostgreSQL: enumeration", ("way", "pages", "changes", "ms"), tuple(found), (), remark)


def _fill(source: Source, way: Way, rows: int, options: str) -> None:
    """Make a table that had its rows before it was tracked, and has been vacuumed."""
    source.execute(f"create table {way.table} {SHAPE} {options}")
    source.execute(INSERT.format(table=way.table, first=1, last=rows))
    source.execute(f"vacuum (analyze) {way.table}")
    way.prepare(source, way.table)
    source.execute("checkpoint")


def _measure(source: Source, way: Way, statement: str, rows: int, runs: int) -> Iterator[float]:
    """Yield the milliseconds of an enumeration, read to the end. Raises `ChangesDiffer`."""
    anchor = take_anchor(source, way)
    for run in range(runs):
        last = int(source.execute(f"select max(id) from {way.table}"))
        keys = {"step": rows // _CHANGED, "run": run, "changed": _CHANGED, "first": last + 1, "last": last + _CHANGED}
        source.execute(statement.format(table=way.table, **keys))
        seconds, anchor, count = _enumerate(source, way, anchor)
        if count != _CHANGED:
            raise ChangesDiffer(f"{count} in place of {_CHANGED}")
        yield seconds * 1000


def _enumerate(source: Source, way: Way, since: Anchor) -> tuple[float, Anchor, int]:
    with closing(psycopg.connect(source.url)) as connection:
        tracking = ChangeTracking(connection)
        begin = time.perf_counter()
        with tracking.changes([way.table], since) as changes:
            count = sum(1 for _ in changes)
        return time.perf_counter() - begin, changes.anchor, count
