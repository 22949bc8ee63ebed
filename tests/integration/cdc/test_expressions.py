from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from builders.capture_instances import instance, shape_of, source_table
from builders.conversion_oracle import as_change_rows
from rowtide.core.mask import full_mask, pack_mask
from rowtide.core.operations import Operation
from rowtide.core.tables import ImageKind

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_RECORD = (
    "commit_lsn bigint, commit_time timestamp, seqval bigint, operation tinyint, table_id int, image tinyint, "
    "before array<string>, after array<string>, absent binary"
)

Image = list[str | None]
Record = tuple[Operation, Image | None, Image | None, bytes | None]


def change_rows(
    spark: SparkSession,
    columns: list[tuple[str, str]],
    records: Sequence[Record],
    key: tuple[str, ...] = (),
) -> list[Row]:
    """The change rows of records of one transaction, in order."""
    table = source_table(columns, key=key)
    made, shape = instance(table=table), shape_of(table)
    now = datetime.now(UTC)
    rows = [
        (100, now, seqval, int(operation), 1, int(ImageKind.FULL), before, after, absent)
        for seqval, (operation, before, after, absent) in enumerate(records, 1)
    ]
    changes = as_change_rows(spark.createDataFrame(rows, _RECORD), made, shape)
    return changes.orderBy("`__$seqval`", "`__$operation`").collect()


def texts(count: int) -> list[tuple[str, str]]:
    return [(f"c{ordinal}", "text") for ordinal in range(1, count + 1)]


@pytest.mark.parametrize(
    "count", [1, 7, 8, 9, 65, *(pytest.param(count, marks=pytest.mark.exhaustive) for count in (1024, 1600))]
)
def test_an_update_mask_has_the_bits_of_the_columns_that_changed(spark: SparkSession, count: int) -> None:
    seed = random.Random(count)
    before: Image = ["same"] * count
    changed = [[1], [count], sorted(seed.sample(range(1, count + 1), k=min(count, 5))), list(range(1, count + 1)), []]
    updates: list[Record] = []
    for ordinals in changed:
        after: Image = [None if ordinal in ordinals else "same" for ordinal in range(1, count + 1)]
        updates.append((Operation.UPDATE, before, after, None))

    rows = change_rows(spark, texts(count), updates)

    masks = [bytes(row["__$update_mask"]) for row in rows]
    assert masks == [mask for ordinals in changed for mask in [pack_mask(ordinals, count)] * 2]
    assert [row["__$operation"] for row in rows] == [3, 4] * len(changed)


def test_inserts_and_deletes_carry_all_bits(spark: SparkSession) -> None:
    image: Image = ["1"] * 9
    rows = change_rows(spark, texts(9), [(Operation.INSERT, None, image, None), (Operation.DELETE, image, None, None)])

    assert [(row["__$operation"], bytes(row["__$update_mask"])) for row in rows] == [
        (2, full_mask(9)),
        (1, full_mask(9)),
    ]


def test_a_truncate_is_one_row_without_values(spark: SparkSession) -> None:
    columns = [("id", "integer"), ("name", "text"), ("at", "date")]
    (row,) = change_rows(spark, columns, [(Operation.TRUNCATE, None, None, None)], key=("id",))

    assert row.asDict() == dict.fromkeys(row.asDict()) | {"__$start_lsn": 100, "__$seqval": 1, "__$operation": 6}


def test_unlogged_toast_value_is_taken_from_full_before_image(spark: SparkSession) -> None:
    before: Image = ["a", "long", "x", None]
    after: Image = ["b", None, None, None]
    rows = change_rows(spark, texts(4), [(Operation.UPDATE, before, after, bytes([0b0010]))])

    assert [(row["c1"], row["c2"], row["c3"]) for row in rows] == [("a", "long", "x"), ("b", "long", None)]
    assert {bytes(row["__$update_mask"]) for row in rows} == {pack_mask([1, 3], 4)}


def test_key_update_is_delete_and_insert_with_one_seqval(spark: SparkSession) -> None:
    columns = [("id", "integer"), ("name", "text")]
    rows = change_rows(spark, columns, [(Operation.UPDATE, ["1", "a"], ["2", "a"], None)], key=("id",))

    assert [(row["__$operation"], row["__$seqval"], row["id"]) for row in rows] == [(1, 1, 1), (2, 1, 2)]
    assert {bytes(row["__$update_mask"]) for row in rows} == {full_mask(2)}


def test_unlogged_unchanged_key_is_not_a_key_update(spark: SparkSession) -> None:
    rows = change_rows(spark, texts(2), [(Operation.UPDATE, ["k", "a"], [None, "b"], b"\x01")], key=("c1",))

    assert [(row["__$operation"], row["c1"], row["c2"]) for row in rows] == [(3, "k", "a"), (4, "k", "b")]


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


def test_value_its_type_cannot_hold_is_null_with_its_exact_text(spark: SparkSession) -> None:
    columns = [(f"c{ordinal}", type_text) for ordinal, (type_text, _, _) in enumerate(VALUES, 1)]
    image: Image = [text for _, text, _ in VALUES]

    [row] = change_rows(spark, columns, [(Operation.INSERT, None, image, None)])

    held = [row[name] is not None for name, _ in columns]
    assert held == [fits for _, _, fits in VALUES]
    assert row["__$exact"] == {ordinal: text for ordinal, (_, text, fits) in enumerate(VALUES, 1) if not fits}
