"""Delta tables by path: a cycle is appended once, also when it is repeated; another identity empties them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rowtide.delta.data_files import Between
from rowtide.delta.errors import AppendNotFound, LakeWriteFailed
from rowtide.delta.formats import IDENTITY
from rowtide.delta.writing.commits import Committer
from rowtide.lake import tables
from rowtide.lake.small_tables import append_small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = [("id", "bigint"), ("a, b", "string")]


def append(path: Path, cycle: int, identity: str = "one", committer: Committer | None = None) -> bool:
    ids = pa.array(range(cycle * 10, cycle * 10 + 3), pa.int64())
    rows = pa.table({"id": ids, "a, b": ["x"] * 3})
    return append_small(committer or Committer(), rows, str(path), identity=identity, cycle=cycle)


def read_ids(spark: SparkSession, path: Path) -> list[int]:
    return sorted(row["id"] for row in tables.read_table(spark, str(path)).select("id").collect())


def test_a_repeated_cycle_is_ignored_also_by_many_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """A JVM that outlives its Python appends a cycle while the next process appends it again."""
    place = tmp_path / "a {table}"
    tables.ensure_table(str(place), COLUMNS, identity="one")
    append(place, 1)
    with ThreadPoolExecutor(4) as pool:
        appended = [one.result() for one in [pool.submit(append, place, 2) for _ in range(4)]]
    assert sorted(appended) == [False, False, False, True]
    assert not append(place, 2)
    assert read_ids(spark, place) == [10, 11, 12, 20, 21, 22]


@pytest.mark.exhaustive
def test_stale_committer_repeats_nothing_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """It remembers the table as it left it; another's appends and an emptying come in between."""
    place = tmp_path / "table"
    tables.ensure_table(str(place), COLUMNS, identity="one")
    remembering = Committer()
    append(place, 1, committer=remembering)
    append(place, 2)
    assert not append(place, 2, committer=remembering)
    append(place, 3, committer=remembering)
    tables.empty_table(str(place))
    append(place, 4, committer=remembering)
    assert read_ids(spark, place) == [40, 41, 42]
    append(place, 5)
    append(place, 6)
    with pytest.raises(AppendNotFound, match="RT-3102: .*cycle 5"):
        append(place, 5, committer=remembering)


def test_an_append_that_the_table_does_not_show_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "table"
    tables.ensure_table(str(place), COLUMNS, identity="one")
    append(place, 9)
    with pytest.raises(AppendNotFound, match="RT-3102: .*cycle 3"):
        append(place, 3)


@pytest.mark.exhaustive
def test_table_of_another_identity_starts_empty_with_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "table"
    tables.ensure_table(str(place), [("id", "int"), ("gone", "string")], identity="zero")
    tables.ensure_table(str(place), COLUMNS, identity="one")
    append(place, 1)
    tables.ensure_table(str(place), COLUMNS, identity="one")
    assert read_ids(spark, place) == [10, 11, 12]
    tables.ensure_table(str(place), COLUMNS, identity="two")
    append(place, 1, "two")
    assert read_ids(spark, place) == [10, 11, 12]
    assert tables.read_table(spark, str(place)).columns == ["id", "a, b"]


@pytest.mark.exhaustive
def test_retired_table_hides_its_rows_and_the_next_starts_empty(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "table"
    tables.retire_table(str(place), identity="one")
    tables.ensure_table(str(place), COLUMNS, identity="one")
    append(place, 1)
    tables.retire_table(str(place), identity="another")
    assert read_ids(spark, place) == [10, 11, 12]
    for _ in range(2):
        tables.retire_table(str(place), identity="one")
        assert tables.read_identified(spark, str(place), identity="one") is None
        assert read_ids(spark, place) == []
    tables.ensure_table(str(place), COLUMNS, identity="two")
    append(place, 2, "two")
    found = tables.read_identified(spark, str(place), identity="two")
    assert found is not None
    assert found.rows.count() == 3
    assert (found.may_have(Between("id", low=22)), found.may_have(Between("id", low=23))) == (True, False)


@pytest.mark.exhaustive
def test_rows_left_by_a_crash_go_when_a_table_is_retired_again(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "table"
    tables.ensure_table(str(place), COLUMNS, identity="one")
    append(place, 1)
    spark.sql(f"alter table delta.`{place}` set tblproperties ('{IDENTITY}' = '')")
    tables.retire_table(str(place), identity="one")
    assert read_ids(spark, place) == []


def test_readers_skip_files_by_the_ranged_columns(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "table"
    tables.ensure_table(str(place), COLUMNS, identity="one")
    for cycle in (1, 2, 3):
        append(place, cycle)
    for file in place.glob("000000000[13]-*.parquet"):
        file.unlink()
    rows = tables.read_table(spark, str(place)).where("id between 20 and 29")
    assert sorted(row["id"] for row in rows.collect()) == [20, 21, 22]


def test_what_no_file_reaches_is_known_without_reading_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Of an int as of a bigint; a column without range may reach anything."""
    place = str(tmp_path / "table")
    tables.ensure_table(place, [("id", "bigint"), ("kind", "int"), ("free", "double")], identity="one")
    for cycle in (1, 2):
        kinds, free = pa.array(range(cycle, cycle + 3), pa.int32()), pa.array([0.0, 1.0, 2.0])
        rows = pa.table({"id": pa.array(range(3), pa.int64()), "kind": kinds, "free": free})
        append_small(Committer(), rows, place, identity="one", cycle=cycle)
    found = tables.read_identified(spark, place, identity="one")
    assert found is not None
    assert [found.may_have(Between("kind", low=value)) for value in (2, 4, 5)] == [True, True, False]
    assert (found.may_have(Between("id", low=3)), found.may_have(Between("free", low=1000))) == (False, True)


def test_rows_of_another_shape_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "table"
    tables.ensure_table(str(place), COLUMNS, identity="one")
    rows = pa.table({"id": pa.array([1], pa.int32())})
    with pytest.raises(LakeWriteFailed, match="RT-3103: .*no column id of type int32"):
        append_small(Committer(), rows, str(place), identity="one", cycle=1)
    assert read_ids(spark, place) == []
