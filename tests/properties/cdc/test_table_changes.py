"""The changes of a table over two instances: columns renamed, dropped and added, any window, compared row by row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from builders.capture.capture_instances import instance, source_table
from builders.lakes.made_lakes import MadeLake
from builders.lakes.moved_values import with_moved_values
from builders.log.random_records import TYPES, Logged, random_records
from builders.values.arrow_rows import assert_same_rows
from rowtide.cdc import change_columns
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.rows.conversion import LsnRange, convert_records
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages, ColumnShape, ImageKind, TableShape
from rowtide.databases.source_table import SourceColumn, SourceTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERYTHING = LsnRange(0, 1 << 62)
LONG = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 40)]
RECORDS = 400
FIRST_LSN, LAST_LSN = 100, 100 + RECORDS // 50
OPTIONS = {"all": (1, 2, 4, 6), "all update old": (1, 2, 3, 4, 6)}
NAMES = ("a", "A", "b c", "a_2", "straße", "x%20y", "select")
OLD, NEW = "public_t1", "public_t1_new"

LsnWindow = tuple[CommitLsn | None, CommitLsn | None]


@dataclass(frozen=True)
class Switched:
    """A lake in which a table got a second instance at an LSN, and the rows of both, moved ones with their values."""

    lake: str
    older: Instance
    newer: Instance
    low: int
    rows: tuple[pa.Table, pa.Table]


@pytest.fixture(params=[0, 1, 2, *LONG])
def chosen(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def test_table_changes_are_each_instance_s_in_its_columns(tmp_path: Path, chosen: random.Random) -> None:
    made = random_lake(chosen, tmp_path / "lake")
    for window in random_windows(chosen, made.low):
        for option in OPTIONS:
            found = Lake(made.lake).get_table_changes([OLD, NEW], *window, option).to_arrow().read_all()
            assert_same_rows(found, expect(made, window, option), (window, option))


@pytest.mark.exhaustive
def test_table_changes_in_spark_are_the_same(spark: SparkSession, tmp_path: Path, chosen: random.Random) -> None:
    made = random_lake(chosen, tmp_path / "lake")
    for window in random_windows(chosen, made.low):
        for option in OPTIONS:
            found, _ = Changes(spark, made.lake).get_table_changes([OLD, NEW], *window, option)
            assert_same_rows(found.toArrow(), expect(made, window, option), (window, option))


def random_lake(chosen: random.Random, folder: Path) -> Switched:
    """Make a lake of two instances of a table; from the low endpoint of the newer one on both have rows."""
    before = source_table([("id", "integer"), *((name, chosen.choice(TYPES)) for name in random_names(chosen))])
    after = alter_randomly(chosen, before)
    older, newer = (log_randomly(chosen, table, name) for table, name in ((before, OLD), (after, NEW)))
    low = chosen.randint(FIRST_LSN + 1, LAST_LSN)
    rows = (
        convert_records(random_records(chosen, older, RECORDS), older.instance, older.shape, EVERYTHING),
        between(convert_records(random_records(chosen, newer, RECORDS), newer.instance, newer.shape, EVERYTHING), low),
    )
    made = MadeLake(folder)
    made.enable(older.instance, FIRST_LSN, is_mapped=chosen.random() < 0.5)
    for lsn in range(FIRST_LSN, LAST_LSN + 1):
        if lsn == low:
            made.enable(newer.instance, low, is_mapped=chosen.random() < 0.5)
        both = zip((older.instance, newer.instance), rows, strict=True)
        parts = [(one, [between(found, lsn, lsn)]) for one, found in both if lsn >= low or one is older.instance]
        made.publish(*parts, lsns=[lsn])
    older_rows, newer_rows = rows
    completed = with_moved_values(older_rows, older.instance), with_moved_values(newer_rows, newer.instance)
    return Switched(made.path, older.instance, newer.instance, low, completed)


def random_names(chosen: random.Random) -> list[str]:
    return chosen.sample(NAMES, chosen.randint(1, len(NAMES)))


def alter_randomly(chosen: random.Random, table: SourceTable) -> SourceTable:
    """Drop, rename and add columns; what is added may have the name of what is gone."""
    first, *others = table.columns
    kept = [column for column in others if chosen.random() < 0.7]
    added = [
        replace(first, number=len(table.columns) + number, type_text=chosen.choice(TYPES), key_ordinal=None)
        for number in range(1, chosen.randint(1, 4))
    ]
    free = [name for name in NAMES if name not in {column.name for column in kept}]
    chosen.shuffle(free)
    renamed = [replace(one, name=free.pop()) if free and chosen.random() < 0.2 else one for one in kept]
    named = [replace(one, name=free.pop() if free else f"more {one.number}") for one in added]
    return replace(table, columns=(first, *renamed, *named))


def log_randomly(chosen: random.Random, table: SourceTable, name: str) -> Logged:
    before_images = chosen.choice([BeforeImages.FULL, BeforeImages.KEY])
    made = instance(name, table=table, name=name, before_images=before_images)
    identity = ImageKind.KEY if before_images is BeforeImages.KEY else ImageKind.FULL
    shape = TableShape(table.source_id, table.schema, table.name, identity, tuple(map(shape_of, table.columns)))
    return Logged(made, shape, tuple(column.type_text for column in table.columns))


def shape_of(column: SourceColumn) -> ColumnShape:
    return ColumnShape(column.name, 25, -1, is_key=column.key_ordinal is not None, number=column.number)


def random_windows(chosen: random.Random, low: int) -> Iterator[LsnWindow]:
    first, last = sorted(chosen.choices(range(FIRST_LSN, LAST_LSN + 1), k=2))
    bounds = [(None, None), (first, last), (low, None), (None, low - 1), (low - 1, low), (LAST_LSN + 1, None)]
    for begin, end in bounds:
        yield (CommitLsn(begin) if begin is not None else None, CommitLsn(end) if end is not None else None)


def between(rows: pa.Table, first: int, last: int = LAST_LSN) -> pa.Table:
    lsns = rows["__$start_lsn"].to_numpy()
    return rows.filter(pa.array((lsns >= first) & (lsns <= last)))


def expect(made: Switched, window: LsnWindow, option: str) -> pa.Table:
    """Return the united rows: of each instance those of its part of the window, in order."""
    first, last = (bound.value if bound is not None else None for bound in window)
    first, last = first or FIRST_LSN, last or LAST_LSN
    older, newer = made.rows
    parts = [
        (made.older, between(older, first, min(last, made.low - 1))),
        (made.newer, between(newer, max(first, made.low), last)),
    ]
    return pa.concat_tables([expect_of(made, one, in_order(rows, OPTIONS[option])) for one, rows in parts])


def in_order(rows: pa.Table, operations: tuple[int, ...]) -> pa.Table:
    lsns, seqvals, found = (rows[f"__${name}"].to_numpy() for name in ("start_lsn", "seqval", "operation"))
    order = np.lexsort((found, seqvals, lsns))
    return rows.take(order[np.isin(found[order], operations)])


def expect_of(made: Switched, one: Instance, rows: pa.Table) -> pa.Table:
    """Return an instance's rows with the newer instance's columns, then those that only the older one has."""
    own = {column.column_id: ordinal for ordinal, column in enumerate(one.columns, 1)}
    news = {column.column_id for column in made.newer.columns}
    united = [*made.newer.columns, *(column for column in made.older.columns if column.column_id not in news)]
    places = {own[column.column_id]: place for place, column in enumerate(united, 1) if column.column_id in own}
    values: dict[str, Any] = {name: rows[name] for name in ("__$start_lsn", "__$seqval", "__$operation")}
    values["__$update_mask"] = moved_masks(rows["__$update_mask"], places, len(united))
    for column in united:
        ordinal = own.get(column.column_id)
        of_its_own = made.rows[column.column_id in news].schema.field(column.lake_name)
        values[free_name(column.name, values)] = (
            pa.nulls(len(rows), of_its_own.type) if ordinal is None else rows[one.columns[ordinal - 1].lake_name]
        )
    values["__$absent_mask"] = moved_masks(rows["__$absent_mask"], places, len(united))
    exact = [
        None if found is None else [(places[ordinal], text) for ordinal, text in found]
        for found in rows["__$exact"].to_pylist()
    ]
    values["__$exact"] = pa.array(exact, rows.schema.field("__$exact").type)
    values["__$capture_instance"] = pa.repeat(pa.scalar(one.capture_instance), len(rows))
    return pa.table(values)


def moved_masks(masks: pa.ChunkedArray[Any], places: dict[int, int], columns: int) -> pa.Array[Any]:
    moved = (
        None
        if found is None
        else change_columns.pack_mask(
            [place for own, place in places.items() if change_columns.is_bit_set(own, found)], columns
        )
        for found in masks.to_pylist()
    )
    return pa.array(list(moved), pa.binary())


def free_name(name: str, taken: dict[str, Any]) -> str:
    """Return a name that differs from others in more than case."""
    lowered = {other.lower() for other in taken}
    numbered = (f"{name}_{number}" for number in range(2, 100))
    return name if name.lower() not in lowered else next(one for one in numbered if one.lower() not in lowered)
