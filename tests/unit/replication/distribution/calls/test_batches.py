"""Calls are cut to batches between source transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings, strategies as st

from rowtide.core.lsn import Position
from rowtide.replication.distribution.calls.batches import BatchLimits, Cutter

SEVERAL = 10


def cut(lsns: Iterable[int], limits: BatchLimits) -> list[tuple[list[int], Position | None]]:
    """Return the batches that an agent makes of calls with these LSNs, each with what it reached; the last is open."""
    cutter, batches, batch = Cutter(limits), [], list[int]()
    for lsn in lsns:
        reached = cutter.ends_before(lsn)
        if reached is not None:
            batches.append((batch, reached))
            batch = []
        batch.append(lsn)
    return [*batches, (batch, None)]


@pytest.mark.parametrize(
    ("lsns", "limits", "batches"),
    [
        ([1, 2, 3, 4, 5], BatchLimits(2, SEVERAL), [[1, 2], [3, 4], [5]]),
        ([1, 1, 1, 2, 3, 3], BatchLimits(2, SEVERAL), [[1, 1, 1, 2], [3, 3]]),
        ([1, 2, 3, 4, 5], BatchLimits(SEVERAL, 2), [[1, 2], [3, 4], [5]]),
        ([1, 1, 2, 3, 4], BatchLimits(SEVERAL, 2), [[1, 1], [2, 3], [4]]),
        ([1, 2, 2, 3, 3], BatchLimits(SEVERAL, 4), [[1, 2, 2, 3, 3]]),
        ([1, 2, 2, 3, 4], BatchLimits(3, 3), [[1, 2, 2], [3, 4]]),
        ([1, 2, 3, 4, 4], BatchLimits(3, SEVERAL), [[1, 2, 3], [4, 4]]),
        ([1, 2, 3], BatchLimits(1, SEVERAL), [[1], [2], [3]]),
        ([1, 2, 3], BatchLimits(SEVERAL, 1), [[1], [2], [3]]),
        ([1, 2], BatchLimits(2, 2), [[1, 2]]),
    ],
)
def test_batch_ends_with_the_transaction_that_reaches_a_limit(
    lsns: Sequence[int], limits: BatchLimits, batches: list[list[int]]
) -> None:
    assert [batch for batch, _ in cut(lsns, limits)] == batches


def test_a_transaction_larger_than_a_batch_is_one_whole() -> None:
    assert [batch for batch, _ in cut([1, *[2] * 50, 3], BatchLimits(SEVERAL, 5))] == [[1, *[2] * 50], [3]]


def test_batch_position_is_just_behind_its_last_transaction() -> None:
    assert cut([500, 500, 600, 601], BatchLimits(1, SEVERAL)) == [
        ([500, 500], Position(501)),
        ([600], Position(601)),
        ([601], None),
    ]


def test_the_first_call_ends_nothing() -> None:
    assert Cutter(BatchLimits(1, 1)).ends_before(500) is None


def test_limits_count_from_each_batchs_beginning() -> None:
    cutter = Cutter(BatchLimits(SEVERAL, 3))
    ends = [cutter.ends_before(lsn) for lsn in (1, 1, 1, 1, 2, 3, 4, 5)]
    assert ends == [None, None, None, None, Position(2), None, None, Position(5)]


SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=40)
LIMITS = st.builds(BatchLimits, st.integers(1, 8), st.integers(1, 20))


@settings(deadline=None)
@given(SIZES, LIMITS)
def test_batches_split_the_input_only_between_transactions(sizes: list[int], limits: BatchLimits) -> None:
    lsns = [lsn for lsn, size in enumerate(sizes, 1) for _ in range(size)]
    batches = cut(lsns, limits)
    assert [lsn for batch, _ in batches for lsn in batch] == lsns
    assert all(before[-1] != after[0] for (before, _), (after, _) in pairwise(batches))
    for batch, reached in batches[:-1]:
        assert reached == Position(batch[-1] + 1)
        assert is_full(batch, limits)
    for batch, _ in batches:
        assert not is_full([lsn for lsn in batch if lsn != batch[-1]], limits)


def is_full(batch: Sequence[int], limits: BatchLimits) -> bool:
    transactions = sum(1 for _ in groupby(batch))
    return transactions >= limits.transactions or len(batch) >= limits.commands


def test_all_calls_of_a_transaction_count() -> None:
    cutter = Cutter(BatchLimits(10, 30))

    assert cutter.ends_before(1, 20) is None
    assert cutter.ends_before(2, 20) is None
    assert cutter.ends_before(3) == Position(3)
