from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rowtide.agents.loop import PastError
from rowtide.cdc.published import ListedChange
from rowtide.cdc.status import CaptureStatus, CleanupStatus
from rowtide.core.lsn import CommitLsn
from rowtide.diagnosis import CheckResult, State
from rowtide.diagnosis.capture import check_capturing, check_cleanup, check_outdated

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
AT_REST = CaptureStatus(
    now=NOW,
    capture=None,
    instances=2,
    published_as_of=NOW - HOUR,
    oldest_waiting=None,
    gaps=(),
    last_error=None,
)
CLEAN = CleanupStatus(
    now=NOW,
    schedule="0 2 * * *",
    retention=3 * DAY,
    oldest_instance=NOW - 30 * DAY,
    last_cleaned=NOW - 10 * HOUR,
    last_failure=None,
    agent=None,
)


def capturing(facts: CaptureStatus) -> CheckResult:
    (result,) = check_capturing(facts)
    return result


def cleanup(facts: CleanupStatus) -> CheckResult:
    (result,) = check_cleanup(facts)
    return result


def test_capture_with_nothing_to_do_is_well() -> None:
    assert capturing(AT_REST).state is State.HEALTHY
    assert capturing(AT_REST).message == "it does not run; all that was read is published; instances: 2"


def test_a_failed_job_of_an_agent_that_runs_is_started_again() -> None:
    failed = replace(AT_REST, last_error=PastError(NOW, "RT-1105: no right"), awaits_start=True)
    advice = "Do what the error asks for, then run `{}`."
    assert str(capturing(failed).remediation) == advice.format("rowtide cdc start-job capture")
    assert str(capturing(replace(failed, awaits_start=False)).remediation) == advice.format("rowtide cdc run")


@pytest.mark.parametrize("holder", [None, "host pid 1"])
def test_what_waits_for_long_is_late(holder: str | None) -> None:
    waiting = replace(AT_REST, capture=holder, oldest_waiting=NOW - 2 * HOUR)
    assert capturing(waiting).state is State.WARNING
    assert "what was read since 2 hours ago is not published" in capturing(waiting).message
    assert capturing(replace(waiting, oldest_waiting=NOW - timedelta(seconds=60))).state is State.HEALTHY


def test_what_waits_while_capture_rests_is_not_late() -> None:
    resting = replace(AT_REST, capture="host pid 1", rest_s=1800.0, oldest_waiting=NOW - timedelta(seconds=2000))
    assert capturing(resting).state is State.HEALTHY
    assert capturing(replace(resting, oldest_waiting=NOW - timedelta(seconds=2200))).state is State.WARNING


def test_an_error_counts_until_something_was_published_after_it() -> None:
    failed = replace(AT_REST, last_error=PastError(NOW - HOUR / 2, "RT-4105: it changed."))
    assert capturing(failed).state is State.FAILING
    assert capturing(replace(failed, published_as_of=NOW)).state is State.HEALTHY
    assert capturing(replace(failed, capture="host pid 1")).state is State.HEALTHY


def test_gaps_are_reported_and_do_not_warn() -> None:
    told = capturing(replace(AT_REST, gaps=("from 0/1 up to 0/2: skipped by hand",)))
    assert told.state is State.HEALTHY
    assert "1 recorded gap: from 0/1 up to 0/2: skipped by hand" in told.message


def test_a_cleanup_of_this_night_is_well() -> None:
    assert (cleanup(CLEAN).state, cleanup(CLEAN).message) == (
        State.HEALTHY,
        "change rows stay 3 days; cleaned up 10 hours ago",
    )


def test_one_night_without_a_cleanup_is_no_warning_and_two_are() -> None:
    assert cleanup(replace(CLEAN, last_cleaned=NOW - 33 * HOUR)).state is State.HEALTHY
    missed = cleanup(replace(CLEAN, last_cleaned=NOW - 60 * HOUR))
    assert (missed.state, str(missed.remediation)) == (State.WARNING, "rowtide cdc cleanup")
    assert "no agent runs" in missed.message


def test_no_cleanup_is_due_before_the_retention_has_passed() -> None:
    fresh = replace(CLEAN, last_cleaned=None, oldest_instance=NOW - 2 * DAY)
    assert cleanup(fresh).state is State.HEALTHY
    assert cleanup(replace(fresh, oldest_instance=NOW - 9 * DAY)).state is State.WARNING


def test_without_a_job_only_the_days_since_count() -> None:
    alone = replace(CLEAN, schedule=None, retention=None)
    assert cleanup(alone).state is State.HEALTHY
    assert "no job cleans up" in cleanup(replace(alone, last_cleaned=NOW - 9 * DAY)).message


def test_a_cleanup_that_failed_fails() -> None:
    failed = cleanup(replace(CLEAN, last_failure=PastError(NOW - HOUR, "RT-3101: the disk is full.")))
    assert failed.state is State.FAILING


def test_a_database_without_instances_has_nothing_to_clean_up() -> None:
    assert list(check_cleanup(replace(CLEAN, oldest_instance=None))) == []


def test_a_failed_snapshot_is_a_warning_with_its_remedy() -> None:
    failed = (("public_item", "RT-4200: it could not be read."),)
    _, result = check_capturing(replace(AT_REST, failed_snapshots=failed))
    assert (result.state, result.subject) == (State.WARNING, "snapshot of public_item")
    assert "RT-4200" in result.message
    assert "cdc resnapshot public_item" in str(result.remediation)


def test_a_statement_without_change_rows_asks_for_another_copy() -> None:
    told = ListedChange(
        source_schema="public",
        source_table="item",
        capture_instance="public_item",
        required_column_update=False,
        ddl_command="alter table item\n  attach partition part default" + 100 * " ",
        ddl_lsn=CommitLsn(0x1A2B),
        ddl_time=NOW,
        inferred=False,
        rewrites_values=True,
    )
    (result,) = check_outdated((told,))
    assert (result.state, result.subject) == (State.WARNING, "instance public_item")
    assert "at 0/1A2B: alter table item attach partition part default; targets" in result.message
    assert str(result.remediation) == "rowtide cdc resnapshot public_item"
    (result,) = check_outdated((replace(told, ddl_command="a" * 81),))
    assert f": {'a' * 80}…; " in result.message
