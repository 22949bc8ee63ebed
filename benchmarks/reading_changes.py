"""`rowtide cdc changes` as a user types it: of four rows, and of hundreds of megabytes."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.children import environment
from benchmarks.goals import at_least, at_most, figure
from benchmarks.memory import find_peak_memory
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from benchmarks.workloads import WORKLOADS

_WIDE = WORKLOADS["2-kb-rows"]
_ROWS = 300_000
"""600 MB of text."""
_FEW = "few"
_TIMEOUT_S = 300
_POLL_S = 0.005
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Finished:
    """Wall and CPU seconds of a command, the most memory that its process had, and the bytes that it wrote."""

    seconds: float
    cpu_s: float
    peak_memory: int
    written: int


def measure_changes(sizes: Sizes) -> Iterator[Table]:
    """Capture both tables, then run the commands."""
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        source.execute(f"create table {_FEW} (id int primary key, note text)")
        source.write(_WIDE.definitions())
        source.enable((_FEW, *_WIDE.table_names))
        source.execute(f"insert into {_FEW} select i, md5(i::text) from generate_series(1, 4) i")
        source.write(_WIDE.statements(1, sizes.rows or _ROWS))
        source.cdc.run(once=True)
        yield _read_few(source, sizes.runs)
        yield _read_many(source)


CHANGES: dict[str, Callable[[Sizes], Iterator[Table]]] = {"changes": measure_changes}


def _read_few(source: Source, runs: int) -> Table:
    command = _changes(source, _FEW)
    # The first run compiles what is imported.
    found = [_run(source, command) for _ in range(1 + runs)][1:]
    least = [_run(source, (sys.executable, "-c", "pass")) for _ in range(runs)]
    seconds, least_s = (statistics.median(run.seconds for run in ran) for ran in (found, least))
    cpu_s = statistics.median(run.cpu_s for run in found)
    return Table(
        "rowtide cdc changes of four rows",
        ("s", "CPU s", "times python -c pass"),
        ((f"{seconds:.2f}", f"{cpu_s:.2f}", figure(seconds / least_s)),),
        (at_most("cdc changes of four rows, s", 0.5, seconds),),
    )


def _read_many(source: Source) -> Table:
    table = _WIDE.table_names[0]
    ours = {form: _run(source, (*_changes(source, table), "--format", form)) for form in ("csv", "jsonl")}
    copy = f"copy {table} to stdout (format csv)"
    psql = _run(source, (str(source.server.binary("psql")), source.url, "-c", copy))
    ran = {**{f"rowtide cdc changes --format {form}": run for form, run in ours.items()}, f'psql -c "{copy}"': psql}
    slowest = min(run.written / run.seconds for run in ours.values()) / 1e6
    largest = max(run.peak_memory for run in ours.values()) / _MEBIBYTE
    return Table(
        f"rowtide cdc changes of {psql.written / 1e6:.0f} MB",
        ("command", "s", "CPU s", "MB", "MB/s", "peak MiB"),
        tuple(
            (
                name,
                f"{run.seconds:.1f}",
                f"{run.cpu_s:.1f}",
                f"{run.written / 1e6:.0f}",
                figure(run.written / run.seconds / 1e6),
                f"{run.peak_memory / _MEBIBYTE:.0f}",
            )
            for name, run in ran.items()
        ),
        (
            at_least("cdc changes of hundreds of MB: MB/s", 20, slowest),
            at_most("cdc changes of hundreds of MB: peak MiB", 500, largest),
        ),
    )


def _changes(source: Source, table: str) -> Sequence[str]:
    return (sys.executable, "-m", "rowtide", "cdc", "changes", f"public_{table}", "--db", source.url)


def _run(source: Source, command: Sequence[str]) -> Finished:
    """Run a command with its output in a file. Raises `CalledProcessError`, and `TimeoutExpired`."""
    variables = {name: value for name, value in environment().items() if name != "PYTHONDONTWRITEBYTECODE"}
    with (source.folder / "output").open("wb") as output:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, env={**variables, **source.server.environment()})
        used, peak = _wait(process, begin + _TIMEOUT_S)
        seconds, written = time.perf_counter() - begin, os.fstat(output.fileno()).st_size
        return Finished(seconds, used.ru_utime + used.ru_stime, peak, written)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> tuple[resource.struct_rusage, int]:
    """Return what a process used once it has ended, and its peak memory; kill it at the deadline."""
    peak = 0
    while True:
        # Asked for while it runs: the kernel's own figure begins with what this process had when it was forked.
        peak = max(peak, find_peak_memory(process.pid) or 0)
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, process.args)
            return used, peak
        if time.perf_counter() > deadline:
            process.kill()
            raise subprocess.TimeoutExpired(process.args, _TIMEOUT_S)
        time.sleep(_POLL_S)
