"""What capture takes for each row, and for nothing: WAL, log store, lake, processor time, memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.children import environment
from benchmarks.running_capture import AGENT, run_capture
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from benchmarks.workloads import WORKLOADS, Workload

_ROWS = 200_000
_MEASURED = ("inserts", "updates", "single-rows", "20-columns", "2-kb-rows")
_WIDTHS: Mapping[str, str] = {
    "inserts": "3 numbers, inserted",
    "updates": "3 numbers, one updated",
    "single-rows": "3 numbers, a transaction each",
    "20-columns": "20 columns, inserted",
    "2-kb-rows": "4 texts of 480 characters",
}
_SETTLING_S, _IDLE_S = 5, 30
_MEBIBYTE = 1024 * 1024


def measure_sizes(sizes: Sizes) -> Iterator[Table]:
    """Write the rows of each workload, capture them once, and see what is there."""
    rows = sizes.rows or _ROWS
    yield Table(
        name=f"sizing: {rows:,} rows each",
        columns=("rows", "WAL", "log store", "lake", "CPU s a million rows", "MiB, largest process"),
        rows=tuple((_WIDTHS[name], *_measure(WORKLOADS[name], rows)) for name in _MEASURED),
        remark="Bytes a row. The lake is measured when all is published, before compaction; the log store before it is "
        "shortened. CPU and memory are of `rowtide cdc run --once` with its log reader; the CPU time without what a "
        "run takes that finds nothing.",
    )


def measure_idle(sizes: Sizes) -> Iterator[Table]:
    """See what an agent takes where nothing changes (--seconds), of so many captured tables (--rows)."""
    yield _measure_idle(sizes.rows or 1, sizes.seconds or _IDLE_S)


SIZING: dict[str, Callable[[Sizes], Iterator[Table]]] = {"sizing": measure_sizes, "sizing-idle": measure_idle}


def _measure(workload: Workload, rows: int) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        source.write([*workload.definitions(), *workload.filling(rows)])
        source.enable(workload.table_names)
        start_s, _ = _capture(source)
        store, lake = Path(source.cdc.get_source().log_store), Path(source.lake)
        before = _bytes_in(store), _bytes_in(lake)
        begin = source.mark()
        source.write(workload.statements(1, rows))
        wal = int(source.execute(f"select '{source.mark()}'::pg_lsn - '{begin}'::pg_lsn"))
        cpu_s, memory = _capture(source)
        of_store = _bytes_in(store) - before[0]
        # A log store below the lake is none of its bytes.
        of_lake = _bytes_in(lake) - before[1] - (of_store if store.is_relative_to(lake) else 0)
        bytes_a_row = (f"{found / rows:,.0f}" for found in (wal, of_store, of_lake))
        return (*bytes_a_row, f"{(cpu_s - start_s) / rows * 1e6:.1f}", f"{memory / _MEBIBYTE:,.0f}")


def _measure_idle(tables: int, seconds: int) -> Table:
    names = [f"item_{number}" for number in range(tables)]
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        source.write(f"create table {name} (id int primary key)" for name in names)
        source.enable(names)
        with run_capture(source, command=AGENT) as agent:
            time.sleep(_SETTLING_S)
            mark, before = source.mark(), agent.cpu_seconds()
            time.sleep(seconds)
            cpu_s = (agent.cpu_seconds() - before) / seconds
            wal = int(source.execute(f"select pg_current_wal_lsn() - '{mark}'::pg_lsn")) // seconds
    return Table(
        name=f"sizing: nothing changes, {tables:,} captured",
        columns=("of `rowtide agent run`", "a second"),
        rows=(("CPU s", f"{cpu_s:.3f}"), ("bytes of WAL, heartbeats and statistics", f"{wal:,}")),
    )


def _capture(source: Source) -> tuple[float, int]:
    """Capture all that is committed; return the CPU seconds, and the memory of the largest process."""
    words = [sys.executable, "-m", "rowtide", "cdc", "run", "--once", "--db", source.url]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
