"""Runs of jobs in threads, and what an agent decides about a job."""

from __future__ import annotations

import pytest

from rowtide.agents.runs import JobAction, JobRun, RunOutcome, decide
from rowtide.databases.postgres.errors import NoReplicationRight


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
