"""The demo's steps, from first to last: the workload, the checks meanwhile, and what is shown of them.

Orderly ending: SIGTERM and a closed terminal act like Ctrl-C, and nothing interrupts the ending.
"""

from __future__ import annotations

import signal
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from rich.console import Console

from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.demo import processes
from rowtide.demo.checker import Checker, Figures, Span
from rowtide.demo.errors import ProcessSilent, TooFewReads
from rowtide.demo.proof import (
    NEEDED_READS,
    Read,
    TableProof,
    TargetVersion,
    instance_of,
    require_consistent,
    require_equal,
)
from rowtide.handle import connect
from rowtide.lake.jvm import require_java
from rowtide.targets import Targets

_LINE_EVERY_S = 5.0


class DemoProgress:
    """Shows one step after the other."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started_at = time.monotonic()
        self._next_line_at = 0.0

    @contextmanager
    def step(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show a step while it lasts; yields a function that shows its progress."""
        begun_at = time.monotonic()
        if not self._console.is_terminal:
            self._print_line(text)
            yield self._print_now_and_then
            return
        with self._console.status(text) as status:
            yield lambda state: status.update(f"{text}: {state}")
        self._console.print(f"[green]✓[/green] {text} [dim]{time.monotonic() - begun_at:.1f} s[/dim]")

    def _print_now_and_then(self, state: str) -> None:
        if time.monotonic() >= self._next_line_at:
            self._next_line_at = time.monotonic() + _LINE_EVERY_S
            self._print_line(f"  {state}")

    def _print_line(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._started_at:6.1f} s  {text}", soft_wrap=True)


@dataclass(slots=True)
class Lag:
    """The age of the newest transaction that a reader saw, from samples of the source's transaction count."""

    _times: list[float] = field(default_factory=list)
    _transactions: list[int] = field(default_factory=list)

    def sample(self, at_s: float, transactions: int) -> None:
        """Record the source's transaction count, in order of time."""
        self._times.append(at_s)
        self._transactions.append(transactions)

    def seconds(self, at_s: float, seen: int) -> float:
        """Return how long ago the source had only the transactions that were seen."""
        place = bisect_left(self._transactions, seen + 1)
        return max(0.0, at_s - self._times[place]) if place < len(self._times) else 0.0


def describe_run(transactions: int, last: Read | None, lag_s: float, reads: int) -> str:
    """Return one line about the run."""
    if last is None or not last.transactions:
        return f"{transactions:,} transactions, nothing published yet"
    return (
        f"{transactions:,} transactions, {last.transactions:,} read up to LSN {CommitLsn(last.lsn)}, "
        f"{lag_s:.1f} s behind; {reads} consistent reads"
    )


PATIENCE_S = 3.0
"""How long a read waits for a new maximum LSN."""

_LONGEST_OVERTIME_S = 400
"""A busy machine needs longer for the reads; pgbench continues for this long."""


@frozen
class DemoRun:
    """Results of the run: `reads` are those that count, `span` pgbench's transactions."""

    seconds: float
    transactions: int
    reads: Sequence[Read]
    span: Span


def watch_run(
    workload: processes.Workload,
    checker: Checker,
    seconds: int,
    is_followed: Callable[[Read], bool],
    show: Callable[[str], None],
) -> DemoRun:
    """Run pgbench for at least `seconds`, until enough consistent reads are done, and the last of them is followed.

    Raises `BalancesDisagree`, `MaximumWentBack`, `TooFewReads`, and `ProcessEnded` if a process ends.
    """
    before = workload.state()
    watch_capture = checker.on_tick
    with workload.start(seconds=2 * (seconds + _LONGEST_OVERTIME_S)) as pgbench:
        watch = _Watch(workload, pgbench, before.transactions, watch_capture, show)
        checker.on_tick = watch.tick
        begun_at = time.monotonic()
        while (
            (elapsed_s := time.monotonic() - begun_at) < seconds
            or len(watch.reads) < NEEDED_READS
            or not is_followed(watch.reads[-1])
        ):
            if elapsed_s > seconds + _LONGEST_OVERTIME_S:
                raise TooFewReads(len(watch.reads), NEEDED_READS, int(elapsed_s))
            watch.take(checker.read(patience_s=PATIENCE_S))
        ran_s = time.monotonic() - begun_at
        checker.on_tick = watch_capture
    workload.await_end_of_sessions()
    after = workload.state()
    transactions = after.transactions - before.transactions
    return DemoRun(ran_s, transactions, watch.reads, Span(before.log_position, after.log_position))


class _Watch:
    """State while pgbench runs."""

    def __init__(
        self,
        workload: processes.Workload,
        pgbench: processes.Child,
        before: int,
        watch_capture: Callable[[], None],
        show: Callable[[str], None],
    ) -> None:
        self.last: Read | None = None
        self.reads: list[Read] = []
        self._workload = workload
        self._pgbench = pgbench
        self._before = before
        self._watch_capture = watch_capture
        self._show = show
        self._lag = Lag()

    def take(self, read: Read | None) -> None:
        """Check a read. Raises `BalancesDisagree`, `MaximumWentBack`."""
        if read is None:
            return
        require_consistent(read, self.last)
        self.last = read
        if read.is_counted:
            self.reads.append(read)

    def tick(self) -> None:
        """Check that all processes run, and show their progress. Raises `ProcessEnded`."""
        self._watch_capture()
        self._pgbench.require_alive()
        now, transactions = time.monotonic(), self._workload.state().transactions
        self._lag.sample(now, transactions)
        lag_s = self._lag.seconds(now, self.last.transactions) if self.last is not None else 0.0
        self._show(describe_run(transactions - self._before, self.last, lag_s, len(self.reads)))


_ENDING = (signal.SIGTERM, signal.SIGHUP)
_ALL = (signal.SIGINT, *_ENDING)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn signals that end a program into `SystemExit`, so that child processes are ended; main thread only."""
    before = {number: signal.getsignal(number) for number in _ALL}
    for number in _ENDING:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def undisturbed_end() -> Iterator[None]:
    """Ignore these signals from the end of this context to the end of `ended_by_signals`."""
    try:
        yield
    finally:
        for number in _ALL:
            signal.signal(number, signal.SIG_IGN)


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


_CATCH_UP_TIMEOUT_S = 300
_POLL_S = 0.2
TARGETS = {"current": "current", "history": "history"}
"""The targets' kinds by name."""


@frozen
class DemoOutcome:
    """What the report needs."""

    directory: processes.Directory
    server_version: str
    run: DemoRun
    comparisons: Sequence[TableProof]
    figures: Figures
    seconds: float


def run_demo(*, seconds: int, keep: Path | None, console: Console) -> DemoOutcome:
    """Run the demo; no process is left on return, nor after an error.

    Raises `JavaMissing`, the errors of the parts, and those of `demo.errors` if a guarantee of rowtide is violated.
    """
    require_java()
    with ended_by_signals(), processes.open_directory(keep) as directory, ExitStack() as running, undisturbed_end():
        return _Story(directory, running, DemoProgress(console)).tell(seconds)


class _Story:
    """The steps, in order; started processes are added to `running`."""

    def __init__(self, directory: processes.Directory, running: ExitStack, progress: DemoProgress) -> None:
        self._directory = directory
        self._running = running
        self._progress = progress
        self._begun_at = time.monotonic()

    def tell(self, seconds: int) -> DemoOutcome:
        server, workload = self._start_source()
        checker = self._running.enter_context(Checker.start(self._directory))
        self._prepare_source(server, workload)
        targets = self._define_targets(server)
        agent = self._start_agent(server, checker)
        self._warm_up(workload, checker)
        run = self._run_workload(workload, checker, targets, seconds)
        versions = self._catch_up(workload, checker, targets, run.reads[-1])
        checker.on_tick = lambda: None
        agent.stop()
        comparisons = self._prove(workload, checker, versions, run.reads)
        with self._progress.step("Reading the figures from the lake"):
            figures = checker.figures(run.span)
        version = workload.server_version()
        with self._progress.step("Ending all processes"):
            self._running.close()
        return DemoOutcome(self._directory, version, run, comparisons, figures, time.monotonic() - self._begun_at)

    def _start_source(self) -> tuple[EmbeddedServer, processes.Workload]:
        with self._progress.step("Starting an embedded PostgreSQL 18"):
            server = self._running.enter_context(EmbeddedServer.start(self._directory.postgres))
            return server, self._running.enter_context(processes.Workload.open(server, self._directory))

    def _prepare_source(self, server: EmbeddedServer, workload: processes.Workload) -> None:
        with self._progress.step(
            f"Filling pgbench's tables, scale {processes.SCALE}: {processes.SCALE * 100_000:,} accounts"
        ):
            workload.initialize()
        with self._progress.step(f"Enabling change data capture on {', '.join(processes.KEYS)}"):
            cdc = connect(server.url()).cdc
            cdc.enable_db(str(self._directory.lake))
            for table in processes.KEYS:
                cdc.enable_table(table)

    def _define_targets(self, server: EmbeddedServer) -> Targets:
        targets = connect(server.url()).targets
        for name, kind in TARGETS.items():
            path = str(self._directory.targets / name)
            targets.add(name, [instance_of(processes.TARGETED)], kind=kind, path=path)
        return targets

    def _start_agent(self, server: EmbeddedServer, checker: Checker) -> processes.Child:
        with self._progress.step("Starting rowtide agent run: it copies the rows that are there, and captures"):
            command = [sys.executable, "-m", "rowtide", "agent", "run", "--master", "local[*]", "--db", server.url()]
            agent = self._running.enter_context(
                processes.Child("agent", command, self._directory, environment=processes.SHORT_LIVED_JAVA)
            )
            checker.on_tick = agent.require_alive
            checker.await_capture()
        return agent

    def _warm_up(self, workload: processes.Workload, checker: Checker) -> None:
        with self._progress.step(f"Booking {processes.DEPOSIT:+} by hand, and reading it from the lake"):
            _read_up_to(checker, workload.book(processes.DEPOSIT), None)

    def _run_workload(self, workload: processes.Workload, checker: Checker, targets: Targets, seconds: int) -> DemoRun:
        def is_followed(read: Read) -> bool:
            """Return whether the targets began before a read: then there are changes for them."""
            begun = [targets.read_position(name).lsn for name in TARGETS]
            return all(lsn is not None and lsn.value < read.lsn for lsn in begun)

        with self._progress.step(f"Running pgbench's TPC-B, {processes.CLIENTS} clients, at least {seconds} s") as show:
            return watch_run(workload, checker, seconds, is_followed, show)

    def _catch_up(
        self, workload: processes.Workload, checker: Checker, targets: Targets, last: Read
    ) -> Mapping[str, TargetVersion]:
        with self._progress.step(f"Booking {processes.WITHDRAWAL:+} by hand, and letting capture catch up"):
            mark = workload.book(processes.WITHDRAWAL)
            _read_up_to(checker, mark, last)
        with self._progress.step(f"Letting the current and the history table of {processes.TARGETED} catch up"):
            return {name: _await_target(checker, targets, name, mark) for name in TARGETS}

    def _prove(
        self,
        workload: processes.Workload,
        checker: Checker,
        versions: Mapping[str, TargetVersion],
        reads: Sequence[Read],
    ) -> list[TableProof]:
        final = self._directory.final
        with self._progress.step("Comparing initial rows + captured changes with the source, row by row"):
            workload.copy_tables(final)
            comparisons = checker.compare(final)
        with self._progress.step("Comparing the current and the history table with the source, row by row"):
            lsns = [read.lsn for read in reads]
            comparisons += checker.compare_targets(final, versions["current"], versions["history"], lsns)
        require_equal(comparisons)
        return comparisons


def _await_target(checker: Checker, targets: Targets, name: str, mark: int) -> TargetVersion:
    """Wait until a target has a log position; return its table's version then. Raises `ProcessSilent`."""
    deadline = time.monotonic() + _CATCH_UP_TIMEOUT_S
    while time.monotonic() < deadline:
        checker.on_tick()
        position = targets.read_position(name)
        table = position.tables.get(instance_of(processes.TARGETED))
        if position.lsn is not None and position.lsn.value >= mark and table is not None and table.version is not None:
            return TargetVersion(table.location, table.version)
        time.sleep(_POLL_S)
    raise ProcessSilent("agent", _CATCH_UP_TIMEOUT_S, f"target {name} does not catch up")


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
