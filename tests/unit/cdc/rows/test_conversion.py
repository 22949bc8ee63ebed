from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from builders.capture.capture_instances import instance, shape_of, source_table
from builders.log.log_records import TRUNCATE, Change, Image, delete, insert, log_records, update
from rowtide.cdc.change_columns import full_mask, pack_mask
from rowtide.cdc.instances import Instance
from rowtide.cdc.rows.conversion import BaseRows, LsnRange, change_schema, convert_records
from rowtide.cdc.rows.row_images import ImageMalformed
from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import Operation
from rowtide.core.tables import ColumnShape, ImageKind, TableShape
from rowtide.databases.postgres import values as postgres_values

EVERYTHING = LsnRange(0, 1 << 62)


def change_rows(
    columns: Sequence[tuple[str, str]], changes: Sequence[Change], key: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The change rows of one transaction, in order."""
    table = source_table(columns, key=key)
    rows = convert_records(log_records(changes), instance(table=table), shape_of(table), EVERYTHING)
    return rows.to_pylist()


def texts(count: int) -> list[tuple[str, str]]:
    return [(f"c{ordinal}", "text") for ordinal in range(1, count + 1)]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 65, 1024, 1600])
def test_an_update_mask_has_the_bits_of_the_columns_that_changed(count: int) -> None:
    seed = random.Random(count)
    before: Image = ["same"] * count
    changed = [[1], [count], sorted(seed.sample(range(1, count + 1), k=min(count, 5))), list(range(1, count + 1)), []]
    updates = [
        update(before, [None if ordinal in ordinals else "same" for ordinal in range(1, count + 1)])
        for ordinals in changed
    ]

    rows = change_rows(texts(count), updates)

    masks = [row["__$update_mask"] for row in rows]
    assert masks == [mask for ordinals in changed for mask in [pack_mask(ordinals, count)] * 2]
    assert [row["__$operation"] for row in rows] == [3, 4] * len(changed)


def test_inserts_and_deletes_carry_all_bits() -> None:
    rows = change_rows(texts(9), [insert(*"123456789"), delete(*"123456789")])

    assert [(row["__$operation"], row["__$update_mask"]) for row in rows] == [(2, full_mask(9)), (1, full_mask(9))]


def test_a_truncate_is_one_row_without_values() -> None:
    [row] = change_rows([("id", "integer"), ("name", "text"), ("at", "date")], [TRUNCATE], key=["id"])

    assert row == dict.fromkeys(row) | {"__$start_lsn": 100, "__$seqval": 1, "__$operation": 6}


def test_statement_in_the_log_becomes_no_row() -> None:
    assert change_rows(texts(1), [Change(Operation.DDL)]) == []


def test_unlogged_toast_value_is_taken_from_full_before_image() -> None:
    rows = change_rows(texts(4), [update(["a", "long", "x", None], ["b", None, None, None], unsent={1})])

    assert [(row["c1"], row["c2"], row["c3"]) for row in rows] == [("a", "long", "x"), ("b", "long", None)]
    assert {row["__$update_mask"] for row in rows} == {pack_mask([1, 3], 4)}


def test_key_update_is_delete_and_insert_with_one_seqval() -> None:
    columns = [("id", "integer"), ("name", "text")]
    rows = change_rows(columns, [update(["1", "a"], ["2", "a"])], key=["id"])

    assert [(row["__$operation"], row["__$seqval"], row["id"]) for row in rows] == [(1, 1, 1), (2, 1, 2)]
    assert {row["__$update_mask"] for row in rows} == {full_mask(2)}


def test_unlogged_unchanged_key_is_not_a_key_update() -> None:
    rows = change_rows(texts(2), [update(["k", "a"], [None, "b"], unsent={0})], key=["c1"])

    assert [(row["__$operation"], row["c1"], row["c2"]) for row in rows] == [(3, "k", "a"), (4, "k", "b")]


def test_dropped_column_is_null_and_never_in_the_update_mask() -> None:
    table = source_table([("id", "integer"), ("name", "text")])
    columns = (ColumnShape("id", 23, -1, is_key=True, number=1), ColumnShape("later", 25, -1, is_key=True, number=3))
    shape = TableShape(table.source_id, "public", "t1", ImageKind.FULL, columns)

    records = log_records([update(["1", "a"], ["1", "b"])])
    rows = convert_records(records, instance(table=table), shape, EVERYTHING).to_pylist()

    assert [(row["id"], row["name"], row["__$update_mask"]) for row in rows] == [(1, None, bytes(1))] * 2


VALUES = [
    ("integer", "-2147483648", True),
    ("numeric(5,2)", "-999.99", True),
    ("numeric(5,2)", "NaN", False),
    ("date", "0044-03-15 BC", False),
    ("date", "infinity", False),
    ("date", "2026-02-28", True),
    ("timestamp with time zone", "-infinity", False),
    ("timestamp with time zone", "0044-03-15 00:00:00+00 BC", False),
    ("timestamp(3) without time zone", "2026-02-28 23:59:59.999", True),
    ("double precision", "-Infinity", True),
    ("smallint", "70000", False),
]


def test_value_its_type_cannot_hold_is_null_with_its_exact_text() -> None:
    columns = [(f"c{ordinal}", type_text) for ordinal, (type_text, _, _) in enumerate(VALUES, 1)]

    [row] = change_rows(columns, [insert(*(text for _, text, _ in VALUES))])

    assert [row[name] is not None for name, _ in columns] == [fits for _, _, fits in VALUES]
    assert row["__$exact"] == [(ordinal, text) for ordinal, (_, text, fits) in enumerate(VALUES, 1) if not fits]


def test_only_records_of_the_range_become_rows() -> None:
    table = source_table(texts(1), key=())
    records = log_records([insert(value) for value in "abcde"], lsns=[99, 100, 100, 101, 102])

    rows = convert_records(records, instance(table=table), shape_of(table), LsnRange(100, 102))

    assert rows["c1"].to_pylist() == ["b", "c", "d"]


def test_range_without_records_gives_no_rows() -> None:
    table = source_table(texts(2), key=())
    made = instance(table=table)
    records = log_records([insert("a", "b"), update(["a", "b"], ["a", "c"])])

    for given, lsns in ((records, LsnRange(1, 2)), (records.slice(0, 0), EVERYTHING)):
        rows = convert_records(given, made, shape_of(table), lsns)
        assert rows.num_rows == 0
        assert rows.schema == change_schema(made)


@pytest.mark.parametrize(
    "change",
    [insert("x"), insert("x", "y", "z"), delete("x"), update(["x", "y"], ["x"]), update([], ["x", "y"])],
    ids=["one value", "three values", "old row", "new row", "no value"],
)
def test_image_of_another_number_of_values_is_refused(change: Change) -> None:
    with pytest.raises(ImageMalformed, match=r"a row image has \d values, not 2"):
        change_rows(texts(2), [insert("x", "y"), change])


def test_absent_bitmap_of_another_length_is_refused() -> None:
    table = source_table(texts(9), key=())
    image: Image = [None] * 9
    records = log_records([update(image, image, unsent={0}), update(image, image, unsent={0})])
    bitmaps = records.set_column(records.column_names.index("absent"), records.schema.field("absent"), [[b"1", b"123"]])

    with pytest.raises(ImageMalformed, match="a bitmap of absent values has 1 bytes, not 2"):
        convert_records(bitmaps, instance(table=table), shape_of(table), EVERYTHING)


ITEM = instance(table=source_table([("id", "integer"), ("name", "text"), ("price", "numeric(8,2)"), ("seen", "date")]))


def rows_of(lines: bytes, item: Instance = ITEM, **options: Any) -> list[dict[str, Any]]:
    return BaseRows(item, item.columns, CommitLsn(70), **options).convert(lines).to_pylist()


def test_a_row_has_the_snapshots_lsn_and_no_masks() -> None:
    (row,) = rows_of(b"1,tea,1.50,2026-11-26\n")

    assert {name: value for name, value in row.items() if name.startswith("__$")} == {
        "__$start_lsn": 70,
        "__$end_lsn": None,
        "__$seqval": 0,
        "__$operation": 2,
        "__$update_mask": None,
        "__$absent_mask": None,
        "__$exact": None,
    }
    assert (row["id"], row["name"], row["price"]) == (1, "tea", Decimal("1.50"))


def test_null_is_empty_and_an_empty_text_is_quoted() -> None:
    rows = rows_of(b'1,,,\n2,"",1.00,2026-11-26\n3,"a ""b"",\r\nc",,\n')

    assert [row["name"] for row in rows] == [None, "", 'a "b",\r\nc']


def test_a_value_that_its_type_cannot_hold_is_an_exact_text() -> None:
    first, second = rows_of(b"1,tea,1.50,infinity\n5000000000,tea,1.50,2026-11-26\n")

    assert (first["seen"], first["__$exact"]) == (None, [(4, "infinity")])
    assert (second["id"], second["__$exact"]) == (None, [(1, "5000000000")])


def test_retyped_values_of_another_text_are_exact_texts() -> None:
    first, second = rows_of(b"1,tea,1.2345,2026-11-26\n2,tea,1.25,2026-11-26\n", retyped=frozenset({"price"}))

    assert (first["id"], first["price"], first["__$exact"]) == (1, None, [(3, "1.2345")])
    assert (second["price"], second["__$exact"]) == (Decimal("1.25"), None)


def test_values_have_the_types_of_the_base() -> None:
    types = {"id": postgres_values.lake_type("bigint"), "price": postgres_values.lake_type("numeric(14,2)")}

    (row,) = rows_of(b"5000000000,tea,5000000000.25,2026-11-26\n", types=types)

    assert (row["id"], row["price"], row["__$exact"]) == (5_000_000_000, Decimal("5000000000.25"), None)


def test_bytes_that_are_not_utf8_are_marked_digits() -> None:
    first, second = rows_of(b"1,a\xffb,,\n2,tea,,\n", is_utf8=False)

    assert (first["name"], second["name"]) == ("\0x61ff62", "tea")


def test_columns_that_are_not_copied_are_null() -> None:
    row = BaseRows(ITEM, ITEM.columns[:2], CommitLsn(70)).convert(b"1,tea\n").to_pylist()[0]

    assert (row["id"], row["name"], row["price"], row["seen"]) == (1, "tea", None, None)
