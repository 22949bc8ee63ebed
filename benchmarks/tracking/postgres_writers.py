"""Sixteen writers beside enumerations in PostgreSQL, and how long a writer waits."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.goals import at_least, at_most
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from benchmarks.tracking.postgres_orders import INSERT, TRACKED, UNTRACKED, UPDATED_AT, Way, create, take_anchor
from rowtide.tracking import ChangeTracking

ROWS = 1_000_000
SECONDS = 15
_ROUNDS = 2
_WRITERS = 16
_STEADY = ("--client=4", "--rate=200")
_THROUGHPUT_GOAL, _WAIT_GOAL_MS = 0.7, 25
_WAIT = "still waiting for"
# Each client has keys of its own, so that none waits for another's row.
_SCRIPT = """
\\set id :client_id * {each} + random(1, {each})
update {table} set amount = amount + 1 where id = :id;
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What pgbench saw: transactions a second, and the milliseconds of each, sorted."""

    per_s: float
    milliseconds: Sequence[float]


def measure_writers(sizes: Sizes) -> Iterator[Table]:
    """Let writers update single rows as fast as they can; then a few at a steady rate."""
    rows, seconds = sizes.rows or ROWS, sizes.seconds or SECONDS
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        for way in (UNTRACKED, *TRACKED, UPDATED_AT):
            create(source, way)
            source.execute(INSERT.format(table=way.table, first=1, last=rows))
        yield _measure_throughput(source, rows, seconds)
        for way in TRACKED:
            yield _measure_waits(source, way, rows, seconds)


def _measure_throughput(source: Source, rows: int, seconds: int) -> Table:
    ways = (UNTRACKED, *TRACKED, UPDATED_AT)
    found: dict[str, list[float]] = {way.name: [] for way in ways}
    for _ in range(_ROUNDS):
        for way in ways:
            rest_s = 1.0 if way in TRACKED else None
            load = _pgbench(source, way, rows, seconds, [f"--client={_WRITERS}"], rest_s=rest_s)
            found[way.name].append(load.per_s)
    baseline = statistics.median(found[UNTRACKED.name])
    ratios = {name: statistics.median(rates) / baseline for name, rates in found.items()}
    name = f"PostgreSQL: {_WRITERS} writers, an enumeration each second"
    return Table(
        name,
        ("way", "transactions/s", "of untracked"),
        tuple((way, f"{statistics.median(rates):,.0f}", f"{ratios[way]:.2f}") for way, rates in found.items()),
        tuple(at_least(f"{name}, {way.name}: of untracked", _THROUGHPUT_GOAL, ratios[way.name]) for way in TRACKED),
        f"Each transaction updates one of {rows:,} rows; {_ROUNDS} rounds of {seconds} s, in turn; fsync is on.",
    )


def _measure_waits(source: Source, way: Way, rows: int, seconds: int) -> Table:
    """Compare a steady load with the same beside enumerations one after the other."""
    source.execute("alter system set log_lock_waits = on")
    source.execute(f"alter system set deadlock_timeout = '{_WAIT_GOAL_MS}ms'")
    source.execute("select pg_reload_conf()")
    phases: dict[str, list[float]] = {"alone": [], "beside enumerations": []}
    waits = dict.fromkeys(phases, 0)
    for _ in range(_ROUNDS):
        for phase, rest_s in (("alone", None), ("beside enumerations", 0.0)):
            before = _count_waits(source)
            phases[phase] += _pgbench(source, way, rows, seconds, _STEADY, rest_s=rest_s).milliseconds
            waits[phase] += _count_waits(source) - before
    name = f"PostgreSQL: a steady load beside enumerations, {way.name}"
    goal = at_most(f"{name}: waits for a lock beyond {_WAIT_GOAL_MS} ms", 0, waits["beside enumerations"])
    columns = ("200 transactions/s", "median ms", "99.9th percentile", "longest", f"lock waits > {_WAIT_GOAL_MS} ms")
    described = tuple((phase, *_describe(sorted(times)), str(waits[phase])) for phase, times in phases.items())
    return Table(
        name, columns, described, (goal,), "Enumerations one after the other; the server logs waits for locks."
    )


def _describe(milliseconds: Sequence[float]) -> tuple[str, ...]:
    late = milliseconds[int(len(milliseconds) * 0.999)]
    return f"{statistics.median(milliseconds):.2f}", f"{late:.1f}", f"{milliseconds[-1]:.1f}"


def _count_waits(source: Source) -> int:
    return (source.server.directory / "log").read_text(errors="replace").count(_WAIT)


def _pgbench(
    source: Source, way: Way, rows: int, seconds: int, options: Sequence[str], *, rest_s: float | None
) -> Load:
    """Run pgbench; with `rest_s` enumerate meanwhile, and rest so long in between."""
    script = source.folder / f"{way.table}.sql"
    script.write_text(_SCRIPT.format(table=way.table, each=rows // _WRITERS))
    with tempfile.TemporaryDirectory(dir=source.folder) as logs:
        command = [str(source.server.binary("pgbench")), "--no-vacuum", "--protocol=prepared", f"--file={script}"]
        command += [f"--time={seconds}", "--jobs=2", "--log", f"--log-prefix={logs}/log", *options]
        environment = {**os.environ, **source.server.environment()}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as run:
            if rest_s is not None:
                _enumerate_until(run, source, way, rest_s)
            output, messages = run.communicate()
        rate = re.search(r"tps = ([\d.]+)", output)
        if run.returncode != 0 or rate is None:
            raise subprocess.CalledProcessError(run.returncode, command, output, messages)
        return Load(float(rate[1]), list(_milliseconds(Path(logs))))


def _enumerate_until(run: subprocess.Popen[str], source: Source, way: Way, rest_s: float) -> None:
    """Read the changes, from anchor to anchor, until a process has ended."""
    anchor = take_anchor(source, way)
    with closing(psycopg.connect(source.url)) as connection:
        tracking = ChangeTracking(connection)
        while run.poll() is None:
            with tracking.changes([way.table], anchor) as changes:
                for _ in changes:
                    pass
            anchor = changes.anchor
            time.sleep(rest_s)


def _milliseconds(logs: Path) -> Iterator[float]:
    """Yield what each transaction took, without what it waited for its turn in the schedule."""
    for log in logs.iterdir():
        for line in log.read_text().splitlines():
            _, _, elapsed_us, _, _, _, *lag_us = line.split()
            yield (int(elapsed_us) - sum(map(int, lag_us))) / 1000
