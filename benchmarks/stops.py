"""How soon commands that run on end after SIGTERM, at random moments of what they do."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.children import environment
from benchmarks.goals import at_most
from benchmarks.latency import TABLES, initialize
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from rowtide.cli.exit_codes import ExitCode
from rowtide.handle import connect

MOST_S = 5.0
STOPS_A_RUN = 10
_PATIENCE_S = 60.0
_COPIED_ROWS, _ROWS_A_SECOND = 5_000_000, 20_000
_MERGED_ROWS = 20_000
_WHILE_STARTING, _WHILE_WORKING = (0.0, 2.5), (2.5, 6.0)
"""Seconds after the start, from which to which the signal comes."""


class StopFailed(Exception):
    """A command ended otherwise than by the signal, or left a process."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A command, when it is stopped, and what is done before each start of it."""

    name: str
    words: Sequence[str]
    after_s: tuple[float, float] = _WHILE_WORKING
    prepare: Callable[[], object] = lambda: None
    variables: Mapping[str, str] | None = None


def measure_stops(sizes: Sizes) -> Iterator[Table]:
    """Stop each command again and again, beside a load."""
    rows, goals = [], []
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        initialize(source)
        for situation in _situations(source):
            seconds = []
            with _load(source):
                for _ in range(STOPS_A_RUN * sizes.runs):
                    situation.prepare()
                    seconds.append(_stop(situation, chance.uniform(*situation.after_s), Path(folder)))
            median, p95 = np.percentile(seconds, (50, 95)).tolist()
            rows.append((situation.name, str(len(seconds)), f"{median:.2f}", f"{p95:.2f}", f"{max(seconds):.2f}"))
            goals.append(at_most(f"stops: 95th percentile of seconds, {situation.name}", MOST_S, p95))
    yield Table(
        name="stops",
        columns=("stopped while", "stops", "median s", "95th percentile s", "longest s"),
        rows=tuple(rows),
        goals=tuple(goals),
        remark="From SIGTERM until the command and all that it started have ended; the moments are random.",
    )


STOPS: dict[str, Callable[[Sizes], Iterator[Table]]] = {"stops": measure_stops}


def _situations(source: Source) -> Iterator[Situation]:
    database = ("--db", source.url)
    source.enable(TABLES)
    yield Situation("starting", ("agent", "run", *database), _WHILE_STARTING)
    yield Situation("capturing", ("cdc", "run", *database))
    source.execute("create table copied as select i as id, i * 7 as amount from generate_series(1, 0) i")
    source.execute("alter table copied add primary key (id)")
    source.execute(f"insert into copied select i, i * 7 from generate_series(1, {_COPIED_ROWS}) i")
    source.cdc.enable_table("copied", snapshot=True, rows_per_second=_ROWS_A_SECOND)
    yield Situation("copying a table", ("cdc", "run", *database))
    source.cdc.disable_table("copied")
    replication = connect(source.url).replication
    replication.add_publication("bench", lake=source.lake)
    replication.add_article("bench", "pgbench_accounts")
    replication.add_subscription("bench", f"sqlite:///{source.folder}/copy.db")
    replication.run(once=True)
    yield Situation("delivering", ("replication", "run", *database))
    yield _synchronising(source.folder)


def _synchronising(folder: Path) -> Situation:
    hub, field = folder / "hub.db", folder / "field.db"
    with closing(sqlite3.connect(hub)) as opened:
        opened.execute("create table item (id integer primary key, name text)")
    merge = connect(f"sqlite:///{hub}").merge
    merge.add_publication("bench")
    merge.add_article("bench", "item")
    merge.add_subscription("bench", subscriber=f"sqlite:///{field}")
    file = folder / "rowtide.toml"
    file.write_text(
        f'[databases.hub]\nurl = "sqlite:///{hub}"\nrun = ["merge"]\n'
        f'[databases.field]\nurl = "sqlite:///{field}"\nrun = []\n'
    )
    file.chmod(0o600)

    def write() -> None:
        with closing(sqlite3.connect(hub, timeout=60)) as opened:
            opened.executemany("insert into item (name) values (?)", [("some text",)] * _MERGED_ROWS)
            opened.commit()

    return Situation(
        "synchronising", ("agent", "run"), (1.0, 4.0), write, {"ROWTIDE_CONFIG": str(file), "ROWTIDE_DB": ""}
    )


@contextmanager
def _load(source: Source) -> Iterator[None]:
    """Run transactions until the block ends."""
    options = ("--builtin=tpcb-like", "--no-vacuum", "--client=2", "--rate=200", "--time=3600")
    command = [str(source.server.binary("pgbench")), *options]
    with open(os.devnull, "wb") as nothing:
        load = subprocess.Popen(
            command, stdout=nothing, stderr=nothing, env={**os.environ, **source.server.environment()}
        )
    try:
        yield
    finally:
        load.terminate()
        load.wait()


def _stop(situation: Situation, after_s: float, folder: Path) -> float:
    """Start a command, stop it so many seconds later, and return the seconds that took. Raises `StopFailed`."""
    output = folder / "output"
    variables = {name: value for name, value in environment().items() if name != "ROWTIDE_DB"}
    variables |= {name: value for name, value in (situation.variables or {}).items() if value}
    with output.open("wb") as written:
        command = subprocess.Popen(
            [sys.executable, "-m", "rowtide", *situation.words],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            env=variables,
            start_new_session=True,
        )
    time.sleep(after_s)
    started = _list_descendants(command.pid)
    begin = time.perf_counter()
    command.send_signal(signal.SIGTERM)
    code = command.wait(_PATIENCE_S)
    while any(map(_is_running, started)):
        if time.perf_counter() - begin > _PATIENCE_S:
            raise StopFailed(f"{situation.name}: processes {started} are left")
        time.sleep(0.01)
    seconds = time.perf_counter() - begin
    # Before Python has begun the program, SIGTERM itself ends it.
    if code not in {ExitCode.STOPPED, -signal.SIGTERM}:
        raise StopFailed(f"{situation.name}: exit code {code}\n{output.read_text(errors='replace')[-2000:]}")
    return seconds


def _list_descendants(pid: int) -> Sequence[int]:
    found, parents = [], [pid]
    while parents:
        parents = [child for parent in parents for child in _list_children(parent)]
        found += parents
    return found


def _list_children(pid: int) -> Sequence[int]:
    listed: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        listed += map(int, task.read_text().split())
    return listed


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
