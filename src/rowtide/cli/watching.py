"""What a command shows while it captures, and how it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from rowtide.cli.output import notes
from rowtide.core.errors import RowtideError

if TYPE_CHECKING:
    from rowtide.cdc.capture.capture import CycleReport
    from rowtide.cdc.capture.run import Watchers


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Yield what Ctrl-C and SIGTERM set."""
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    yield stop


@contextmanager
def watching(beginning: str) -> Iterator[tuple[threading.Event, Watchers]]:
    """Yield what Ctrl-C and SIGTERM set, and watchers that print: on a terminal one line that changes, else plain ones.

    `beginning` is shown until the first cycle.
    """
    from rowtide.cdc.capture.run import Watchers

    with stopping() as stop, notes.status(beginning) as status:
        shown = status if notes.is_terminal else None

        def on_cycle(report: CycleReport) -> None:
            subject = "heartbeat" if report.is_heartbeat else "instances"
            line = (
                f"cycle {report.cycle}: {', '.join(report.instances) or subject} "
                f"published up to LSN {report.to_position} in {report.seconds:.1f} s"
            )
            if shown is not None:
                shown.update(line)
            else:
                notes.print(line, soft_wrap=True)

        def on_retry(error: RowtideError, pause_s: float) -> None:
            notes.print(f"{error} Next try in {pause_s:g} s.", soft_wrap=True)

        yield stop, Watchers(on_cycle, on_retry)
