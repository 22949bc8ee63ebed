"""Which parent is stored with a row: chains of them end at a row that belongs without one."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from rowtide.merge.articles import Article, ArticleColumn, FilterType, JoinFilter
from rowtide.merge.partitions import belonging
from rowtide.merge.partitions.belonging import PackedRowguids, RowguidSet, choose_parents, link_members
from rowtide.merge.partitions.logical_records import column_pairs, find_record_types


def test_the_parent_nearest_to_a_row_by_itself_is_chosen() -> None:
    # d follows c and a, c follows b, b follows a, and a belongs by itself.
    found = {"d": ("c", "a"), "c": ("b",), "b": ("a",)}

    assert choose_parents(found) == {"b": "a", "c": "b", "d": "a"}


def test_rows_in_a_circle_lead_out_of_it() -> None:
    found = {"a": ("b", "top"), "b": ("a", "c"), "c": ("b",)}

    assert choose_parents(found) == {"a": "top", "b": "a", "c": "b"}


@given(st.lists(st.lists(st.uuids().map(str) | st.just("none") | st.uuids().map(str).map(str.upper), max_size=4)))
def test_packed_rowguids_come_back_as_they_were(batches: list[list[str]]) -> None:
    packed = PackedRowguids()
    for batch in batches:
        packed.add(batch)
    assert sorted(packed) == sorted(rowguid for batch in batches for rowguid in batch)


def test_all_rows_of_a_partition_are_linked() -> None:
    customers: list[tuple[str, tuple[str, ...]]] = [("a", ()), ("b", ("a",))]

    found = link_members({"customer": customers, "orders": [("o", ("b",))]})
    assert found == {"customer": [("a", None), ("b", "a")], "orders": [("o", "b")]}


def article(table: str, nickname: int, *columns: str, parent: str | None = None, condition: str = "") -> Article:
    made = tuple(ArticleColumn(name, "integer", is_nullable=True, key_ordinal=None) for name in columns)
    found = Article(table, "", table, nickname, made, processing_order=nickname)
    if parent is None:
        return found
    return replace(found, join_filters=(JoinFilter(parent, condition, filter_type=FilterType.RECORD),))


ORDERS = article("orders", 1, "id", "note")
LINE = article("line", 2, "number", "order_id", parent="orders", condition="orders.id = line.order_id")
PARCEL = article(
    "parcel",
    3,
    "order_id",
    "number",
    parent="line",
    condition="parcel.order_id = line.order_id and parcel.number = line.number",
)
OTHER = article("customer", 4, "id")


def test_a_record_has_all_articles_that_are_linked() -> None:
    (kind,) = find_record_types([ORDERS, LINE, PARCEL, OTHER])

    assert kind.articles == (ORDERS, LINE, PARCEL)
    assert [link.pairs for link in kind.links] == [((1, 0),), ((0, 1), (1, 0))]
    assert kind.leaves == {3}


def test_join_filters_alone_make_no_records() -> None:
    joined = replace(LINE, join_filters=(JoinFilter("orders", "line.order_id = orders.id"),))

    assert find_record_types([ORDERS, joined]) == ()


@pytest.mark.parametrize(
    "condition", ["line.order_id > orders.id", "line.order_id = orders.id or line.number = 1", "line.order_id = 1"]
)
def test_a_link_says_that_columns_are_equal_only(condition: str) -> None:
    assert column_pairs(LINE, ORDERS, condition) is None


def test_a_set_of_rowguids_has_what_was_added_alone() -> None:
    numbers = [str(UUID(int=number)) for number in (0, 1, 256, 1 << 64, (1 << 128) - 1)]
    held = RowguidSet()
    held.add(numbers[::2])
    held.add(["no rowguid", numbers[1]])
    assert all(held.find([*numbers[:3], numbers[4], "no rowguid"]))
    assert all(held.find([*numbers[:3], numbers[4]]))
    assert not any(held.find([numbers[3], numbers[4].upper(), "", "other", numbers[0][:-1]]))


def test_rowguids_of_one_bucket_are_told_apart() -> None:
    """Of two in one bucket, bytes of the first and bytes of the second may look like a third one."""
    joined = bytes(range(32))
    apart = [str(UUID(bytes=joined[:16])), str(UUID(bytes=joined[16:]))]
    between = str(UUID(bytes=joined[8:24]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(belonging, "_BUCKETS", 1)
        held = RowguidSet()
        held.add(apart)
        assert [*held.find([*apart, between])] == [True, True, False]
        held.add([between])
        assert [*held.find([*apart, between])] == [True, True, True]


def test_a_set_of_rowguids_takes_little_memory() -> None:
    numbers = [str(UUID(int=number << 64 | number)) for number in range(200_000)]
    tracemalloc.start()
    try:
        held = RowguidSet()
        held.add(numbers)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(held.find(numbers))
    assert taken < 80 * len(numbers)
