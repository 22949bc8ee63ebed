"""Runs of jobs in threads, and what an agent decides about a job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import pytest

from rowtide.agents import loop
from rowtide.agents.loop import FIRST_TRIES, Agent, JobAction, JobRun, RunOutcome, decide, run_agent
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.errors import ConnectionFailed, NoReplicationRight
from rowtide.log.errors import LeaseHeld, LeaseLost


def ended(run: JobRun) -> JobRun:
    run.wait()
    return run


def wait_to_stop(run: JobRun) -> str:
    run.stop.wait()
    run.require_wanted()
    return "not reached"


def fail(error: Exception) -> str:
    raise error


def test_run_that_ends_by_itself_succeeds_with_its_message() -> None:
    run = ended(JobRun("job", lambda _run: "12 rows"))
    assert (run.outcome, run.message) == (RunOutcome.SUCCEEDED, "12 rows")


def test_a_run_is_in_progress_until_it_is_stopped() -> None:
    run = JobRun("job", wait_to_stop)
    assert run.outcome is RunOutcome.RUNNING
    run.request_stop()
    assert ended(run).outcome is RunOutcome.STOPPED
    assert run.message == ""


def test_a_run_that_fails_says_why() -> None:
    run = ended(JobRun("job", lambda _run: fail(NoReplicationRight("clerk", '"clerk"'))))
    assert run.outcome is RunOutcome.FAILED
    assert run.message.startswith("RT-1105: ")


def test_a_fault_of_the_program_ends_the_run_and_nothing_else() -> None:
    run = ended(JobRun("job", lambda _run: fail(ValueError("what is this"))))
    assert (run.outcome, run.message) == (RunOutcome.FAILED, "ValueError: what is this")


@pytest.mark.parametrize(
    ("is_running", "is_wanted", "was_wanted", "requested", "is_due", "found"),
    [
        # With the agent, or when it is added.
        (False, True, False, JobAction.NOTHING, None, JobAction.START),
        # It has ended by itself, or was stopped.
        (False, True, True, JobAction.NOTHING, None, JobAction.NOTHING),
        (False, True, True, JobAction.START, None, JobAction.START),
        (True, True, True, JobAction.START, None, JobAction.NOTHING),
        (True, True, True, JobAction.STOP, None, JobAction.STOP),
        (False, True, False, JobAction.STOP, None, JobAction.NOTHING),
        # It was dropped.
        (True, False, True, JobAction.NOTHING, None, JobAction.STOP),
        (False, False, True, JobAction.START, None, JobAction.NOTHING),
        # With a schedule.
        (False, True, False, JobAction.NOTHING, False, JobAction.NOTHING),
        (False, True, True, JobAction.NOTHING, True, JobAction.START),
        (False, True, True, JobAction.STOP, True, JobAction.NOTHING),
        (False, True, True, JobAction.START, False, JobAction.START),
        (True, True, True, JobAction.NOTHING, True, JobAction.NOTHING),
    ],
)
def test_what_an_agent_does_about_a_job(
    *, is_running: bool, is_wanted: bool, was_wanted: bool, requested: JobAction, is_due: bool | None, found: JobAction
) -> None:
    action = decide(
        is_running=is_running, is_wanted=is_wanted, was_wanted=was_wanted, requested=requested, is_due=is_due
    )
    assert action is found


OUTAGE = ConnectionFailed("it is down")
HELD = LeaseHeld("log", "another")
LOST = LeaseLost("lake", "another")


class Attempts:
    """An agent that opens, or meets an error, in a given order; then it ends the loop."""

    def __init__(self, *outcomes: RowtideError | None) -> None:
        self._outcomes = iter(outcomes)
        self._stop = threading.Event()
        self.errors: list[RowtideError] = []

    def run(self, *, has_run: bool = False) -> None:
        run_agent(
            self._open, stop=self._stop, idle_s=0, has_run=has_run, on_retry=lambda error, _: self.errors.append(error)
        )

    @contextmanager
    def _open(self) -> Iterator[Agent]:
        outcome = next(self._outcomes, self._stop)
        if outcome is self._stop:
            self._stop.set()
        elif isinstance(outcome, RowtideError):
            raise outcome
        yield _BrokenOff()


class _BrokenOff:
    def step(self) -> bool:
        raise OUTAGE


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(loop, "LONGEST_PAUSE_S", 0.001)


def test_an_agent_that_never_opened_tells_after_some_tries() -> None:
    attempts = Attempts(*[OUTAGE] * FIRST_TRIES)
    with pytest.raises(ConnectionFailed):
        attempts.run()
    assert len(attempts.errors) == FIRST_TRIES - 1


def test_an_agent_that_has_opened_waits_an_outage_out() -> None:
    attempts = Attempts(None, *[OUTAGE] * 2 * FIRST_TRIES)
    attempts.run()
    assert len(attempts.errors) == 1 + 2 * FIRST_TRIES


def test_agent_that_replaces_one_that_ran_retries_through_outage() -> None:
    attempts = Attempts(*[OUTAGE] * 2 * FIRST_TRIES)
    attempts.run(has_run=True)
    assert len(attempts.errors) == 2 * FIRST_TRIES


def test_a_lease_that_another_holds_fails_at_once_at_the_start() -> None:
    attempts = Attempts(HELD)
    with pytest.raises(LeaseHeld):
        attempts.run()
    assert attempts.errors == []


def test_a_lease_that_was_lost_with_its_connection_is_waited_for() -> None:
    attempts = Attempts(None, HELD, HELD)
    attempts.run()
    assert attempts.errors == [OUTAGE, HELD, HELD]


def test_a_lease_that_another_took_meanwhile_is_waited_for() -> None:
    attempts = Attempts(None, LOST, HELD)
    attempts.run()
    assert attempts.errors == [OUTAGE, LOST, HELD]


@pytest.mark.parametrize("has_run", [False, True])
def test_what_needs_a_decision_is_never_retried(*, has_run: bool) -> None:
    attempts = Attempts(NoReplicationRight("joe", '"joe"'))
    with pytest.raises(NoReplicationRight, match='role "joe" has no right to replicate'):
        attempts.run(has_run=has_run)


def test_an_agent_is_retried_until_its_last_step_ends_the_run() -> None:
    stop, errors = threading.Event(), list[RowtideError]()
    outcomes: list[RowtideError | None] = [OUTAGE, OUTAGE, None]
    ending = _Ending(stop, outcomes)
    run_agent(
        lambda: nullcontext(ending), stop=stop, idle_s=0, has_run=True, on_retry=lambda error, _: errors.append(error)
    )
    assert (errors, outcomes) == ([OUTAGE, OUTAGE], [])


def test_an_agent_stopped_between_tries_is_not_opened_again() -> None:
    stop = threading.Event()
    ending = _Ending(stop, [OUTAGE, None])
    run_agent(lambda: nullcontext(ending), stop=stop, idle_s=0, has_run=True, on_retry=lambda _error, _: stop.set())
    assert ending.outcomes == [None]


@dataclass(frozen=True, slots=True)
class _Ending:
    """Fails as often as there are errors; then it does its work, which ends the run."""

    stop: threading.Event
    outcomes: list[RowtideError | None]

    def step(self) -> bool:
        error = self.outcomes.pop(0)
        if error is not None:
            raise error
        self.stop.set()
        return True
