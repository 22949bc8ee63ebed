"""When a job is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rowtide.agents.schedule import Schedule

DAILY = Schedule("0 2 * * *", "UTC")


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


def test_the_next_time_is_after_and_never_at_the_given_one() -> None:
    assert DAILY.next_after(at(1, 1, 59)) == at(1, 2)
    assert DAILY.next_after(at(1, 2)) == at(2, 2)


def test_a_job_is_due_once_its_time_has_come_since_the_last_run() -> None:
    assert not DAILY.is_due(at(1, 2), at(2, 1, 59))
    assert DAILY.is_due(at(1, 2), at(2, 2))


def test_times_that_were_missed_are_made_up_once() -> None:
    assert DAILY.is_due(at(1, 2), at(9, 12))
    assert not DAILY.is_due(at(9, 12), at(9, 13))


def test_a_day_of_the_week_is_named() -> None:
    sunday = Schedule("0 2 * * sun", "UTC").next_after(at(1, 3))
    assert sunday == at(8, 2)
    with pytest.raises(ValueError, match="by name"):
        Schedule("0 2 * * 0", "UTC").verify()


def test_hour_skipped_by_daylight_saving_does_not_skip_the_day() -> None:
    berlin = Schedule("30 2 * * *", "Europe/Berlin")
    first = berlin.next_after(datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert first is not None
    second = berlin.next_after(first)
    assert second is not None
    assert second - first <= timedelta(hours=24)


def test_a_date_that_never_comes_is_never_due() -> None:
    assert Schedule("0 2 30 2 *", "UTC").next_after(at(1, 2)) is None
