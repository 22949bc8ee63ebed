"""What of rows is added up when copies are compared."""

from __future__ import annotations

import pytest

from builders.capture.capture_instances import source_table
from builders.replication.articles import article
from rowtide.replication.targets.compared_rows import (
    BY_HASH,
    WHOLE,
    Order,
    Ranges,
    Row,
    TextForm,
    as_number,
    bits_of,
    bucket_of,
    divide,
    form_of,
    hash_row,
    make_ranges,
    order_of,
    part_of,
    runs_of,
)

PAIRS = article(source_table((("a", "integer"), ("b", "integer")), key=("b", "a")))
COLUMN = PAIRS.columns[0]
ONES = b"11111111-1111-1111-1111-111111111111"


def test_rows_differing_in_value_boundaries_hash_differently() -> None:
    columns = article(source_table((("a", "text"), ("b", "text")), key=("a",))).columns
    rows: list[Row] = [(b"ab", b"c"), (b"a", b"bc"), (b"abc", None), (None, b"abc"), (b"", b"abc")]

    assert len({hash_row(columns, row) for row in rows}) == len(rows)
    assert -(1 << 63) <= hash_row(columns, (b"1", None)) < 1 << 63


def test_numbers_with_what_only_a_file_may_hold_differ() -> None:
    columns = article(source_table((("a", "integer"), ("b", "integer")), key=("a",))).columns
    rows: list[Row] = [(b"1", b"2"), (b"12", None), (None, b"12"), (b"1,2", None), (b"-", b"2"), (b"", b"2")]

    assert len({hash_row(columns, row) for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        (b"1", b"3ff0000000000000"),
        (b"0", b"0000000000000000"),
        (b"-0", b"0000000000000000"),
        (b"-1e400", b"fff0000000000000"),
        (b"NaN", b"7ff8000000000000"),
        (b"-nan", b"7ff8000000000000"),
        (b"none", b"none"),
    ],
)
def test_floats_are_compared_by_their_bits(text: bytes, bits: bytes) -> None:
    assert bits_of(text) == bits


@pytest.mark.parametrize(
    ("form", "text", "part"),
    [
        (TextForm.PLAIN, b"12", b"12,"),
        (TextForm.PLAIN, None, b"-,"),
        (TextForm.PLAIN, b"-", b"1:-"),
        (TextForm.PLAIN, b"1,2", b"3:1,2"),
        (TextForm.SIZED, b"text", b"4:text"),
        (TextForm.SIZED, None, b"-"),
        (TextForm.BITS, b"-0", b"16:0000000000000000"),
        (TextForm.BITS, None, b"-"),
    ],
)
def test_the_hashed_text_is_the_same_in_every_database(form: TextForm, text: bytes | None, part: bytes) -> None:
    assert part_of(form, text) == part


@pytest.mark.parametrize(
    ("type_text", "form", "order"),
    [
        ("bigint", TextForm.PLAIN, Order.NUMBER),
        ("uuid", TextForm.PLAIN, Order.UUID),
        ("numeric", TextForm.PLAIN, None),
        ("double precision", TextForm.BITS, None),
        ("text", TextForm.SIZED, None),
    ],
)
def test_a_column_is_compared_by_its_type(type_text: str, form: TextForm, order: Order | None) -> None:
    (column,) = article(source_table((("a", type_text),), key=("a",))).columns
    assert (form_of(column), order_of(column)) == (form, order)


def ranges(count: int) -> Ranges:
    return Ranges(COLUMN, Order.NUMBER, range(count))


def test_rows_are_divided_by_the_finest_ranges_or_hashes() -> None:
    assert divide([ranges(40), ranges(50), ranges(45)]) == ranges(50)
    assert divide([ranges(32)]) == ranges(32)
    assert divide([ranges(31)]) == divide([]) == BY_HASH


def test_ranges_between_sampled_values_are_divided_evenly() -> None:
    assert list(make_ranges(COLUMN, Order.NUMBER, [b"64", b"0", b"64"]).bounds) == [*range(65)]
    assert list(make_ranges(COLUMN, Order.NUMBER, [b"-128", b"0"]).bounds) == [*range(-128, 1, 2)]
    assert list(make_ranges(COLUMN, Order.NUMBER, [b"7"]).bounds) == [7]


@pytest.mark.parametrize(
    ("text", "bucket"), [(b"-5", 0), (b"10", 1), (b"19", 1), (b"20", 2), (b"99", 2), (None, 0), (b"ten", 0)]
)
def test_a_range_begins_with_its_bound(text: bytes | None, bucket: int) -> None:
    divided = Ranges(COLUMN, Order.NUMBER, [10, 20])
    assert divided.bucket_of(text) == bucket
    assert bucket_of(PAIRS, divided, (b"11", text)) == bucket


def test_buckets_by_hash_are_those_of_the_keys_hash() -> None:
    keys: list[Row] = [(b"%d" % number, b"%d" % -number) for number in range(100)]
    assert {bucket_of(PAIRS, WHOLE, key) for key in keys} == {0}
    assert [bucket_of(PAIRS, BY_HASH, key) for key in keys] == [
        hash_row(PAIRS.key_columns, key) % BY_HASH.buckets for key in keys
    ]


def test_uuids_are_ordered_as_numbers() -> None:
    assert as_number(Order.UUID, ONES) == int("1" * 32, 16)


def test_adjacent_buckets_are_one_run() -> None:
    assert list(runs_of({5, 1, 2, 3, 7, 8})) == [(1, 3), (5, 5), (7, 8)]
    assert list(runs_of([4])) == [(4, 4)]
