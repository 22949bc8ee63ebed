"""Output of a capturing command, and how it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from rowtide.cli.output import notes
from rowtide.cli.progress import progress
from rowtide.core.errors import RowtideError

if TYPE_CHECKING:
    from rowtide.cdc.capture.capture import CycleReport
    from rowtide.cdc.running.context import Watchers


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Yield the event that Ctrl-C and SIGTERM set."""
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    yield stop


@contextmanager
def watching(beginning: str) -> Iterator[tuple[threading.Event, Watchers]]:
    """Yield the event that Ctrl-C and SIGTERM set, and watchers that print.

    `beginning` is shown until the first cycle.
    """
    from rowtide.cdc.running.context import Watchers

    with stopping() as stop, progress(beginning, describe_cycles) as on_cycle:

        def on_retry(error: RowtideError, pause_s: float) -> None:
            notes.print(f"{error} Next try in {pause_s:g} s.", soft_wrap=True)

        yield stop, Watchers(on_cycle, on_retry)


def describe_cycles(reports: Sequence[CycleReport]) -> Sequence[str]:
    """Describe what some cycles published."""
    last, seconds = reports[-1], sum(report.seconds for report in reports)
    cycles = f"cycle {last.cycle}" if len(reports) == 1 else f"cycles {reports[0].cycle} to {last.cycle}"
    instances = dict.fromkeys(instance for report in reports for instance in report.instances)
    subject = "heartbeat" if all(report.is_heartbeat for report in reports) else "instances"
    return [f"{cycles}: {', '.join(instances) or subject} published up to LSN {last.to_position} in {seconds:.1f} s"]
