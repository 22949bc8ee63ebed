"""Which stream a call goes to by its row alone: all calls about a row to one, none where a key moves to another."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from builders.capture.capture_instances import source_table
from builders.replication.articles import ANOTHER_ID, ARTICLE_ID, article
from builders.replication.divided_calls import BY_XCALL, ORDERS, histories, insert, row_after, shares_of, update
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.ordered import ProcedureCall
from rowtide.replication.targets.postgres.delivery.streams.division import ArticleForeignKey, SubscriberRules, Unique
from rowtide.replication.targets.postgres.delivery.streams.routes import Routes

PLAIN = SubscriberRules(frozenset({ARTICLE_ID}))
PAIRS = article(source_table([("a", "integer"), ("b", "integer"), ("qty", "integer")], name="pairs", key=("a", "b")))


def keys_of(call: ProcedureCall) -> set[bytes | None]:
    """Return the keys of a call's row, before and after."""
    arguments = call.arguments
    if call.operation is Operation.INSERT:
        return {arguments[0]}
    before = arguments[0] if call.article is BY_XCALL or call.operation is Operation.DELETE else arguments[3]
    return {before} if call.operation is Operation.DELETE else {before, row_after(call, None)[0]}


@given(histories(), st.integers(2, 4))
def test_all_calls_about_a_row_have_one_stream_in_log_order(calls: list[ProcedureCall], streams: int) -> None:
    numbers = Routes(streams).assign(calls)
    if numbers is None:
        moving = [call for call in calls if len(keys_of(call)) == 2]
        assert any(Routes(streams).find(call) is None for call in moving)
        return
    shares = shares_of(calls, numbers)
    streams_of: dict[bytes | None, set[int]] = {}
    for number, share in enumerate(shares):
        assert [id(call) for call in share] == [id(call) for call in calls if any(call is one for one in share)]
        for call in share:
            for key in keys_of(call):
                streams_of.setdefault(key, set()).add(number)
    assert all(len(found) == 1 for found in streams_of.values())
    assert sum(map(len, shares)) == len(calls)


@pytest.mark.parametrize("made", [ORDERS, BY_XCALL])
def test_rows_are_spread_over_all_streams(made: Article) -> None:
    calls = [insert(made, (b"%d" % number, None, None)) for number in range(1000)]
    numbers = Routes(4).assign(calls)

    assert numbers is not None
    assert min(map(len, shares_of(calls, numbers))) > 100


@pytest.mark.parametrize("made", [ORDERS, BY_XCALL])
def test_a_key_that_moves_to_another_stream_has_none(made: Article) -> None:
    routes, keys = Routes(2), [b"%d" % number for number in range(50)]
    first = routes.find(insert(made, (keys[0], None, None)))
    for key in keys[1:]:
        there = routes.find(insert(made, (key, None, None)))
        moved = routes.find(update(made, (keys[0], None, None), (key, None, None)))
        assert moved == (first if there == first else None)


def test_a_part_of_a_key_that_does_not_change_is_the_old_one() -> None:
    routes = Routes(2)
    for number in range(50):
        row, same = [b"1", b"%d" % number], [None, None, b"5", b"1", b"%d" % number, b"\\x04"]
        found = routes.find(ProcedureCall(0, 0, PAIRS, Operation.INSERT, [*row, b"4"]))
        assert routes.find(ProcedureCall(0, 0, PAIRS, Operation.UPDATE, same)) == found
        other = routes.find(ProcedureCall(0, 0, PAIRS, Operation.INSERT, [b"2", b"%d" % number, b"4"]))
        moved = routes.find(ProcedureCall(0, 0, PAIRS, Operation.UPDATE, [b"2", None, None, *row, b"\\x01"]))
        assert moved == (found if other == found else None)


def test_rows_without_key_go_round() -> None:
    table = source_table([("at", "integer"), ("note", "text")], name="history", key=())
    made = article(table, update="NONE", delete="NONE")
    routes = Routes(3)
    found = [routes.find(ProcedureCall(0, 0, made, Operation.INSERT, [b"1", b"same"])) for _ in range(6)]

    assert found == [0, 1, 2, 0, 1, 2]


def test_only_rows_decide_without_other_rules() -> None:
    divisible, reference = PLAIN.divisible, ArticleForeignKey(7, ANOTHER_ID, ("parent",), ARTICLE_ID, ("id",))

    assert PLAIN.are_of_rows
    assert not SubscriberRules(divisible, acting={ARTICLE_ID}).are_of_rows
    assert not SubscriberRules(divisible, uniques={ARTICLE_ID: [Unique(1, ("code",))]}).are_of_rows
    assert not SubscriberRules(divisible, references=[reference]).are_of_rows
