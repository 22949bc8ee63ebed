"""What may go at once: the order that anybody could tell stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from builders.capture.capture_instances import source_table
from builders.replication.articles import ANOTHER_ID, ARTICLE_ID, article
from builders.replication.ordered_calls import numbered
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.arguments import Arguments, InsertedRows
from rowtide.replication.distribution.calls.ordered import Calls, OrderedCalls, ProcedureCall
from rowtide.replication.distribution.calls.runs import MAX_BULK_ROWS, MAX_CALLS, CallRun, RunBuilder

INSERT, UPDATE, DELETE, TRUNCATE = Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.TRUNCATE
TABLE = source_table([("id", "integer"), ("v", "text")], name="orders")
ORDERS = article(TABLE, update="CALL")
LINES = article(TABLE, update="CALL", article_id=ANOTHER_ID)
SEPARATE = {ARTICLE_ID: 1, ANOTHER_ID: 2}
TOGETHER = {ARTICLE_ID: 1, ANOTHER_ID: 1}

Given = tuple[Article, Operation, Arguments]


def insert(made: Article, key: bytes) -> Given:
    return made, INSERT, [key, b"new"]


def update(made: Article, key: bytes, value: bytes = b"x", *, to: bytes | None = None) -> Given:
    return made, UPDATE, [to or key, value, key]


def ordered(calls: Iterable[Given]) -> OrderedCalls:
    return numbered(ProcedureCall(0, 0, *call) for call in calls)


def sets_of(run: CallRun, *, combines: bool = False) -> list[list[Arguments]]:
    return [calls.arguments.rows for calls in run.sets(combines=combines)]


def gather(groups: Mapping[str, int], calls: Iterable[Given]) -> list[tuple[str, Operation, list[list[Arguments]]]]:
    gatherer = RunBuilder(groups)
    runs = [*gatherer.add(ordered(calls)), *gatherer.end()]
    return [(run.article.article_id, run.operation, sets_of(run)) for run in runs]


def test_calls_of_independent_articles_are_grouped_per_article() -> None:
    calls = [insert(ORDERS, b"1"), insert(LINES, b"1"), insert(ORDERS, b"2"), insert(LINES, b"2")]
    both = [[[b"1", b"new"], [b"2", b"new"]]]

    assert gather(SEPARATE, calls) == [(ARTICLE_ID, INSERT, both), (ANOTHER_ID, INSERT, both)]


def test_calls_of_articles_together_keep_their_order() -> None:
    calls = [insert(ORDERS, b"1"), insert(LINES, b"1"), insert(LINES, b"2"), insert(ORDERS, b"2")]

    assert [(owner, len(rounds[0])) for owner, _, rounds in gather(TOGETHER, calls)] == [
        (ARTICLE_ID, 1),
        (ANOTHER_ID, 2),
        (ARTICLE_ID, 1),
    ]


def test_another_operation_ends_a_run() -> None:
    calls = [insert(ORDERS, b"1"), update(ORDERS, b"1"), insert(ORDERS, b"2")]

    assert [operation for _, operation, _ in gather(SEPARATE, calls)] == [INSERT, UPDATE, INSERT]


def test_the_second_update_of_a_row_is_in_the_second_round() -> None:
    calls = [update(ORDERS, b"1", b"a"), update(ORDERS, b"2", b"b"), update(ORDERS, b"1", b"c")]
    first, second, third = (arguments for _, _, arguments in calls)

    assert gather(SEPARATE, calls) == [(ARTICLE_ID, UPDATE, [[first, second], [third]])]


def test_all_key_columns_identify_a_row() -> None:
    pairs = article(source_table([("a", "integer"), ("b", "integer"), ("v", "text")], name="pairs", key=("b", "a")))
    calls: list[Given] = [(pairs, DELETE, [b"1", b"2"]), (pairs, DELETE, [b"2", b"1"]), (pairs, DELETE, [b"1", b"2"])]

    assert [len(calls) for _, _, rounds in gather(SEPARATE, calls) for calls in rounds] == [2, 1]


def test_a_change_of_a_key_is_alone_and_in_its_place() -> None:
    calls = [update(ORDERS, b"1"), update(ORDERS, b"2", to=b"3"), update(ORDERS, b"2")]

    assert gather(SEPARATE, calls) == [(ARTICLE_ID, UPDATE, [[arguments]]) for _, _, arguments in calls]


def test_a_key_that_a_bitmap_call_leaves_out_did_not_change() -> None:
    made = article(TABLE)
    calls: list[Given] = [(made, UPDATE, [None, b"x", key, b"\\x02"]) for key in (b"1", b"2")]

    assert [len(rounds[0]) for _, _, rounds in gather(SEPARATE, calls)] == [2]


def test_a_truncate_ends_all_runs_and_is_alone() -> None:
    calls = [insert(ORDERS, b"1"), insert(LINES, b"1"), (ORDERS, TRUNCATE, []), insert(LINES, b"2")]

    assert [(owner, operation) for owner, operation, _ in gather(SEPARATE, calls)] == [
        (ARTICLE_ID, INSERT),
        (ANOTHER_ID, INSERT),
        (ARTICLE_ID, TRUNCATE),
        (ANOTHER_ID, INSERT),
    ]


def test_an_article_that_nothing_is_known_of_ends_all_runs() -> None:
    calls = [insert(ORDERS, b"1"), insert(LINES, b"1"), insert(ORDERS, b"2")]

    assert [len(rounds[0]) for _, _, rounds in gather({ARTICLE_ID: 1}, calls)] == [1, 1, 1]


def test_a_run_that_is_full_is_given_at_once() -> None:
    gatherer = RunBuilder(SEPARATE)
    full = list(gatherer.add(ordered(insert(ORDERS, b"%d" % number) for number in range(MAX_CALLS))))

    assert [run.count for run in full] == [MAX_CALLS]
    assert gatherer.end() == []


def test_a_run_continues_with_what_is_read_next() -> None:
    gatherer = RunBuilder(SEPARATE)
    assert list(gatherer.add(ordered([update(ORDERS, b"1", b"a"), update(ORDERS, b"2", b"b")]))) == []
    assert list(gatherer.add(ordered([update(ORDERS, b"1", b"c")]))) == []
    (run,) = gatherer.end()

    assert sets_of(run) == [[[b"1", b"a", b"1"], [b"2", b"b", b"2"]], [[b"1", b"c", b"1"]]]
    assert [call.arguments[1] for call in run.calls()] == [b"a", b"b", b"c"]


def test_a_run_that_continues_has_no_more_calls_than_it_may() -> None:
    gatherer = RunBuilder(SEPARATE)
    calls = [insert(ORDERS, b"%d" % number) for number in range(MAX_CALLS + 20)]
    runs = [*gatherer.add(ordered(calls[:20])), *gatherer.add(ordered(calls[20:])), *gatherer.end()]

    assert [run.count for run in runs] == [MAX_CALLS, 20]
    assert [call.arguments for run in runs for call in run.calls()] == [arguments for _, _, arguments in calls]


def rows(made: Article, count: int) -> OrderedCalls:
    """Return inserts whose values stay as the log has them."""
    texts = pa.array([["1", "new"]] * count, pa.list_(pa.string()))
    return OrderedCalls.of([Calls(made, INSERT, np.full(count, 7), np.arange(count), InsertedRows(texts))])


def test_rows_as_logged_stay_so_until_they_are_sent() -> None:
    gatherer = RunBuilder(SEPARATE, bulk={ARTICLE_ID})
    assert list(gatherer.add(rows(ORDERS, MAX_CALLS))) == []
    assert list(gatherer.add(rows(ORDERS, 20))) == []
    (run,) = gatherer.end()

    assert [len(one) for one in run.inserted() or ()] == [MAX_CALLS, 20]


def test_rows_beside_calls_are_not_as_logged() -> None:
    gatherer = RunBuilder(SEPARATE, bulk={ARTICLE_ID})
    assert list(gatherer.add(rows(ORDERS, 20))) == []
    assert list(gatherer.add(ordered([insert(ORDERS, b"2")]))) == []
    (run,) = gatherer.end()

    assert run.inserted() is None
    assert sets_of(run) == [[*[[b"1", b"new"]] * 20, [b"2", b"new"]]]


def test_calls_do_not_follow_more_rows_than_they_may_be() -> None:
    gatherer = RunBuilder(SEPARATE, bulk={ARTICLE_ID})
    assert list(gatherer.add(rows(ORDERS, MAX_CALLS + 1))) == []

    assert [run.count for run in gatherer.add(ordered([insert(ORDERS, b"2")]))] == [MAX_CALLS + 1]


def test_rows_end_a_run_of_updates() -> None:
    gatherer = RunBuilder(TOGETHER)
    assert list(gatherer.add(ordered([update(LINES, b"1")]))) == []

    assert [run.operation for run in gatherer.add(rows(ORDERS, 20))] == [UPDATE]


@pytest.mark.parametrize(("bulk", "most"), [({ARTICLE_ID}, MAX_BULK_ROWS), (set(), MAX_CALLS)])
def test_a_run_of_rows_is_given_when_it_is_full(bulk: set[str], most: int) -> None:
    assert [run.count for run in RunBuilder(SEPARATE, bulk=bulk).add(rows(ORDERS, most))] == [most]


def test_rows_of_an_unknown_article_end_all_runs() -> None:
    gatherer = RunBuilder({ARTICLE_ID: 1})
    assert list(gatherer.add(ordered([insert(ORDERS, b"1")]))) == []

    assert [run.article for run in gatherer.add(rows(LINES, 2))] == [ORDERS, LINES, LINES]


def gather_combined(calls: Iterable[Given]) -> list[list[list[Arguments]]]:
    gatherer = RunBuilder(SEPARATE, {ARTICLE_ID})
    return [sets_of(run, combines=True) for run in [*gatherer.add(ordered(calls)), *gatherer.end()]]


def test_few_rows_that_are_updated_often_are_one_run() -> None:
    calls = [update(ORDERS, b"%d" % (number % 3), b"%d" % number) for number in range(3 * MAX_CALLS)]
    last = [[b"%d" % row, b"%d" % (3 * MAX_CALLS - 3 + row), b"%d" % row] for row in range(3)]

    ((found,),) = gather_combined(calls)
    assert sorted(found) == last


@given(st.lists(st.tuples(st.sampled_from([ORDERS, LINES]), st.sampled_from("iudm"), st.integers(0, 3)), max_size=60))
def test_runs_have_the_result_of_the_calls_in_order(steps: list[tuple[Article, str, int]]) -> None:
    """A row that is inserted twice, or not found, would fail at a subscriber: here, it is not drawn."""
    rows_now: dict[tuple[str, bytes], bytes] = {}
    calls: list[Given] = []
    for number, (made, kind, row) in enumerate(steps):
        key, other, value = b"%d" % row, b"%d" % (row + 4), b"v%d" % number
        present, free = (made.article_id, key) in rows_now, (made.article_id, other) not in rows_now
        if kind == "i" and not present:
            calls.append((made, INSERT, [key, value]))
        elif kind == "u" and present:
            calls.append(update(made, key, value))
        elif kind == "m" and present and free:
            calls.append(update(made, key, value, to=other))
        elif kind == "d" and present:
            calls.append((made, DELETE, [key]))
        else:
            continue
        run_at(rows_now, *calls[-1])
    found: dict[tuple[str, bytes], bytes] = {}
    gatherer = RunBuilder(SEPARATE, {ARTICLE_ID})
    cut = len(calls) // 2
    for run in [*gatherer.add(ordered(calls[:cut])), *gatherer.add(ordered(calls[cut:])), *gatherer.end()]:
        for one in run.sets(combines=run.article is ORDERS and run.operation is UPDATE):
            keys = [arguments[-1] if run.operation is UPDATE else arguments[0] for arguments in one.arguments.rows]
            assert len(set(keys)) == len(keys)
            for arguments in one.arguments.rows:
                run_at(found, run.article, run.operation, arguments)

    assert found == rows_now


def run_at(rows_now: dict[tuple[str, bytes], bytes], made: Article, operation: Operation, values: Arguments) -> None:
    """Run a call as a subscriber does; an insert of a row that is there, or a change of one that is not, fails."""
    old = (made.article_id, values[-1] if operation is UPDATE else values[0] or b"")
    if operation is INSERT:
        assert old not in rows_now
    else:
        del rows_now[made.article_id, old[1] or b""]
    if operation is not DELETE:
        key, value = values[0], values[1]
        assert key is not None
        assert value is not None
        rows_now[made.article_id, key] = value


def test_updates_of_a_row_are_combined_to_the_last_values() -> None:
    calls = [update(ORDERS, b"1", b"a"), update(ORDERS, b"2", b"b"), update(ORDERS, b"1", b"c")]

    assert gather_combined(calls) == [[[[b"1", b"c", b"1"], [b"2", b"b", b"2"]]]]


def test_combined_updates_have_the_columns_of_each() -> None:
    made = article(source_table([("id", "integer"), *((f"c{number}", "text") for number in range(9))], name="orders"))

    def changed(**values: bytes | None) -> Given:
        arguments: Arguments = [None, *(values.get(f"c{number}") for number in range(9)), b"1"]
        bits = sum(2 << number for number in range(9) if f"c{number}" in values)
        return made, UPDATE, [*arguments, b"\\x" + bits.to_bytes(2, "little").hex().encode()]

    steps = [changed(c0=b"a", c1=b"b"), changed(c1=None, c8=b"z"), changed(c0=b"c")]
    assert gather_combined(steps) == [[[changed(c0=b"c", c1=None, c8=b"z")[2]]]]


def test_a_change_of_a_key_is_not_combined() -> None:
    calls = [update(ORDERS, b"1"), update(ORDERS, b"1", to=b"2"), update(ORDERS, b"1")]

    assert [len(run) for run in gather_combined(calls)] == [1, 1, 1]


def test_deletes_of_a_row_are_not_combined() -> None:
    calls: list[Given] = [(ORDERS, DELETE, [b"1"]), (ORDERS, DELETE, [b"1"])]

    assert gather_combined(calls) == [[[[b"1"]], [[b"1"]]]]
