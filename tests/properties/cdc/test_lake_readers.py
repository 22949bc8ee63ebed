"""What is read without Spark is what Spark reads, row by row: random histories, files and windows, every option."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from builders.lakes.made_lakes import MadeLake
from builders.lakes.spark_presentation import present_by_spark
from builders.log.random_records import random_records, random_table
from builders.values.arrow_rows import assert_same_rows
from rowtide.cdc.change_columns import ROW_FILTERS
from rowtide.cdc.errors.querying import LsnOutOfRange
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.lake_readers.presentation import present
from rowtide.cdc.queries.net_changes import NET_ROW_FILTERS
from rowtide.cdc.rows.conversion import LsnRange, convert_records
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERYTHING = LsnRange(0, 1 << 62)
LONG = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 40)]
RECORDS = 400


@pytest.fixture(params=[0, 1, 2, *LONG])
def chosen(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


@pytest.mark.exhaustive
def test_changes_are_those_of_spark(spark: SparkSession, tmp_path: Path, chosen: random.Random) -> None:
    made, instance = random_lake(chosen, tmp_path / "lake")
    name, ours, sparks = instance.capture_instance, Lake(made.path), Changes(spark, made.path)
    for window in random_windows(chosen, ours, name):
        for option in ROW_FILTERS:
            found = ours.get_all_changes(name, *window, option)
            expected = sparks.get_all_changes(name, *window, option).toArrow()
            assert_same_rows(found.to_arrow().read_all(), expected, (window, option))
        for option in NET_ROW_FILTERS:
            found = ours.get_net_changes(name, *window, option)
            expected = sparks.get_net_changes(name, *window, option, is_ordered=True).toArrow()
            assert_same_rows(found.to_arrow().read_all(), expected, (window, option))


def test_presented_changes_are_those_of_spark(spark: SparkSession, tmp_path: Path, chosen: random.Random) -> None:
    made, instance = random_lake(chosen, tmp_path / "lake")
    name, ours, sparks = instance.capture_instance, Lake(made.path), Changes(spark, made.path)
    presented = present(ours.get_all_changes(name))
    names, rows = present_by_spark(sparks.get_all_changes(name), instance)
    assert presented.names == names
    assert list(presented.rows()) == rows


def random_lake(chosen: random.Random, folder: Path) -> tuple[MadeLake, Instance]:
    """Make a lake of one instance, its rows in cycles of several files, in any order within a cycle."""
    logged = random_table(chosen)
    rows = convert_records(random_records(chosen, logged, RECORDS), logged.instance, logged.shape, EVERYTHING)
    instance = replace(logged.instance, supports_net_changes=True)
    made = MadeLake(folder)
    made.enable(instance, 100, is_mapped=chosen.random() < 0.5)
    lsns = sorted(map(int, set(rows["__$start_lsn"].to_numpy())))
    while lsns:
        taken = [lsns.pop(0) for _ in range(min(chosen.randint(1, 4), len(lsns)))]
        made.publish((instance, list(split(chosen, choose_lsns(rows, taken)))), lsns=taken)
    return made, instance


def choose_lsns(rows: pa.Table, lsns: list[int]) -> pa.Table:
    return rows.filter(pc.is_in(rows["__$start_lsn"], pa.array(lsns)))


def split(chosen: random.Random, rows: pa.Table) -> Iterator[pa.Table]:
    """Yield rows in files: as they come, or shuffled."""
    order = list(range(rows.num_rows))
    if chosen.random() < 0.5:
        chosen.shuffle(order)
    while order:
        count = chosen.randint(1, 200)
        yield rows.take(pa.array(order[:count]))
        order = order[count:]


def random_windows(chosen: random.Random, changes: Lake, name: str) -> list[tuple[CommitLsn | None, CommitLsn | None]]:
    interval = changes.get_validity_interval(name)
    first, last = sorted(chosen.choices(range(interval.low.value, interval.high.value + 1), k=2))
    after = interval.high.increment()
    return [(None, None), (CommitLsn(first), CommitLsn(last)), (after, None)]


def test_window_outside_the_interval_is_refused_alike(spark: SparkSession, tmp_path: Path) -> None:
    made, instance = random_lake(random.Random(0), tmp_path / "lake")
    name = instance.capture_instance
    refusals: list[str] = []
    asks: tuple[Any, ...] = (Lake(made.path).get_all_changes, Changes(spark, made.path).get_all_changes)
    for ask in asks:
        with pytest.raises(LsnOutOfRange) as refused:
            ask(name, CommitLsn(1))
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]
