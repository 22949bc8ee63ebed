"""What merging adds to writes in PostgreSQL: of many rows in a statement, and of four clients' single rows."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg

from benchmarks.cpu import cpu_seconds
from benchmarks.goals import at_least
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from benchmarks.tracking.extra_cost import Costs
from benchmarks.tracking.postgres_orders import INSERT, OPERATIONS, SHAPE
from rowtide.merge.api import MergeReplication
from rowtide.merge.nodes.connecting import open_node

ROWS = 300_000
SECONDS = 10
_CLIENTS = 4
_ROUNDS = 3
_THROUGHPUT_GOAL = 0.7
_GOALS_US = {"insert": 3.0, "update": 5.0, "delete": 6.0}
_JOIN_LEVEL = 2.0
_UNTRACKED, _BY_ROW, _BY_COLUMN = "untracked", "merged, by row", "merged, by column"
_JOINED = "merged, by row, joined to a filtered table"
_TABLES = {_UNTRACKED: "plain", _BY_ROW: "by_row", _BY_COLUMN: "by_column", _JOINED: "joined"}
_SCRIPT = """
\\set id :client_id * {each} + random(1, {each})
update {table} set amount = amount + 1 where id = :id;
"""


def measure_writes(sizes: Sizes) -> Iterator[Table]:
    """Insert, update and delete all rows at once, every way in turn; then single rows by several clients."""
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        merge = MergeReplication(source.url)
        merge.add_publication("shop")
        source.execute("create table customer (id int primary key, region text not null)")
        source.execute("insert into customer select i, 'region-' || i % 10 from generate_series(0, 999) i")
        merge.add_article("shop", "customer", where="region = host_name()")
        yield _measure_bulk(source, sizes.rows or ROWS, sizes.runs)
        yield _measure_clients(source, sizes.rows or ROWS, sizes.seconds or SECONDS)


def _measure_bulk(source: Source, rows: int, runs: int) -> Table:
    costs = Costs(_UNTRACKED, "µs a row")
    for _ in range(runs):
        for way in _TABLES:
            _create(source, way)
            for operation in OPERATIONS:
                costs.add(way, operation, _write(source, way, operation, rows) / rows * 1e6)
            _drop(source, way)
    name = f"PostgreSQL: {rows:,} rows, one statement, merged"
    goals = [*costs.limit_more(name, (_BY_ROW,), _GOALS_US)]
    goals += costs.limit_more(name, (_JOINED,), {operation: _JOIN_LEVEL * us for operation, us in _GOALS_US.items()})
    return costs.table(name, f"CPU time of the session's process; orders {SHAPE}.", goals)


def _measure_clients(source: Source, rows: int, seconds: int) -> Table:
    for way, table in _TABLES.items():
        _create(source, way)
        source.execute(INSERT.format(table=table, first=1, last=rows))
    source.execute("vacuum analyze")
    rates: dict[str, list[float]] = {way: [] for way in _TABLES}
    for _ in range(_ROUNDS):
        for way, table in _TABLES.items():
            source.execute("checkpoint")
            rates[way].append(_pgbench(source, table, rows, seconds))
    medians = {way: statistics.median(each) for way, each in rates.items()}
    ratios = {way: rate / medians[_UNTRACKED] for way, rate in medians.items()}
    name = f"PostgreSQL: {_CLIENTS} clients, single rows, merged"
    return Table(
        name,
        ("way", "transactions/s", "of untracked"),
        tuple((way, f"{rate:,.0f}", f"{ratios[way]:.2f}") for way, rate in medians.items()),
        (at_least(f"{name}, {_BY_ROW}: of untracked", _THROUGHPUT_GOAL, ratios[_BY_ROW]),),
        f"Each transaction updates one of {rows:,} rows; {_ROUNDS} rounds of {seconds} s, in turn; fsync is on.",
    )


def _create(source: Source, way: str) -> None:
    table = _TABLES[way]
    source.execute(f"create table {table} {SHAPE}")
    if way != _UNTRACKED:
        MergeReplication(source.url).add_article("shop", table, column_tracking=way == _BY_COLUMN)
    if way == _JOINED:
        MergeReplication(source.url).add_filter("shop", table, "customer", f"{table}.customer = customer.id")


def _drop(source: Source, way: str) -> None:
    if way != _UNTRACKED:
        MergeReplication(source.url).drop_article("shop", _TABLES[way])
    source.execute(f"drop table {_TABLES[way]}")


def _write(source: Source, way: str, operation: str, rows: int) -> float:
    """Return CPU seconds, the commit included; each statement is in a generation of its own."""
    with open_node(source.url) as node, node.changes.enumerating():
        pass
    source.execute("checkpoint")
    statement = OPERATIONS[operation].format(table=_TABLES[way], first=1, last=rows).encode()
    with psycopg.connect(source.url, autocommit=True) as connection:
        pid = connection.info.backend_pid
        begin = cpu_seconds(pid)
        connection.execute(statement)
        return cpu_seconds(pid) - begin


def _pgbench(source: Source, table: str, rows: int, seconds: int) -> float:
    """Return transactions a second."""
    script = source.folder / f"{table}.sql"
    script.write_text(_SCRIPT.format(table=table, each=rows // _CLIENTS))
    command = [str(source.server.binary("pgbench")), "--no-vacuum", "--protocol=prepared", f"--file={script}"]
    command += [f"--time={seconds}", "--jobs=2", f"--client={_CLIENTS}"]
    ended = subprocess.run(
        command, env={**os.environ, **source.server.environment()}, capture_output=True, text=True, check=True
    )
    rate = re.search(r"tps = ([\d.]+)", ended.stdout)
    assert rate is not None
    return float(rate[1])
