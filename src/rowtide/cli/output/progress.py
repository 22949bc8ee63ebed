"""Progress of long operations: a line that changes or a bar on a terminal, lines at intervals elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from rowtide.cli.output.rows import notes

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
