"""The loop of every agent: step, pause when idle, retry retryable errors, stop on others."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from rowtide.core.errors import Remedy, RowtideError

log = logging.getLogger("rowtide.agents")

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
FIRST_TRIES = 4


OnRetry = Callable[[RowtideError, float], None]
"""Receives the error after which an agent is opened again, and the pause before that, in seconds."""


def ignore(*_told: object) -> None:
    """Ignore an event: the default of every watcher."""


class Agent(Protocol):
    """Does work in bounded steps; used as a context manager that releases what it holds."""

    def step(self) -> bool:
        """Do one piece of work; return whether there was any."""
        ...


def run_agent(
    open_agent: Callable[[], AbstractContextManager[Agent]],
    *,
    stop: threading.Event,
    idle_s: float,
    has_run: bool = False,
    on_retry: OnRetry = ignore,
) -> None:
    """Run an agent until `stop` is set; open it again after a retryable error.

    The pause doubles from half a second to half a minute, and is reset by a step that did something. Raises every other
    error; and, if the agent never opened, the error of the last of `FIRST_TRIES`, so that a wrong address is reported.
    With `has_run`, this agent replaces one that has opened, so an outage is waited out.
    """
    pauses, tries = pauses_s(), 0
    while not stop.is_set():
        try:
            with open_agent() as agent:
                has_run = True
                while not stop.is_set():
                    if agent.step():
                        pauses = pauses_s()
                    else:
                        stop.wait(idle_s)
        except RowtideError as error:
            tries += 1
            if not _may_retry(error.remedy, tries, has_run=has_run):
                raise
            pause_s = next(pauses)
            report_retry(error, pause_s, on_retry)
            stop.wait(pause_s)


def report_retry(error: RowtideError, pause_s: float, on_retry: OnRetry) -> None:
    """Report that an agent is opened again after an error and a pause."""
    log.warning("agent_retries after %s s: %s", pause_s, error)
    on_retry(error, pause_s)


def _may_retry(remedy: Remedy, tries: int, *, has_run: bool) -> bool:
    match remedy:
        case Remedy.RETRY:
            return has_run or tries < FIRST_TRIES
        case Remedy.REGAIN:
            return has_run
        case Remedy.STOP:
            return False


def pauses_s() -> Iterator[float]:
    """Yield the pauses between tries, in seconds: doubled from half a second to half a minute."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
