from __future__ import annotations

import pytest

from rowtide.monitor.quantities import format_bytes, format_duration, format_names


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (64 << 30, "64 GiB"),
        (1 << 61, "2048 PiB"),
    ],
)
def test_bytes_are_told_in_the_largest_unit_of_which_there_is_one(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.2 s"),
        (119, "119 s"),
        (120, "2 minutes"),
        (7199, "120 minutes"),
        (9000, "2.5 hours"),
        (259200, "3 days"),
    ],
)
def test_times_are_told_in_the_largest_unit_of_which_there_are_two(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_of_many_names_the_first_are_told_and_how_many_more_there_are() -> None:
    assert format_names(("a", "b"), most=2) == "a, b"
    assert format_names(("a", "b", "c", "d"), most=2) == "a, b and 2 more"
