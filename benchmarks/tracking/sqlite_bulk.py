"""What tracking adds to bulk writes in SQLite, beside the session extension and a column `updated_at`."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Protocol

from benchmarks.table import Sizes, Table
from benchmarks.tracking.extra_cost import Costs
from benchmarks.tracking.sqlite_orders import (
    OPERATIONS,
    ROW_OPERATIONS,
    SESSION,
    SHAPE,
    TRACKED,
    UNTRACKED,
    WAYS,
    Way,
    create,
    order,
    take_anchor,
)

ROWS = 500_000
_GOALS_US = {"insert": 2.0, "update": 2.0, "delete": 2.5}
_Parameters = tuple[object, ...]


class Connection(Protocol):
    """What is needed of either library's connection."""

    def execute(self, statement: str, parameters: _Parameters = (), /) -> object:
        """Run a statement."""

    def executemany(self, statement: str, parameters: Sequence[_Parameters], /) -> object:
        """Run a statement for each."""

    def close(self) -> None:
        """Close it."""


Open = Callable[[Path], Connection]
Write = Callable[[Connection], None]


def measure_bulk(sizes: Sizes) -> Iterator[Table]:
    """Insert, update and delete all rows, each in one transaction, in every way in turn.

    With Python's own SQLite and with apsw's, which is newer and has the session extension; in one statement, and in
    a statement a row, as a program does it that has the rows.
    """
    import apsw

    rows = sizes.rows or ROWS
    ways_without_session = tuple(way for way in WAYS if way is not SESSION)
    libraries: dict[str, tuple[Open, Sequence[Way]]] = {
        f"SQLite {sqlite3.sqlite_version} of Python": (_open_standard, ways_without_session),
        f"SQLite {apsw.sqlite_lib_version()} of apsw": (_open_apsw, WAYS),
    }
    for library, (open_file, ways) in libraries.items():
        for shape, writes in (("one statement", _at_once(rows)), ("a statement a row", _one_by_one(rows))):
            costs = Costs(UNTRACKED.name, "µs a row")
            for _ in range(sizes.runs):
                for way in ways:
                    _measure(way, open_file, writes, rows, costs)
            name = f"{library}: {rows:,} rows, {shape}"
            goals = costs.limit_more(name, (way.name for way in TRACKED), _GOALS_US)
            yield costs.table(name, f"CPU time, one transaction, its commit included; {SHAPE}.", goals)


def _measure(way: Way, open_file: Open, writes: Mapping[str, Write], rows: int, costs: Costs) -> None:
    """Note what each operation costs, on a file of its own."""
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        path = Path(folder) / "orders.db"
        create(path, way)
        for operation, write in writes.items():
            # Closed before the next is opened: of two SQLite libraries in one process each thinks that it is alone.
            with closing(open_file(path)) as connection:
                begin = time.process_time()
                with way.recording(connection):
                    write(connection)
                costs.add(way.name, operation, (time.process_time() - begin) / rows * 1e6)
            if way in TRACKED:
                # Applications ask for changes in between: each operation has stamps of its own.
                take_anchor(path)


def _at_once(rows: int) -> Mapping[str, Write]:
    return {operation: partial(_execute, statement, rows) for operation, statement in OPERATIONS.items()}


def _execute(statement: str, rows: int, connection: Connection) -> None:
    connection.execute(statement, (1, rows))


def _one_by_one(rows: int) -> Mapping[str, Write]:
    keys: list[_Parameters] = [(key,) for key in range(1, rows + 1)]
    parameters = {"insert": [order(key) for key in range(1, rows + 1)], "update": keys, "delete": keys}
    return {
        operation: partial(_execute_each, ROW_OPERATIONS[operation], parameters[operation]) for operation in OPERATIONS
    }


def _execute_each(statement: str, parameters: Sequence[_Parameters], connection: Connection) -> None:
    connection.execute("begin")
    connection.executemany(statement, parameters)
    connection.execute("commit")


def _open_standard(path: Path) -> Connection:
    return sqlite3.connect(path, isolation_level=None)


def _open_apsw(path: Path) -> Connection:
    import apsw

    connection: Connection = apsw.Connection(str(path))
    return connection
