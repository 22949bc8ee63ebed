from __future__ import annotations

from rowtide.cdc.gaps.reconciling import order


def test_tables_follow_those_that_they_refer_to() -> None:
    assert order({1: {3}, 2: {1}, 3: set()}) == [3, 1, 2]


def test_a_cycle_of_references_has_no_order() -> None:
    assert order({1: {2}, 2: {1}, 3: set()}) == [1, 2, 3]
