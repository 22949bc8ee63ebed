"""By its statistics a file is left out only if it has no row of a range."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rowtide.delta.actions import AddFile
from rowtide.delta.statistics import Between

STATISTICS = {"numRecords": 4, "minValues": {"a": 5}, "maxValues": {"a": 9}, "nullCount": {"a": 1, "n": 4}}


def file(statistics: dict[str, Any] | None) -> AddFile:
    return AddFile("a", 1, 1, json.dumps(statistics) if statistics is not None else None)


@pytest.mark.parametrize(
    ("low", "high", "may"),
    [
        (None, None, True),
        (9, None, True),
        (10, None, False),
        (None, 5, True),
        (None, 4, False),
        (6, 7, True),
        (10, 20, False),
    ],
)
def test_a_file_is_left_out_beyond_its_bounds(low: int | None, high: int | None, *, may: bool) -> None:
    assert Between("a", low, high).may_be_in(file(STATISTICS)) is may


@pytest.mark.parametrize("statistics", [None, {}, {"numRecords": 1}, {"maxValues": {"a": "x"}}, {"maxValues": None}])
def test_a_file_without_bounds_may_have_any_row(statistics: dict[str, Any] | None) -> None:
    assert Between("a", 100).may_be_in(file(statistics))


def test_a_file_whose_values_are_all_null_has_none() -> None:
    assert not Between("n", 0).may_be_in(file(STATISTICS))
    assert Between("a", 6).may_be_in(file(STATISTICS))
