"""Runs of agents: the loop of every agent, and one run of a job in its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from enum import Enum, StrEnum
from typing import Protocol

from rowtide.agents.hangs import running_step
from rowtide.core.errors import Remedy, RowtideError, describe
from rowtide.core.values import frozen
from rowtide.events.catalogue import AgentRetries, JobBroken
from rowtide.events.event import emit, format_places, inheriting


class RunOutcome(StrEnum):
    """The outcome of a run; set by its agent, except `LOST`, which the next agent sets."""

    RUNNING = "in progress"
    SUCCEEDED = "succeeded"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"
    """The agent was killed, or could not reach the database at the end of the run."""


@frozen
class PastError:
    """The newest error that an agent has recorded."""

    time: datetime
    text: str


class RunStopped(Exception):
    """Raised inside a run that was asked to stop, by `JobRun.require_wanted`."""


class JobRun:
    """A run, which starts when it is created. `work` receives the run, and returns what it did."""

    def __init__(self, name: str, work: Callable[[JobRun], str]) -> None:
        self.stop = threading.Event()
        """Ends the run; set to stop it, and by work that has ended by itself."""
        self.retries = 0
        self.message = ""
        self.error: Exception | None = None
        self.was_stopped = False
        """It was asked to end, whether it has or not."""
        self._work = work
        self._thread = threading.Thread(target=inheriting(self._run, job=name), name=f"rowtide {name}", daemon=True)
        self._thread.start()

    @property
    def outcome(self) -> RunOutcome:
        """The current outcome."""
        if self._thread.is_alive():
            return RunOutcome.RUNNING
        if self.error is not None:
            return RunOutcome.FAILED
        return RunOutcome.STOPPED if self.was_stopped else RunOutcome.SUCCEEDED

    def request_stop(self) -> None:
        """Ask it to stop; it may finish its current step."""
        self.was_stopped = True
        self.stop.set()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until it has ended, or for a timeout."""
        self._thread.join(timeout_s)

    def require_wanted(self) -> None:
        """Raise `RunStopped` once it was asked to stop."""
        if self.stop.is_set():
            raise RunStopped

    def count_retry(self, error: RowtideError) -> None:
        """Count a retry after an error."""
        self.retries += 1
        self.message = str(error)

    def _run(self) -> None:
        try:
            self.message = self._work(self)
        except RunStopped:
            self.message = ""
        except RowtideError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the event has where
            # An unexpected error in one job does not end the others.
            emit(JobBroken(error, format_places(error)))
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.message = describe(error)
        self.error = error


class JobAction(Enum):
    """What an agent does with a job now."""

    START = "start"
    STOP = "stop"
    NOTHING = "nothing"


def decide(
    *, is_running: bool, is_wanted: bool, was_wanted: bool, requested: JobAction, is_due: bool | None
) -> JobAction:
    """Decide about a job. Pure.

    `is_due` None: it has no schedule, and starts with the agent, or when it is added; `was_wanted`: it existed at the
    last decision. A request takes precedence over the schedule.
    """
    if not is_wanted or requested is JobAction.STOP:
        return JobAction.STOP if is_running else JobAction.NOTHING
    if is_running:
        return JobAction.NOTHING
    begins = is_due if is_due is not None else not was_wanted
    return JobAction.START if begins or requested is JobAction.START else JobAction.NOTHING


FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
# Few, so that a wrong address is reported within seconds.
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
    reports_itself: bool = False,
    on_step: Callable[[], None] = ignore,
    is_standby: bool = False,
) -> None:
    """Run an agent until `stop` is set; open it again after a retryable error.

    The pause doubles from half a second to half a minute, and is reset by a step that did something. Raises every other
    error; and, if the agent never opened, the error of the last of `FIRST_TRIES`, so that a wrong address is reported.
    With `has_run`, this agent replaces one that has opened, so an outage is waited out; with `is_standby`, what another
    process holds is waited for. A retry is an event, unless `on_retry` emits one of its own (`reports_itself`).
    `on_step` is called after each step, and before each pause of an agent that runs or is a standby: its sign of life.
    """
    pauses, tries = pauses_s(), 0
    while not stop.is_set():
        try:
            with open_agent() as agent:
                has_run = True
                while not stop.is_set():
                    with running_step():
                        has_worked = agent.step()
                    on_step()
                    if has_worked:
                        pauses = pauses_s()
                    else:
                        stop.wait(idle_s)
        except RowtideError as error:
            tries += 1
            if not _may_retry(error.remedy, tries, has_run=has_run, is_standby=is_standby):
                raise
            pause_s = next(pauses)
            if reports_itself:
                on_retry(error, pause_s)
            else:
                report_retry(error, pause_s, on_retry)
            if has_run or error.remedy is Remedy.REGAIN:
                on_step()
            stop.wait(pause_s)


def report_retry(error: RowtideError, pause_s: float, on_retry: OnRetry) -> None:
    """Report that an agent is opened again after an error and a pause."""
    # First, since it may raise the error instead.
    on_retry(error, pause_s)
    emit(AgentRetries(pause_s, error))


def _may_retry(remedy: Remedy, tries: int, *, has_run: bool, is_standby: bool) -> bool:
    match remedy:
        case Remedy.RETRY:
            return has_run or tries < FIRST_TRIES
        case Remedy.REGAIN:
            return has_run or is_standby
        case Remedy.STOP | Remedy.RESTART:
            return False


def pauses_s() -> Iterator[float]:
    """Yield the pauses between tries, in seconds: doubled from half a second to half a minute."""
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
