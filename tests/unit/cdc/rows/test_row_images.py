"""Change rows of records that carry rows in part, compared with the same rules in Python, on random records."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from builders.capture.capture_instances import instance, shape_of, source_table
from builders.log.log_records import TRUNCATE, Change, Image, delete, insert, log_records, update
from rowtide.cdc.change_columns import full_mask, pack_mask
from rowtide.cdc.instances import Instance
from rowtide.cdc.rows.conversion import LsnRange, convert_records
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages, ImageKind, TableShape
from rowtide.databases.source_table import TableKind

COLUMNS = [("a", "text"), ("id", "text"), *((f"c{number}", "text") for number in range(3, 12))]
"""Eleven columns, so that masks have two bytes; the key is the second."""

KEY = 1
COUNT = len(COLUMNS)

ChangeRow = tuple[int, int, bytes | None, Image, bytes | None]
"""seqval, operation, update mask, values, absent mask."""


def random_changes(chosen: random.Random, count: int) -> Iterator[Change]:
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
            yield Change(Operation.DELETE, image, before) if before else insert(*new)
            continue
        if before is None:
            new[KEY] = old[KEY]
        unsent = chosen.sample(range(COUNT), chosen.choice([0, 0, 1, 4]))
        after: Image = [None if place in unsent else value for place, value in enumerate(new)]
        yield Change(Operation.UPDATE, image, before, after, unsent)


def rows_of(seqval: int, record: Change) -> Iterator[ChangeRow]:
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
    known_after = everything - set(record.unsent) | known_before
    if record.image is ImageKind.NONE:
        before, known_before = (
            [value if place == KEY else None for place, value in enumerate(after)],
            {KEY} - set(record.unsent),
        )
    is_move = before[KEY] != after[KEY]
    unchanged = {place for place in known_before if before[place] == after[place]}
    changed = full_mask(COUNT) if is_move else mask(known_after - unchanged) or bytes(2)
    yield seqval, 1 if is_move else 3, changed, before, mask(everything - known_before)
    yield seqval, 2 if is_move else 4, changed, after, mask(everything - known_after)


def mask(places: set[int]) -> bytes | None:
    return pack_mask((place + 1 for place in places), COUNT) if places else None


@pytest.mark.parametrize("seed", range(10))
def test_logged_values_are_shown_and_absent_ones_are_marked(seed: int) -> None:
    table = source_table(COLUMNS, key=("id",))
    made = instance(table=table, before_images=BeforeImages.KEY)
    records = list(random_changes(random.Random(seed), 400))

    shown = show(made, shape_of(table, ImageKind.KEY), records)

    expected = [row for seqval, record in enumerate(records, 1) for row in rows_of(seqval, record)]
    assert shown == expected


def test_partition_old_row_is_whole_only_with_more_than_its_key() -> None:
    table = source_table(COLUMNS[:3], key=("id",), kind=TableKind.PARTITIONED)
    whole, key_alone = [None, "p", "x"], [None, "p", None]
    records = [
        delete(*whole),
        delete(*key_alone),
        update(key_alone, [None, "q", None], unsent={2}),
        TRUNCATE,
    ]

    assert show(instance(table=table), shape_of(table), records) == [
        (1, 1, b"\x07", whole, None),
        (2, 1, b"\x07", key_alone, b"\x05"),
        (3, 1, b"\x07", key_alone, b"\x05"),
        (3, 2, b"\x07", [None, "q", None], b"\x04"),
        (4, 6, None, [None, None, None], None),
    ]


def show(made: Instance, shape: TableShape, records: Sequence[Change]) -> list[ChangeRow]:
    """The change rows of records of one transaction, in order."""
    found = convert_records(log_records(records), made, shape, LsnRange(100, 101)).to_pylist()
    names = [column.lake_name for column in made.columns]
    return [
        (
            row["__$seqval"],
            row["__$operation"],
            row["__$update_mask"],
            [row[name] for name in names],
            row["__$absent_mask"],
        )
        for row in found
    ]
