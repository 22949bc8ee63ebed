"""What merging adds to bulk writes in a SQLite file."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.table import Sizes, Table
from benchmarks.tracking.extra_cost import Costs
from benchmarks.tracking.sqlite_orders import OPERATIONS, SHAPE, UNTRACKED, UPDATED_AT, Way, create
from rowtide.merge.api import MergeReplication
from rowtide.merge.nodes.connecting import open_node

ROWS = 300_000
_GOALS_US = {"insert": 2.5, "update": 2.5, "delete": 2.5}


def measure_writes(sizes: Sizes) -> Iterator[Table]:
    """Insert, update and delete all rows, each in one statement and transaction, in every way in turn."""
    rows = sizes.rows or ROWS
    costs = Costs(UNTRACKED.name, "µs a row")
    for _ in range(sizes.runs):
        for way in (UNTRACKED, *MERGED, UPDATED_AT):
            _measure(way, rows, costs)
    name = f"SQLite {sqlite3.sqlite_version}: {rows:,} rows, one statement, merged"
    goals = costs.limit_more(name, (MERGED[0].name,), _GOALS_US)
    yield costs.table(name, f"CPU time, one transaction, its commit included; {SHAPE}.", tuple(goals))


def _measure(way: Way, rows: int, costs: Costs) -> None:
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        path = Path(folder) / "orders.db"
        create(path, way)
        for operation, statement in OPERATIONS.items():
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                begin = time.process_time()
                connection.execute(statement, (1, rows))
                costs.add(way.name, operation, (time.process_time() - begin) / rows * 1e6)
            if way in MERGED:
                # Generations are closed in between, as synchronisations do.
                with open_node(f"sqlite:///{path}") as node, node.changes.enumerating():
                    pass


def _merge(column_tracking: bool, path: Path) -> None:  # noqa: FBT001 - given by partial
    merge = MergeReplication(f"sqlite:///{path}")
    merge.add_publication("shop")
    merge.add_article("shop", "orders", column_tracking=column_tracking)


MERGED = (
    Way("merged, by row", partial(_merge, False)),  # noqa: FBT003 - as above
    Way("merged, by column", partial(_merge, True)),  # noqa: FBT003 - as above
)
