"""Which calls stay in one stream: those that depend on each other, as far as their arguments say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from builders.capture.capture_instances import source_table
from builders.replication.articles import ANOTHER_ID, ARTICLE_ID, article
from builders.replication.divided_calls import (
    BY_XCALL,
    ORDERS,
    TABLE,
    delete,
    histories,
    insert,
    row_after,
    shares_of,
    update,
)
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.ordered import ProcedureCall
from rowtide.replication.targets.postgres.delivery.streams.division import (
    NOTHING,
    ArticleForeignKey,
    ColumnReader,
    Division,
    SubscriberRules,
    Touched,
    Unique,
    Unknown,
)

INSERT, UPDATE, DELETE, TRUNCATE = Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.TRUNCATE
LINES = article(TABLE, article_id=ANOTHER_ID)
BOTH = frozenset({ARTICLE_ID, ANOTHER_ID})
PLAIN = SubscriberRules(BOTH)
CODES = SubscriberRules(BOTH, uniques={ARTICLE_ID: [Unique(1, ("code",))]})
LINES_OF_ORDERS = SubscriberRules(BOTH, references=[ArticleForeignKey(7, ANOTHER_ID, ("parent",), ARTICLE_ID, ("id",))])


def divide(rules: SubscriberRules, calls: Sequence[ProcedureCall], streams: int) -> list[list[ProcedureCall]]:
    """Return the calls of each stream, in log order."""
    return shares_of(calls, Division(rules).assign(calls, streams))


def apart(rules: SubscriberRules, *calls: ProcedureCall) -> int:
    """Return the number of streams that calls are divided among."""
    return len(divide(rules, calls, 8))


@pytest.mark.parametrize("made", [ORDERS, BY_XCALL])
def test_calls_for_one_row_stay_together_through_key_changes(made: Article) -> None:
    calls = [
        insert(made, (b"1", b"a", None)),
        update(made, (b"1", b"a", None), (b"2", b"a", None)),
        update(made, (b"2", b"a", None), (b"2", b"b", None)),
        delete(made, (b"2", b"b", None)),
        insert(made, (b"3", b"a", None)),
    ]
    assert divide(PLAIN, calls, 8) == [calls[:4], calls[4:]]


@pytest.mark.parametrize("column", [0, 7, 8, 9])
def test_a_bitmap_says_of_each_column_whether_it_changed(column: int) -> None:
    table = source_table([(f"col{number}", "integer") for number in range(10)], name="ten", key=("col1",))
    bits = bytearray(2)
    bits[column // 8] |= 1 << column % 8
    given = [*(b"1" if place == column else None for place in range(10)), b"key", b"\\x" + bits.hex().encode()]
    read = {place: ColumnReader(article(table), UPDATE, [place]).read(given) for place in range(10)}

    assert [place for place, touched in read.items() if touched != NOTHING] == [column]
    assert read[column].after == (b"1",)


def test_the_old_key_of_an_update_is_read_in_the_columns_order() -> None:
    pairs = article(source_table([("a", "text"), ("b", "text"), ("v", "text")], name="pairs", key=("b", "a")))
    given = [None, None, b"new", b"of b", b"of a", b"\\x04"]

    assert ColumnReader(pairs, UPDATE, [0, 1]).read_old(given) == (b"of a", b"of b")
    assert ColumnReader(pairs, UPDATE, [0, 1]).read(given) == NOTHING
    assert ColumnReader(pairs, UPDATE, [0, 2]).read_old(given) is Unknown.VALUES


def test_values_of_which_some_are_unknown_may_have_changed() -> None:
    changed = update(ORDERS, (b"1", b"a", b"6"), (b"1", b"a", b"7"))

    assert ColumnReader(ORDERS, UPDATE, [1, 2]).read(changed.arguments) == Touched(Unknown.VALUES, Unknown.VALUES)


def test_streams_are_balanced_however_many_calls_a_row_has() -> None:
    often = [update(ORDERS, (b"1", b"a", None), (b"1", b"%d" % number, None)) for number in range(3)]
    others = [insert(ORDERS, (b"%d" % number, None, None)) for number in (2, 3, 4)]

    assert divide(PLAIN, [*often, *others], 2) == [often, others]


def test_streams_get_the_same_number_of_calls_in_log_order() -> None:
    calls = [insert(ORDERS, (b"%d" % number, None, None)) for number in range(10)]

    assert [len(share) for share in divide(PLAIN, calls, 3)] == [4, 3, 3]
    assert all(list(share) == sorted(share, key=calls.index) for share in divide(PLAIN, calls, 3))


def test_a_unique_value_that_moves_joins_its_rows() -> None:
    moves = [
        update(BY_XCALL, (b"1", b"a", None), (b"1", b"b", None)),
        update(BY_XCALL, (b"2", b"c", None), (b"2", b"a", None)),
    ]
    assert (apart(PLAIN, *moves), apart(CODES, *moves)) == (2, 1)
    assert apart(CODES, *moves, update(BY_XCALL, (b"3", b"d", None), (b"3", b"e", None))) == 2


def test_an_unknown_unique_value_joins_all_that_bring_one() -> None:
    freed = delete(ORDERS, (b"1", b"a", None))
    changed = update(ORDERS, (b"2", b"b", None), (b"2", b"c", None))
    brought = insert(ORDERS, (b"3", b"d", None))
    untouched = update(ORDERS, (b"4", b"e", None), (b"4", b"e", b"7"))

    assert apart(CODES, freed, brought, untouched) == 2
    assert apart(CODES, changed, brought, untouched) == 2
    # Nothing is brought: nothing collides.
    assert apart(CODES, freed, delete(ORDERS, (b"5", b"f", None)), untouched) == 3


def test_nulls_collide_only_where_the_index_says_so() -> None:
    calls = [insert(ORDERS, (b"1", None, None)), insert(ORDERS, (b"2", None, None))]
    colliding = SubscriberRules(BOTH, uniques={ARTICLE_ID: [Unique(1, ("code",), nulls_collide=True)]})

    assert (apart(CODES, *calls), apart(colliding, *calls)) == (2, 1)


def test_an_index_of_expressions_keeps_its_table_in_one_stream() -> None:
    rules = SubscriberRules(BOTH, uniques={ARTICLE_ID: [Unique(1, None)]})
    calls = [insert(ORDERS, (b"1", b"a", None)), insert(ORDERS, (b"2", b"b", None)), insert(LINES, (b"1", None, None))]

    assert apart(rules, *calls) == 2


def test_rows_stay_with_the_rows_of_the_batch_that_they_refer_to() -> None:
    parents = [insert(ORDERS, (b"1", None, None)), insert(ORDERS, (b"2", None, None))]
    children = [insert(LINES, (b"%d" % number, None, b"1")) for number in range(3)]

    assert divide(LINES_OF_ORDERS, [*parents, *children], 8) == [[parents[0], *children], [parents[1]]]
    # Of a parent that the batch does not change, each may go alone.
    assert apart(LINES_OF_ORDERS, *children) == 3


def test_deleted_parents_stay_with_children_of_unknown_parents() -> None:
    gone = [delete(LINES, (b"1", None, b"1")), delete(ORDERS, (b"1", None, None))]

    assert apart(LINES_OF_ORDERS, *gone) == 1
    assert apart(LINES_OF_ORDERS, gone[0], insert(ORDERS, (b"2", None, None))) == 2


def test_deleted_unknown_parents_stay_with_all_children() -> None:
    by_code = SubscriberRules(BOTH, references=[ArticleForeignKey(7, ANOTHER_ID, ("code",), ARTICLE_ID, ("code",))])
    gone, child = delete(ORDERS, (b"1", b"a", None)), insert(LINES, (b"1", b"a", None))

    assert apart(by_code, gone, child, insert(LINES, (b"2", None, None))) == 1
    assert apart(by_code, child, insert(LINES, (b"2", b"a", None))) == 2


def test_rows_with_unknown_parents_stay_with_new_parents() -> None:
    names = ("code", "parent")
    by_both = SubscriberRules(BOTH, references=[ArticleForeignKey(7, ANOTHER_ID, names, ARTICLE_ID, names)])
    parent, moved = insert(ORDERS, (b"1", b"a", b"7")), update(LINES, (b"5", b"a", b"6"), (b"5", b"a", b"7"))

    assert apart(by_both, parent, moved) == 1
    assert apart(by_both, moved, update(LINES, (b"6", b"a", b"6"), (b"6", b"a", b"7"))) == 2


def test_what_may_not_run_beside_others_is_known() -> None:
    only_lines = Division(SubscriberRules(frozenset({ANOTHER_ID})))
    acting = Division(SubscriberRules(BOTH, acting={ARTICLE_ID}))
    row, moved = (b"1", b"a", None), (b"2", b"a", None)

    assert not only_lines.is_divisible(insert(ORDERS, row))
    assert only_lines.is_divisible(insert(LINES, row))
    assert not only_lines.is_divisible(ProcedureCall(0, 0, LINES, TRUNCATE, []))
    assert [acting.is_divisible(call) for call in (insert(ORDERS, row), delete(ORDERS, row))] == [True, False]
    assert acting.is_divisible(update(ORDERS, row, (b"1", b"b", None)))
    assert not acting.is_divisible(update(ORDERS, row, moved))


@given(histories(), st.integers(2, 4), st.data())
def test_any_order_between_streams_keeps_every_row_and_value(
    calls: list[ProcedureCall], streams: int, data: st.DataObject
) -> None:
    shares = divide(CODES, calls, streams)
    in_log_order = state_after(calls)
    ahead = [0] * len(shares)
    merged: list[ProcedureCall] = []
    while len(merged) < len(calls):
        waiting = [number for number, share in enumerate(shares) if ahead[number] < len(share)]
        chosen = data.draw(st.sampled_from(waiting))
        merged.append(shares[chosen][ahead[chosen]])
        ahead[chosen] += 1

    assert state_after(merged) == in_log_order


def state_after(calls: Sequence[ProcedureCall]) -> dict[bytes | None, bytes | None]:
    """Return the codes by key; a call that finds no row, or a value that is taken, fails as at a server."""
    codes: dict[bytes | None, bytes | None] = {}
    for call in calls:
        arguments = call.arguments
        before = None
        if call.operation is not INSERT:
            before = codes.pop(arguments[0] if call.article is BY_XCALL or len(arguments) == 1 else arguments[3])
        if call.operation is DELETE:
            continue
        key, code = row_after(call, before)
        assert key not in codes
        assert code is None or code not in codes.values()
        codes[key] = code
    return codes
