from __future__ import annotations

import pytest

from rowtide.databases.lake_types import can_widen


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("smallint", "int"),
        ("int", "bigint"),
        ("float", "double"),
        ("date", "timestamp_ntz"),
        ("decimal(9,2)", "decimal(12,2)"),
        ("decimal(9,2)", "decimal(12,5)"),
        ("int", "decimal(12,2)"),
        ("bigint", "decimal(20,0)"),
    ],
)
def test_what_holds_every_value_of_the_other_is_wider(old: str, new: str) -> None:
    assert can_widen(old, new)
    assert not can_widen(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("decimal(9,2)", "decimal(10,4)"),
        ("int", "decimal(9,0)"),
        ("bigint", "double"),
        ("int", "string"),
        ("timestamp_ntz", "timestamp"),
    ],
)
def test_neither_of_two_that_hold_different_values_is_wider(old: str, new: str) -> None:
    assert not can_widen(old, new)
    assert not can_widen(new, old)
