"""Delta tables by path: appended to once per cycle, whoever repeats it; emptied when they get another identity."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rowtide.lake import tables
from rowtide.lake.errors import AppendNotFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = [("id", "bigint"), ("a, b", "string")]


def append(spark: SparkSession, path: Path, cycle: int, identity: str = "one") -> None:
    rows = spark.range(cycle * 10, cycle * 10 + 3).selectExpr("id", "'x' as `a, b`")
    tables.append_once(rows, str(path), identity=identity, cycle=cycle)


def read_ids(spark: SparkSession, path: Path) -> list[int]:
    return sorted(row["id"] for row in tables.read_table(spark, str(path)).select("id").collect())


def test_a_repeated_cycle_is_ignored_also_by_many_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """A JVM that outlives its Python appends a cycle while the next process appends it again."""
    place = tmp_path / "table"
    tables.ensure_table(spark, str(place), COLUMNS, identity="one")
    append(spark, place, 1)
    with ThreadPoolExecutor(4) as pool:
        for appended in [pool.submit(append, spark, place, 2) for _ in range(4)]:
            appended.result()
    append(spark, place, 1)
    assert read_ids(spark, place) == [10, 11, 12, 20, 21, 22]


def test_an_append_that_the_table_does_not_show_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "table"
    tables.ensure_table(spark, str(place), COLUMNS, identity="one")
    append(spark, place, 9)
    with pytest.raises(AppendNotFound, match="RT-3102: .*cycle 3"):
        append(spark, place, 3)


def test_a_table_of_another_identity_starts_empty_with_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "table"
    tables.ensure_table(spark, str(place), [("id", "int"), ("gone", "string")], identity="zero")
    tables.ensure_table(spark, str(place), COLUMNS, identity="one")
    append(spark, place, 1)
    tables.ensure_table(spark, str(place), COLUMNS, identity="one")
    assert read_ids(spark, place) == [10, 11, 12]
    tables.ensure_table(spark, str(place), COLUMNS, identity="two")
    append(spark, place, 1, "two")
    assert read_ids(spark, place) == [10, 11, 12]
    assert tables.read_table(spark, str(place)).columns == ["id", "a, b"]
