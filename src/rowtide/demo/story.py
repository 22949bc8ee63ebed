"""The demo's steps, from first to last."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.demo.checker import Checker
from rowtide.demo.directory import Directory, open_directory
from rowtide.demo.errors import ProcessSilent
from rowtide.demo.figures import Figures
from rowtide.demo.invariant import Read, require_consistent
from rowtide.demo.processes import Child
from rowtide.demo.progress import Progress
from rowtide.demo.proof import Comparison, require_equal
from rowtide.demo.run import PATIENCE_S, Run, watch_run
from rowtide.demo.signals import ended_by_signals, undisturbed_end
from rowtide.demo.workload import CLIENTS, DEPOSIT, KEYS, SCALE, WITHDRAWAL, Workload
from rowtide.handle import connect
from rowtide.lake.spark.jvm import require_java

_CATCH_UP_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """What the report needs."""

    directory: Directory
    server_version: str
    run: Run
    comparisons: Sequence[Comparison]
    figures: Figures
    seconds: float


def run_demo(*, seconds: int, keep: Path | None, console: Console) -> DemoOutcome:
    """Run the demo; no process is left on return, nor after an error.

    Raises `JavaMissing`, the errors of the parts, and those of `demo.errors` if a guarantee of rowtide is violated.
    """
    require_java()
    with ended_by_signals(), open_directory(keep) as directory, ExitStack() as running, undisturbed_end():
        return _Story(directory, running, Progress(console)).tell(seconds)


class _Story:
    """The steps, in order; started processes are added to `running`."""

    def __init__(self, directory: Directory, running: ExitStack, progress: Progress) -> None:
        self._directory = directory
        self._running = running
        self._progress = progress
        self._begun_at = time.monotonic()

    def tell(self, seconds: int) -> DemoOutcome:
        server, workload = self._start_source()
        checker = self._running.enter_context(Checker.start(self._directory))
        self._prepare_source(server, workload)
        capture = self._start_capture(server, checker)
        self._warm_up(workload, checker)
        run = self._run_workload(workload, checker, seconds)
        self._catch_up(workload, checker, run.reads[-1])
        checker.on_tick = lambda: None
        capture.stop()
        comparisons = self._prove(workload, checker)
        with self._progress.step("Reading the figures from the lake"):
            figures = checker.figures(run.span)
        version = workload.server_version()
        with self._progress.step("Ending all processes"):
            self._running.close()
        return DemoOutcome(self._directory, version, run, comparisons, figures, time.monotonic() - self._begun_at)

    def _start_source(self) -> tuple[EmbeddedServer, Workload]:
        with self._progress.step("Starting an embedded PostgreSQL 18"):
            server = self._running.enter_context(EmbeddedServer.start(self._directory.postgres))
            return server, self._running.enter_context(Workload.open(server, self._directory))

    def _prepare_source(self, server: EmbeddedServer, workload: Workload) -> None:
        with self._progress.step(f"Filling pgbench's tables, scale {SCALE}: {SCALE * 100_000:,} accounts"):
            workload.initialize()
        with self._progress.step(f"Enabling change data capture on {', '.join(KEYS)}"):
            cdc = connect(server.url()).cdc
            cdc.enable_db(str(self._directory.lake))
            for table in KEYS:
                cdc.enable_table(table)

    def _start_capture(self, server: EmbeddedServer, checker: Checker) -> Child:
        with self._progress.step("Starting rowtide cdc run: it copies the rows that are there, and captures"):
            command = [sys.executable, "-m", "rowtide", "cdc", "run", "--db", server.url()]
            capture = self._running.enter_context(Child("capture", command, self._directory))
            checker.on_tick = capture.require_alive
            checker.await_capture()
        return capture

    def _warm_up(self, workload: Workload, checker: Checker) -> None:
        with self._progress.step(f"Booking {DEPOSIT:+} by hand, and reading it from the lake"):
            _read_up_to(checker, workload.book(DEPOSIT), None)

    def _run_workload(self, workload: Workload, checker: Checker, seconds: int) -> Run:
        with self._progress.step(f"Running pgbench's TPC-B, {CLIENTS} clients, at least {seconds} s") as show:
            return watch_run(workload, checker, seconds, show)

    def _catch_up(self, workload: Workload, checker: Checker, last: Read) -> None:
        with self._progress.step(f"Booking {WITHDRAWAL:+} by hand, and letting capture catch up"):
            _read_up_to(checker, workload.book(WITHDRAWAL), last)

    def _prove(self, workload: Workload, checker: Checker) -> list[Comparison]:
        with self._progress.step("Comparing initial rows + captured changes with the source, row by row"):
            workload.copy_tables(self._directory.final)
            comparisons = checker.compare(self._directory.final)
        require_equal(comparisons)
        return comparisons


def _read_up_to(checker: Checker, mark: int, last: Read | None) -> Read:
    """Read until the maximum LSN reaches a log position; return the last read. Raises `ProcessSilent`."""
    deadline = time.monotonic() + _CATCH_UP_TIMEOUT_S
    while time.monotonic() < deadline:
        found = checker.read(patience_s=PATIENCE_S)
        if found is not None:
            require_consistent(found, last)
            last = found
            if found.lsn >= mark:
                return found
    raise ProcessSilent("capture", _CATCH_UP_TIMEOUT_S, "it does not catch up")
