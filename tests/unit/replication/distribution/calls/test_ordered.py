"""Calls come in the log's order, whatever article and operation they are of."""

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
from rowtide.replication.distribution.calls.arguments import Arguments, CallArguments, InsertedRows
from rowtide.replication.distribution.calls.batch_limits import BatchLimits, BatchSplitter
from rowtide.replication.distribution.calls.ordered import LEAST_BULK, Calls, OrderedCalls, ProcedureCall

ORDERS, LINES = article(source_table(name="orders")), article(source_table(name="lines"))
INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE
WIDTH = 8
"""As many values as calls of any operation have."""
NONE = CallArguments(np.empty((0, WIDTH), dtype=object))
KINDS = tuple((made, operation) for made in (ORDERS, LINES) for operation in (INSERT, UPDATE, DELETE))


def calls(made: Article, operation: Operation, *places: tuple[int, int]) -> Calls:
    """Return calls at these (commit_lsn, seqval); the arguments say which is which."""
    lsns, seqvals = ([place[part] for place in places] for part in (0, 1))
    return Calls(
        made,
        operation,
        np.array(lsns, dtype=np.int64),
        np.array(seqvals, dtype=np.int64),
        CallArguments.of([told(*place) for place in places]) if places else NONE,
    )


def call(lsn: int, seqval: int, made: Article, operation: Operation) -> ProcedureCall:
    return ProcedureCall(lsn, seqval, made, operation, told(lsn, seqval))


def told(lsn: int, seqval: int) -> Arguments:
    return [f"{lsn}/{seqval}".encode()] * WIDTH


def test_calls_are_ordered_by_commit_then_place_in_transaction() -> None:
    found = OrderedCalls.of(
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
    found = OrderedCalls.of([calls(ORDERS, INSERT, (600, 1)), calls(LINES, INSERT, (500, 9))])
    assert [lsn for lsn, *_ in found] == [500, 600]


def test_a_truncate_keeps_its_place_without_arguments() -> None:
    truncate = Calls(
        ORDERS, Operation.TRUNCATE, np.array([500]), np.array([2]), CallArguments(np.empty((1, 0), dtype=object))
    )
    found = list(OrderedCalls.of([calls(ORDERS, INSERT, (500, 1), (500, 3)), truncate]))
    assert [(operation, arguments) for *_, operation, arguments in found] == [
        (INSERT, told(500, 1)),
        (Operation.TRUNCATE, []),
        (INSERT, told(500, 3)),
    ]


@pytest.mark.parametrize("groups", [[], [calls(ORDERS, INSERT)], [calls(ORDERS, INSERT), calls(LINES, DELETE)]])
def test_no_calls_are_none_in_order(groups: Sequence[Calls]) -> None:
    assert list(OrderedCalls.of(groups)) == []


def test_an_empty_group_among_others_is_passed_over() -> None:
    found = OrderedCalls.of([calls(ORDERS, INSERT), calls(LINES, INSERT, (500, 1)), calls(ORDERS, DELETE)])
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
    assert list(OrderedCalls.of(groups)) == [call(*place, *changes[place]) for place in sorted(changes)]


def inserts(made: Article, *places: tuple[int, int]) -> Calls:
    """Return calls as `calls`, as rows."""
    told_apart = calls(made, INSERT, *places)
    rows = pa.array([[f"{lsn}/{seqval}"] * WIDTH for lsn, seqval in places], pa.list_(pa.string()))
    return Calls(made, INSERT, told_apart.commit_lsn, told_apart.seqval, InsertedRows(rows))


def test_many_inserts_of_one_transaction_are_counted() -> None:
    first = [(1, number) for number in range(LEAST_BULK)]
    second = [(2, number) for number in range(LEAST_BULK + 1)]
    found = OrderedCalls.of([inserts(ORDERS, *first, *second), calls(LINES, INSERT, (2, 3))])

    # The other table's parts the second transaction's in two.
    assert found.count_bulk() == LEAST_BULK
    assert OrderedCalls.of([inserts(ORDERS, *first, *second)]).count_bulk() == 2 * LEAST_BULK + 1
    assert OrderedCalls.of([calls(LINES, INSERT, *second)]).count_bulk() == 0
    assert OrderedCalls.of([]).count_bulk() == 0


def test_transactions_are_found_where_they_begin_and_end() -> None:
    found = OrderedCalls.of([calls(ORDERS, INSERT, (5, 1), (5, 3), (9, 1)), calls(LINES, UPDATE, (5, 2), (7, 1))])

    assert list(found.transactions()) == [(5, 0, 3), (7, 3, 4), (9, 4, 5)]
    assert list(OrderedCalls.of([]).transactions()) == []


def test_the_first_deletes_are_found_in_log_order() -> None:
    found = OrderedCalls.of(
        [
            calls(ORDERS, DELETE, (5, 4), (5, 5)),
            calls(LINES, INSERT, (5, 1)),
            calls(LINES, DELETE, (5, 2), (5, 6)),
        ]
    )
    assert list(found.find_first(DELETE)) == [(LINES, 1), (ORDERS, 2)]
    assert list(found.between(2, 5).find_first(DELETE)) == [(ORDERS, 0), (LINES, 2)]


@given(st.lists(st.sampled_from([0, 0, 0, 1]), max_size=60), st.data())
def test_parts_of_calls_have_the_same_calls(owners: list[int], data: st.DataObject) -> None:
    places = [(number // 3, number, owner) for number, owner in enumerate(owners)]
    whole = OrderedCalls.of(
        [
            inserts(ORDERS, *((lsn, number) for lsn, number, owner in places if owner == 0)),
            calls(LINES, UPDATE, *((lsn, number) for lsn, number, owner in places if owner == 1)),
        ]
    )
    expected = list(whole)
    start = data.draw(st.integers(0, len(places)))
    end = data.draw(st.integers(start, len(places)))
    is_chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(places), max_size=len(places))), dtype=np.bool_)

    assert list(whole.between(start, end)) == expected[start:end]
    assert list(whole.chosen(is_chosen)) == [one for one, chosen in zip(expected, is_chosen, strict=True) if chosen]
    assert [call for _, begun, ended in whole.transactions() for call in whole.between(begun, ended)] == expected


SEVERAL = 10


def cut(lsns: Iterable[int], limits: BatchLimits) -> list[tuple[list[int], Position | None]]:
    """Return the batches that an agent makes of calls with these LSNs, each with what it reached; the last is open."""
    cutter, batches, batch = BatchSplitter(limits), [], list[int]()
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
    assert BatchSplitter(BatchLimits(1, 1)).ends_before(500) is None


def test_limits_count_from_each_batchs_beginning() -> None:
    cutter = BatchSplitter(BatchLimits(SEVERAL, 3))
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
    cutter = BatchSplitter(BatchLimits(10, 30))

    assert cutter.ends_before(1, 20) is None
    assert cutter.ends_before(2, 20) is None
    assert cutter.ends_before(3) == Position(3)
