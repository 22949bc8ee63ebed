"""Detection of hanging steps of agents: they neither end nor emit an event, and their thread is never scheduled.

A long step is no hang: the thread that copies a table, delivers the transaction of a day or waits for a server is
scheduled repeatedly, as the kernel counts it, and emits events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rowtide.core.values import frozen
from rowtide.events.catalogue import WorkerHangs
from rowtide.events.event import Emitted, Scope, current_scope, emit, listening, scope

HANGS_AFTER_S = 7200.0
"""Longer than a Spark job takes, during which its thread waits without being scheduled."""
_SWITCHES = "voluntary_ctxt_switches:"


@dataclass(slots=True)
class _Step:
    """A running step, the scope of its events, and the time of its last sign of life."""

    of: Scope
    native_id: int
    shown_at: float
    switches: int | None = None
    """The number of context switches of its thread at the last look."""


_running: dict[int, _Step] = {}
"""Running steps by the identifier of their threads."""


@contextmanager
def running_step() -> Iterator[None]:
    """Watch the block as a step of this thread. Inside another step it is a sign of life of that one."""
    thread = threading.get_ident()
    before = _running.get(thread)
    _running[thread] = _Step(current_scope(), threading.get_native_id(), time.monotonic())
    try:
        yield
    finally:
        if before is None:
            del _running[thread]
        else:
            before.shown_at = time.monotonic()
            _running[thread] = before


def count_switches(native_id: int) -> int | None:
    """Return a thread's number of context switches; None if the system does not count them."""
    # It may have ended meanwhile.
    with suppress(OSError):
        for line in Path(f"/proc/self/task/{native_id}/status").read_text().splitlines():
            if line.startswith(_SWITCHES):
                return int(line.removeprefix(_SWITCHES))
    return None


@frozen
class Silence:
    """The step that has shown no life for the longest time."""

    of: Scope
    seconds: float


class HangWatch:
    """Looks at the running steps of this process. Each look is compared with the one before."""

    def __init__(self, hangs_after_s: float = HANGS_AFTER_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._hangs_after_s = hangs_after_s
        self._clock = clock
        self._reported: Scope | None = None

    def find_hang(self) -> Silence | None:
        """Return a step that hangs, None if there is none; emits an event at the first find."""
        now = self._clock()
        silent = None
        for step in [*_running.values()]:
            switches = count_switches(step.native_id)
            if switches != step.switches:
                step.switches, step.shown_at = switches, now
            if silent is None or now - step.shown_at > silent.seconds:
                silent = Silence(step.of, now - step.shown_at)
        if silent is None or silent.seconds < self._hangs_after_s:
            self._reported = None
            return None
        if self._reported != silent.of:
            self._reported = silent.of
            with scope(silent.of.database, silent.of.job):
                emit(WorkerHangs(round(silent.seconds)))
        return silent


@contextmanager
def noting_events() -> Iterator[None]:
    """Take events of the threads of steps for signs of life during the block."""

    def note(_emitted: Emitted) -> None:
        step = _running.get(threading.get_ident())
        if step is not None:
            step.shown_at = time.monotonic()

    with listening(note):
        yield
