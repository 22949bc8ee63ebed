"""Calls come in the log's order, whatever article and operation they are of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from builders.capture.capture_instances import source_table
from builders.replication.articles import article
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.arguments import Arguments, CallArguments, InsertedRows
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
