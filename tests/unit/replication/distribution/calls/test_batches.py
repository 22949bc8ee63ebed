"""Calls come in the log's order, and are cut to batches between source transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from builders.capture.capture_instances import source_table
from builders.replication.articles import article
from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.batches import (
    LEAST_BLOCK,
    BatchLimits,
    Block,
    Cutter,
    ProcedureCall,
    in_blocks,
    in_order,
)
from rowtide.replication.distribution.calls.encoding import Arguments, Calls, InsertedRows

ORDERS, LINES = article(source_table(name="orders")), article(source_table(name="lines"))
INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE
KINDS = tuple((made, operation) for made in (ORDERS, LINES) for operation in (INSERT, UPDATE, DELETE))
SEVERAL = 10


def calls(made: Article, operation: Operation, *places: tuple[int, int]) -> Calls:
    """Return calls at these (commit_lsn, seqval); the arguments say which is which."""
    lsns, seqvals = ([place[part] for place in places] for part in (0, 1))
    return Calls(
        made,
        operation,
        np.array(lsns, dtype=np.int64),
        np.array(seqvals, dtype=np.int64),
        [told(*place) for place in places],
    )


def call(lsn: int, seqval: int, made: Article, operation: Operation) -> ProcedureCall:
    return ProcedureCall(lsn, seqval, made, operation, told(lsn, seqval))


def told(lsn: int, seqval: int) -> Arguments:
    return [f"{lsn}/{seqval}".encode()]


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


def test_calls_are_ordered_by_commit_then_place_in_transaction() -> None:
    found = in_order(
        [
            calls(ORDERS, INSERT, (500, 1), (500, 4), (700, 2)),
            calls(ORDERS, DELETE, (700, 1)),
            calls(LINES, INSERT, (500, 2), (600, 1)),
            calls(LINES, UPDATE, (500, 3)),
        ]
    )
    assert list(found) == [
        call(500, 1, ORDERS, INSERT),
        call(500, 2, LINES, INSERT),
        call(500, 3, LINES, UPDATE),
        call(500, 4, ORDERS, INSERT),
        call(600, 1, LINES, INSERT),
        call(700, 1, ORDERS, DELETE),
        call(700, 2, ORDERS, INSERT),
    ]


def test_later_transaction_comes_later_despite_lower_places() -> None:
    found = in_order([calls(ORDERS, INSERT, (600, 1)), calls(LINES, INSERT, (500, 9))])
    assert [lsn for lsn, *_ in found] == [500, 600]


def test_a_truncate_keeps_its_place_without_arguments() -> None:
    truncate = Calls(ORDERS, Operation.TRUNCATE, np.array([500]), np.array([2]), [[]])
    found = list(in_order([calls(ORDERS, INSERT, (500, 1), (500, 3)), truncate]))
    assert [(operation, arguments) for *_, operation, arguments in found] == [
        (INSERT, told(500, 1)),
        (Operation.TRUNCATE, []),
        (INSERT, told(500, 3)),
    ]


@pytest.mark.parametrize("groups", [[], [calls(ORDERS, INSERT)], [calls(ORDERS, INSERT), calls(LINES, DELETE)]])
def test_no_calls_are_none_in_order(groups: Sequence[Calls]) -> None:
    assert list(in_order(groups)) == []


def test_an_empty_group_among_others_is_passed_over() -> None:
    found = in_order([calls(ORDERS, INSERT), calls(LINES, INSERT, (500, 1)), calls(ORDERS, DELETE)])
    assert list(found) == [call(500, 1, LINES, INSERT)]


@settings(deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.integers(0, 1 << 62), st.integers(0, 1 << 62)) | st.tuples(st.integers(1, 4), st.integers(1, 9)),
        st.sampled_from(KINDS),
    )
)
def test_every_call_comes_once_and_in_order(changes: dict[tuple[int, int], tuple[Article, Operation]]) -> None:
    groups = [calls(*kind, *(place for place in changes if changes[place] == kind)) for kind in KINDS]
    assert list(in_order(groups)) == [call(*place, *changes[place]) for place in sorted(changes)]


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


def inserts(made: Article, *places: tuple[int, int]) -> Calls:
    """Return calls as `calls`, as rows."""
    told_apart = calls(made, INSERT, *places)
    rows = pa.array([[f"{lsn}/{seqval}"] for lsn, seqval in places], pa.list_(pa.string()))
    return Calls(made, INSERT, told_apart.commit_lsn, told_apart.seqval, InsertedRows(rows))


def test_many_rows_of_a_transaction_are_a_block() -> None:
    first = [(1, number) for number in range(LEAST_BLOCK)]
    second = [(2, number) for number in range(LEAST_BLOCK + 1)]
    found = list(in_blocks([inserts(ORDERS, *first, *second), calls(LINES, INSERT, (2, 3))]))

    assert [isinstance(one, Block) for one in found] == [True, *[False] * (LEAST_BLOCK + 2)]
    assert found.count(call(2, 3, LINES, INSERT)) == 1


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0, 0, 0, 1])), max_size=150))
def test_blocks_have_the_calls_in_order(drawn: list[tuple[int, int]]) -> None:
    places = [(lsn, number, owner) for number, (lsn, owner) in enumerate(sorted(drawn, key=lambda one: one[0]))]
    groups = [
        inserts(ORDERS, *((lsn, number) for lsn, number, owner in places if owner == 0)),
        calls(LINES, UPDATE, *((lsn, number) for lsn, number, owner in places if owner == 1)),
    ]
    blocks = in_blocks(groups)
    expanded = [one for found in blocks for one in (found.calls() if isinstance(found, Block) else [found])]

    assert expanded == list(in_order(groups))


def test_a_block_counts_as_its_calls() -> None:
    cutter = Cutter(BatchLimits(10, 30))

    assert cutter.ends_before(1, LEAST_BLOCK) is None
    assert cutter.ends_before(2, LEAST_BLOCK) is None
    assert cutter.ends_before(3) == Position(3)
