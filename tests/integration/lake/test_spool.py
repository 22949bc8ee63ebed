"""Results streamed through a temporary folder: in order, whatever their number of files, and nothing stays behind."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rowtide.lake.errors import SparkFailed
from rowtide.lake.spool import stream_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, empty."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def many_files(spark: SparkSession) -> SparkSession:
    """A session whose sorts end in five files."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "5")
    return session


def test_rows_of_many_files_come_in_order(many_files: SparkSession, temporary: Path) -> None:
    frame = many_files.range(20_000).selectExpr("id * 7919 % 20011 as id", "id as odd").orderBy("id")

    rows = stream_rows(frame)
    first = next(rows)
    assert len(list(temporary.glob("*/rows/part-*"))) == 5
    ids = [row[0] for row in (first, *rows)]
    assert ids == sorted(number * 7919 % 20011 for number in range(20_000))


def test_values_are_python_s_and_maps_are_pairs(spark: SparkSession, temporary: Path) -> None:
    values = ("map(1, 'one', 2, 'two')", "cast(null as string)", "cast(1.5 as float)", "double('nan')", "'a' as `a.b`")

    ((pairs, nothing, number, nan, text),) = stream_rows(spark.range(1).selectExpr(*values))

    assert (pairs, nothing, number, text) == ([(1, "one"), (2, "two")], None, 1.5, "a")
    assert isinstance(nan, float)
    assert math.isnan(nan)


def test_no_rows_are_none(spark: SparkSession, temporary: Path) -> None:
    assert list(stream_rows(spark.range(0))) == []


def test_nothing_stays_behind_where_reading_ends_early(spark: SparkSession, temporary: Path) -> None:
    rows = stream_rows(spark.range(10).orderBy("id"))
    assert next(rows) == (0,)
    rows.close()

    assert list(temporary.iterdir()) == []


def test_a_job_that_spark_gives_up_is_one_numbered_error(spark: SparkSession, temporary: Path) -> None:
    with pytest.raises(SparkFailed, match="RT-3110: a Spark job failed: .*no such luck") as raised:
        list(stream_rows(spark.range(1).selectExpr("raise_error('no such luck')")))

    assert "\n" not in str(raised.value)
    assert list(temporary.iterdir()) == []
