from __future__ import annotations

import pytest

from rowtide.diagnosis.quantities import format_bytes, format_duration, format_names


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
def test_bytes_use_the_largest_unit_with_at_least_one(count: int, text: str) -> None:
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
def test_durations_use_the_largest_unit_with_at_least_two(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_long_name_lists_are_cut_with_the_remaining_count() -> None:
    assert format_names(("a", "b"), most=2) == "a, b"
    assert format_names(("a", "b", "c", "d"), most=2) == "a, b and 2 more"
