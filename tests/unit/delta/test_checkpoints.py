"""Durations as Delta's properties have them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowtide.delta.checkpoints import parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 1 days", timedelta(days=1)),
        ("interval 1 week", timedelta(weeks=1)),
        ("INTERVAL 2 Hours 30 minutes", timedelta(hours=2, minutes=30)),
        ("168 hours", timedelta(hours=168)),
        ("interval 0 seconds", timedelta()),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "interval", "interval 1 month", "1", "interval -1 days", "interval 1 days x"])
def test_another_text_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None
