"""Whole commands, as a user types them, beside what starting a program costs on this machine."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.children import environment
from benchmarks.goals import Goal, at_most, figure
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from rowtide.handle import connect

_PUBLICATION = "bench"
_HELP, _RUN_ONCE = "rowtide --help", "rowtide replication run --once"
_MOST_S = {
    _HELP: 0.25,
    "rowtide replication status": 0.4,
    _RUN_ONCE: 0.6,
    "rowtide cdc changes": 0.35,
    "rowtide cdc status": 0.6,
    "rowtide health": 0.7,
    "rowtide check": 0.7,
    "rowtide cdc run --once": 1.0,
}
"""Goals in seconds, on a machine that does nothing else."""


def measure_commands(sizes: Sizes) -> Iterator[Table]:
    """Run each command some times, in turn; nothing is to be delivered."""
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        _publish(source)
        commands = _commands(source)
        found: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(1 + sizes.runs):
            for name, command in commands.items():
                found[name].append(_time(command))
    # The first run compiles what is imported.
    seconds = {name: statistics.median(times[1:]) for name, times in found.items()}
    least = seconds["python -c pass"]
    yield Table(
        name="commands",
        columns=("command", "seconds", "times python -c pass"),
        rows=tuple((name, f"{taken:.3f}", figure(taken / least)) for name, taken in seconds.items()),
        goals=tuple(_goals(seconds)),
        remark="Seconds of wall time, the median; nothing is to be delivered.",
    )


COMMANDS: dict[str, Callable[[Sizes], Iterator[Table]]] = {"commands": measure_commands}


def _goals(seconds: dict[str, float]) -> Iterator[Goal]:
    for name, most in _MOST_S.items():
        yield at_most(f"commands: seconds of {name}", most, seconds[name])


def _publish(source: Source) -> None:
    source.execute("create table orders (id int primary key, qty int)")
    source.enable(["orders"])
    replication = connect(source.url).replication
    replication.add_publication(_PUBLICATION, lake=source.lake)
    replication.add_article(_PUBLICATION, "orders")
    replication.add_subscription(_PUBLICATION, f"sqlite:///{source.folder}/copy.db")
    source.execute("insert into orders select n, n from generate_series(1, 4) n")
    replication.run(once=True)
    source.cdc.run(once=True)


def _commands(source: Source) -> dict[str, Sequence[str]]:
    """Return commands by what a user types; the database is in the environment then."""
    rowtide, database = (sys.executable, "-m", "rowtide"), ("--db", source.url)
    return {
        "python -c pass": (sys.executable, "-c", "pass"),
        "psql --version": (str(source.server.binary("psql")), "--version"),
        _HELP: (*rowtide, "--help"),
        "rowtide replication status": (*rowtide, "replication", "status", *database),
        _RUN_ONCE: (*rowtide, "replication", "run", "--once", *database),
        "rowtide cdc changes": (*rowtide, "cdc", "changes", "public_orders", *database),
        "rowtide cdc status": (*rowtide, "cdc", "status", *database),
        "rowtide health": (*rowtide, "health", *database),
        "rowtide check": (*rowtide, "check", *database),
        "rowtide cdc run --once": (*rowtide, "cdc", "run", "--once", *database),
    }


def _time(command: Sequence[str]) -> float:
    # Compiled once, as what is installed is.
    variables = {name: value for name, value in environment().items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=variables)
    return time.perf_counter() - begin
