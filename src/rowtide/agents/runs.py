"""One run of a job in its own thread: how it is stopped, its retries, and its outcome."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from enum import Enum, StrEnum

from rowtide.core.errors import RowtideError, describe
from rowtide.core.row_values import are_hidden
from rowtide.core.values import frozen

log = logging.getLogger("rowtide.agents")


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
        self._name = name
        self.was_stopped = False
        """It was asked to end, whether it has or not."""
        self._work = work
        self._thread = threading.Thread(target=self._run, name=f"rowtide {name}", daemon=True)
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
        except Exception as error:
            # A fault in one job does not end the others.
            log.exception("job_failed %s", self._name, exc_info=not are_hidden())
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
