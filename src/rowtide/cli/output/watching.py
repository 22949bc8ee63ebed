"""Progress of long operations, and output of a capturing command, and how it is stopped."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from rowtide.cli.output.rows import notes
from rowtide.core.errors import RowtideError
from rowtide.diagnosis.result import format_bytes
from rowtide.targets.table_format import table_format

INTERVAL_S = 10.0
_Report = TypeVar("_Report")


class Paced(Generic[_Report]):
    """Reports printed together: the first at once, later ones after each interval, the last at the end."""

    def __init__(
        self,
        report: Callable[[Sequence[_Report]], None],
        *,
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report = report
        self._interval_s = interval_s
        self._clock = clock
        self._reported_at: float | None = None
        self._waiting: list[_Report] = []
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def add(self, report: _Report) -> None:
        """Add a report, from any thread."""
        with self._lock:
            self._waiting.append(report)
            pause_s = 0.0 if self._reported_at is None else self._reported_at + self._interval_s - self._clock()
            if pause_s <= 0:
                self._flush()
            elif self._timer is None:
                self._timer = threading.Timer(pause_s, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Print the waiting reports."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            reports, self._waiting, self._reported_at = self._waiting, [], self._clock()
            self._report(reports)


@contextmanager
def progress(
    beginning: str, describe: Callable[[Sequence[_Report]], Sequence[str]]
) -> Iterator[Callable[[_Report], None]]:
    """Yield a function that takes progress reports; a terminal shows `beginning` until the first.

    `describe` returns the lines for the reports of an interval.
    """

    def print_lines(reports: Sequence[_Report]) -> None:
        for line in describe(reports):
            notes.print(line, soft_wrap=True)

    with notes.status(beginning) as status:
        if notes.is_terminal:
            yield lambda report: status.update(describe([report])[-1])
            return
        paced = Paced(print_lines)
        try:
            yield paced.add
        finally:
            paced.flush()


@contextmanager
def counted(beginning: str) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows what is worked on, how much of it is done, and of how much: a bar on a terminal.

    Elsewhere nothing is shown.
    """
    if not notes.is_terminal:
        yield lambda _what, _done, _of: None
        return

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=notes.console, transient=True) as shown:
        task = shown.add_task(beginning, total=None)
        yield lambda what, done, of: shown.update(task, description=what, completed=done, total=of)


if TYPE_CHECKING:
    from rowtide.cdc.capture.capture import CycleReport
    from rowtide.cdc.ddl.retyping import WidenedTable
    from rowtide.cdc.mending.requests import MendedTable
    from rowtide.cdc.running.context import Watchers
    from rowtide.cdc.snapshots.copies import SnapshotProgress
    from rowtide.targets.mending import MendedTarget

    Report: TypeAlias = CycleReport | SnapshotProgress | WidenedTable | MendedTable


@contextmanager
def stopping(*, at_hangup: bool = True) -> Iterator[threading.Event]:
    """Yield the event that Ctrl-C, SIGTERM and a terminal that is closed set; not the latter under `nohup`.

    Without `at_hangup`, SIGHUP changes nothing: a service manager sends it to have files read again.
    """
    stop = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if at_hangup or number != signal.SIGHUP:
            stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, on_signal)
    yield stop


@contextmanager
def watching(beginning: str, *, at_hangup: bool = True) -> Iterator[tuple[threading.Event, Watchers]]:
    """Yield the event that `stopping` yields, and watchers that print.

    `beginning` is shown until the first cycle.
    """
    from rowtide.cdc.running.context import Watchers

    with stopping(at_hangup=at_hangup) as stop, progress(beginning, describe_reports) as on_report:

        def on_retry(error: RowtideError, pause_s: float) -> None:
            notes.print(f"{error} Next try in {pause_s:g} s.", soft_wrap=True)

        yield stop, Watchers(on_report, on_retry, on_report, on_report, on_report)


def describe_reports(reports: Sequence[Report]) -> Sequence[str]:
    """Describe what capture did in an interval: its cycles, and of each table's copy and mending the last report."""
    from rowtide.cdc.capture.capture import CycleReport
    from rowtide.cdc.ddl.retyping import WidenedTable
    from rowtide.cdc.mending.requests import MendedTable
    from rowtide.cdc.snapshots.copies import SnapshotProgress

    widened = [describe_widened(one) for one in reports if isinstance(one, WidenedTable)]
    mended = {one.path: one for one in reports if isinstance(one, MendedTable)}
    copies = {one.capture_instance: one for one in reports if isinstance(one, SnapshotProgress)}
    cycles = [one for one in reports if isinstance(one, CycleReport)]
    described = [*widened, *map(describe_mended, mended.values()), *map(describe_copy, copies.values())]
    return [*described, *(describe_cycles(cycles) if cycles else ())]


def describe_widened(table: WidenedTable) -> str:
    """Describe what is about to happen to a table whose columns get wider types."""
    columns = ", ".join(f"{name} becomes {type_name}" for name, type_name in table.columns)
    if table.is_rewritten:
        return f"{_name(table.path)}: {columns}; its files of {format_bytes(table.size)} are rewritten"
    return (
        f"{_name(table.path)}: {columns}; its files of {format_bytes(table.size)} stay, and it gets Delta's type "
        f"widening, which delta-rs and Polars refuse: `rowtide lake mend {table.capture_instance}` takes that away"
    )


def describe_mended(table: MendedTable) -> str:
    """Describe what mending has done to a table."""
    if not table.was_marked:
        return f"{_name(table.path)}: has no type widening"
    if table.written_bytes is None:
        return f"{_name(table.path)}: {table.files} files, {format_bytes(table.read_bytes)}, have narrower types"
    return (
        f"{_name(table.path)}: {table.files} files with narrower types written again, "
        f"{format_bytes(table.read_bytes)} read, {format_bytes(table.written_bytes)} written"
    )


def describe_mended_target(mended: MendedTarget) -> str:
    """Describe what mending has done to a table of a target."""
    form = table_format(mended.format)
    if not form.marks_wider_types:
        described = f"{_name(mended.table.path)}: is {form.noun}, in which nothing is to be mended"
    else:
        described = describe_mended(mended.table)
    return f"{mended.target}, {described}"


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def describe_copy(copy: SnapshotProgress) -> str:
    """Describe how far the copy of a table is."""
    parts = [f"{copy.rows:,} rows" + (f" of about {copy.estimated_rows:,}" if copy.estimated_rows else "")]
    if copy.of_chunks is not None and copy.of_chunks > 1:
        parts.append(f"{copy.chunks} of {copy.of_chunks} chunks")
    if copy.rows_a_second:
        parts.append(f"{copy.rows_a_second:,} rows/s")
    if copy.remaining_s is not None:
        parts.append(f"about {timedelta(seconds=copy.remaining_s)} left")
    message = f": {copy.message}" if copy.message else ""
    return f"copying {copy.capture_instance}: {', '.join(parts)}{message}"


def describe_cycles(reports: Sequence[CycleReport]) -> Sequence[str]:
    """Describe what some cycles published."""
    last, seconds = reports[-1], sum(report.seconds for report in reports)
    cycles = f"cycle {last.cycle}" if len(reports) == 1 else f"cycles {reports[0].cycle} to {last.cycle}"
    instances = dict.fromkeys(instance for report in reports for instance in report.instances)
    subject = "heartbeat" if all(report.is_heartbeat for report in reports) else "instances"
    return [f"{cycles}: {', '.join(instances) or subject} published up to LSN {last.to_position} in {seconds:.1f} s"]
