"""What work that lasts says: on a terminal one line that changes, elsewhere a line at most every ten seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from rowtide.cli.output import notes

INTERVAL_S = 10.0
_Report = TypeVar("_Report")


class Paced(Generic[_Report]):
    """Reports that are told together: the first at once, later ones when the interval is over, the last at the end."""

    def __init__(
        self,
        tell: Callable[[Sequence[_Report]], None],
        *,
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell = tell
        self._interval_s = interval_s
        self._clock = clock
        self._told_at: float | None = None
        self._waiting: list[_Report] = []
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def add(self, report: _Report) -> None:
        """Take a report; any thread may."""
        with self._lock:
            self._waiting.append(report)
            pause_s = 0.0 if self._told_at is None else self._told_at + self._interval_s - self._clock()
            if pause_s <= 0:
                self._flush()
            elif self._timer is None:
                self._timer = threading.Timer(pause_s, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Tell what waits."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            told, self._waiting, self._told_at = self._waiting, [], self._clock()
            self._tell(told)


@contextmanager
def progress(
    beginning: str, describe: Callable[[Sequence[_Report]], Sequence[str]]
) -> Iterator[Callable[[_Report], None]]:
    """Yield what takes reports of progress; `beginning` is shown until the first on a terminal.

    `describe` returns the lines for reports of some time.
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
