"""What may go at once: the order that anybody could tell stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from builders.capture.capture_instances import source_table
from builders.replication.articles import ANOTHER_ID, ARTICLE_ID, article
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.batches import (
    MAX_BLOCK_ROWS,
    MAX_CALLS,
    Block,
    CallSequence,
    Gatherer,
    ProcedureCall,
)
from rowtide.replication.distribution.calls.encoding import Arguments, InsertedRows

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


def gather(groups: Mapping[str, int], calls: Iterable[Given]) -> list[tuple[str, Operation, list[list[Arguments]]]]:
    gatherer = Gatherer(groups)
    runs: list[CallSequence] = [run for call in calls for run in gatherer.add(ProcedureCall(0, 0, *call))]
    return [
        (run.article.article_id, run.operation, [[call.arguments for call in calls] for calls in run.rounds])
        for run in [*runs, *gatherer.end()]
    ]


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
    gatherer = Gatherer(SEPARATE)
    full = [
        run for number in range(MAX_CALLS) for run in gatherer.add(ProcedureCall(0, 0, *insert(ORDERS, b"%d" % number)))
    ]

    assert [run.calls for run in full] == [MAX_CALLS]
    assert gatherer.end() == []


def block(made: Article, count: int) -> Block:
    rows = pa.array([["1", "new"]] * count, pa.list_(pa.string()))
    return Block(7, np.arange(count), made, InsertedRows(rows))


def test_a_block_continues_a_run_and_ends_it_for_calls() -> None:
    gatherer = Gatherer(SEPARATE)
    assert not gatherer.add(ProcedureCall(0, 0, *insert(ORDERS, b"1")))
    assert not gatherer.add_block(block(ORDERS, 20))
    (first,) = gatherer.add(ProcedureCall(0, 0, *insert(ORDERS, b"2")))

    assert (first.calls, len(first.rounds[0]), len(first.blocks)) == (21, 1, 1)
    assert [run.calls for run in gatherer.end()] == [1]


def test_a_block_ends_a_run_of_updates() -> None:
    gatherer = Gatherer(TOGETHER)
    gatherer.add(ProcedureCall(0, 0, *update(LINES, b"1")))

    assert [run.operation for run in gatherer.add_block(block(ORDERS, 20))] == [UPDATE]


def test_a_run_of_blocks_is_given_when_it_is_full() -> None:
    assert [run.calls for run in Gatherer(SEPARATE).add_block(block(ORDERS, MAX_BLOCK_ROWS))] == [MAX_BLOCK_ROWS]


def test_a_block_of_an_unknown_article_ends_all_runs() -> None:
    gatherer = Gatherer({ARTICLE_ID: 1})
    gatherer.add(ProcedureCall(0, 0, *insert(ORDERS, b"1")))

    assert [run.article for run in gatherer.add_block(block(LINES, 20))] == [ORDERS, LINES]


def gather_folded(calls: Iterable[Given]) -> list[list[list[Arguments]]]:
    gatherer = Gatherer(SEPARATE, {ARTICLE_ID})
    runs = [run for call in calls for run in gatherer.add(ProcedureCall(0, 0, *call))]
    return [[[call.arguments for call in calls] for calls in run.rounds] for run in [*runs, *gatherer.end()]]


def test_updates_of_a_row_are_folded_to_the_last_values() -> None:
    calls = [update(ORDERS, b"1", b"a"), update(ORDERS, b"2", b"b"), update(ORDERS, b"1", b"c")]

    assert gather_folded(calls) == [[[[b"1", b"c", b"1"], [b"2", b"b", b"2"]]]]


def test_folded_updates_have_the_columns_of_each() -> None:
    made = article(source_table([("id", "integer"), *((f"c{number}", "text") for number in range(9))], name="orders"))

    def changed(**values: bytes | None) -> Given:
        arguments: Arguments = [None, *(values.get(f"c{number}") for number in range(9)), b"1"]
        bits = sum(2 << number for number in range(9) if f"c{number}" in values)
        return made, UPDATE, [*arguments, b"\\x" + bits.to_bytes(2, "little").hex().encode()]

    steps = [changed(c0=b"a", c1=b"b"), changed(c1=None, c8=b"z"), changed(c0=b"c")]
    assert gather_folded(steps) == [[[changed(c0=b"c", c1=None, c8=b"z")[2]]]]


def test_a_change_of_a_key_is_not_folded() -> None:
    calls = [update(ORDERS, b"1"), update(ORDERS, b"1", to=b"2"), update(ORDERS, b"1")]

    assert [len(run) for run in gather_folded(calls)] == [1, 1, 1]


def test_deletes_of_a_row_are_not_folded() -> None:
    calls: list[Given] = [(ORDERS, DELETE, [b"1"]), (ORDERS, DELETE, [b"1"])]

    assert gather_folded(calls) == [[[[b"1"]], [[b"1"]]]]
