"""Change rows of records that carry rows in part, against the same rules in Python, on random records."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from builders.capture_instances import instance, shape_of, source_table
from builders.conversion_oracle import as_change_rows
from rowtide.cdc.definitions import Instance
from rowtide.core.mask import full_mask, pack_mask
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages, ImageKind, TableShape
from rowtide.databases.source_table import TableKind

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_RECORD = (
    "commit_lsn bigint, seqval bigint, operation tinyint, image tinyint, "
    "before array<string>, after array<string>, absent binary"
)
COLUMNS = [("a", "text"), ("id", "text"), *((f"c{number}", "text") for number in range(3, 12))]
"""Eleven columns, so that masks have two bytes; the key is the second."""

KEY = 1
COUNT = len(COLUMNS)

Image = list[str | None]
ChangeRow = tuple[int, int, bytes | None, Image, bytes | None]
"""seqval, operation, update mask, values, absent mask."""


@dataclass(frozen=True)
class Record:
    """A log record; `unsent` are the places that its after image lacks."""

    operation: Operation
    image: ImageKind
    before: Image | None
    after: Image | None
    unsent: frozenset[int] = frozenset()

    @property
    def absent(self) -> bytes | None:
        bits = sum(1 << place for place in self.unsent)
        return bits.to_bytes((COUNT + 7) // 8, "little") if self.unsent else None


def random_records(chosen: random.Random, count: int) -> Iterator[Record]:
    """What a server sends of updates and deletes, whose old row is the key, the whole row or nothing."""

    def some_row() -> Image:
        row: Image = [chosen.choice([None, "x", "y"]) for _ in range(COUNT)]
        row[KEY] = chosen.choice("pq")
        return row

    for _ in range(count):
        old, new = some_row(), some_row()
        image = chosen.choice(list(ImageKind))
        before = {ImageKind.FULL: old, ImageKind.KEY: [None, old[KEY], *[None] * (COUNT - 2)]}.get(image)
        if chosen.random() < 0.2:
            yield (
                Record(Operation.DELETE, image, before, None)
                if before
                else Record(Operation.INSERT, ImageKind.NONE, None, new)
            )
            continue
        if before is None:
            new[KEY] = old[KEY]
        unsent = frozenset(chosen.sample(range(COUNT), chosen.choice([0, 0, 1, 4])))
        after: Image = [None if place in unsent else value for place, value in enumerate(new)]
        yield Record(Operation.UPDATE, image, before, after, unsent)


def rows_of(seqval: int, record: Record) -> Iterator[ChangeRow]:
    """The rules: what an image lacks the other may have; what neither has is absent; what may have changed is set."""
    everything = set(range(COUNT))
    known_before = {ImageKind.FULL: everything, ImageKind.KEY: {KEY}, ImageKind.NONE: set[int]()}[record.image]
    before: Image = record.before or [None] * COUNT
    if record.operation is Operation.INSERT:
        yield seqval, 2, full_mask(COUNT), record.after or [], None
        return
    if record.operation is Operation.DELETE:
        yield seqval, 1, full_mask(COUNT), before, mask(everything - known_before)
        return
    after = [before[place] if place in record.unsent else value for place, value in enumerate(record.after or [])]
    known_after = everything - record.unsent | known_before
    if record.image is ImageKind.NONE:
        before, known_before = (
            [value if place == KEY else None for place, value in enumerate(after)],
            {KEY} - record.unsent,
        )
    is_move = before[KEY] != after[KEY]
    unchanged = {place for place in known_before if before[place] == after[place]}
    changed = full_mask(COUNT) if is_move else mask(known_after - unchanged) or bytes(2)
    yield seqval, 1 if is_move else 3, changed, before, mask(everything - known_before)
    yield seqval, 2 if is_move else 4, changed, after, mask(everything - known_after)


def mask(places: set[int]) -> bytes | None:
    return pack_mask((place + 1 for place in places), COUNT) if places else None


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, 10))])
def test_logged_values_are_shown_and_absent_ones_are_marked(spark: SparkSession, seed: int) -> None:
    table = source_table(COLUMNS, key=("id",))
    made = instance(table=table, before_images=BeforeImages.KEY)
    records = list(random_records(random.Random(seed), 400))

    shown = show(spark, made, shape_of(table, ImageKind.KEY), records)

    expected = [row for seqval, record in enumerate(records, 1) for row in rows_of(seqval, record)]
    assert shown == expected


def test_partition_old_row_is_whole_only_with_more_than_its_key(spark: SparkSession) -> None:
    table = source_table(COLUMNS[:3], key=("id",), kind=TableKind.PARTITIONED)
    whole, key_alone = [None, "p", "x"], [None, "p", None]
    records = [
        Record(Operation.DELETE, ImageKind.FULL, whole, None),
        Record(Operation.DELETE, ImageKind.FULL, key_alone, None),
        Record(Operation.UPDATE, ImageKind.FULL, key_alone, [None, "q", None], frozenset({2})),
        Record(Operation.TRUNCATE, ImageKind.NONE, None, None),
    ]

    assert show(spark, instance(table=table), shape_of(table), records) == [
        (1, 1, b"\x07", whole, None),
        (2, 1, b"\x07", key_alone, b"\x05"),
        (3, 1, b"\x07", key_alone, b"\x05"),
        (3, 2, b"\x07", [None, "q", None], b"\x04"),
        (4, 6, None, [None, None, None], None),
    ]


def show(spark: SparkSession, made: Instance, shape: TableShape, records: Sequence[Record]) -> list[ChangeRow]:
    """The change rows of records of one transaction, in order."""
    rows = [
        (100, seqval, int(record.operation), int(record.image), record.before, record.after, record.absent)
        for seqval, record in enumerate(records, 1)
    ]
    found = as_change_rows(spark.createDataFrame(rows, _RECORD), made, shape)
    return [as_change_row(row, made) for row in found.orderBy("`__$seqval`", "`__$operation`").collect()]


def as_change_row(row: Row, made: Instance) -> ChangeRow:
    values = [row[column.lake_name] for column in made.columns]
    masks = as_bytes(row["__$update_mask"]), as_bytes(row["__$absent_mask"])
    return row["__$seqval"], row["__$operation"], masks[0], values, masks[1]


def as_bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
