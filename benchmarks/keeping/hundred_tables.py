"""From a schema of a hundred tables to current tables in the lake: four commands."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.goals import at_most, figure
from benchmarks.keeping.commands import CommandFailed, time_command
from benchmarks.source import open_source
from benchmarks.table import Sizes, Table

TABLES, ROWS = 100, 10_000
_MOST_S = 180
_COLUMNS = "id bigint primary key, bucket int, amount int, name text, at timestamptz"
_TARGET = "warehouse"


def measure_hundred_tables(sizes: Sizes) -> Iterator[Table]:
    """Enable them, copy them, and make a current table of each."""
    rows = sizes.rows or ROWS
    names = [f"item_{number}" for number in range(TABLES)]
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        source.write(f"create table {name} ({_COLUMNS})" for name in names)
        source.write(
            f"insert into {name} select i, i, i, 'name ' || i, now() from generate_series(1, {rows}) i"
            for name in names
        )
        source.execute("vacuum (freeze, analyze)")
        source.cdc.enable_db(source.lake)
        instances = [f"public_{name}" for name in names]
        path = f"{folder}/{_TARGET}"
        seconds = {
            "enable-table 'public.*'": time_command(source, "cdc", "enable-table", "public.*"),
            "cdc run --once": time_command(source, "cdc", "run", "--once"),
            "cdc add-target": time_command(source, "cdc", "add-target", _TARGET, *instances, "--path", path),
            "cdc apply --once": time_command(source, "cdc", "apply", "--once"),
        }
        position = source.targets.read_position(_TARGET)
    if len(position.tables) != TABLES or any(table.version is None for table in position.tables.values()):
        raise CommandFailed("not every table is current")
    total = sum(seconds.values())
    yield Table(
        f"hundred-tables: {TABLES} tables of {rows:,} rows",
        ("command", "s"),
        tuple((command, figure(taken)) for command, taken in (*seconds.items(), ("together", total))),
        (at_most("hundred-tables: seconds until all are current", _MOST_S, total),),
        "Seconds of wall time, one command after the other, with the starts of their processes and of Spark.",
    )
