"""Spark reads, alters, compacts and vacuums the tables that our committer writes, between its commits."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from builders.lakes.delta_tables import append, create, locate, maintain_later, own
from builders.lakes.delta_values import VALUES, require_same
from rowtide.delta.replay import commit_path
from rowtide.delta.writing.commits import Committer, create_table
from rowtide.lake.session import pinned
from rowtide.lake.sql_text import schema_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = "ä" * 32


def values(spark: SparkSession, path: Path, start: int, end: int) -> tuple[str, pa.Table]:
    """Return the schema and rows of every type."""
    frame = pinned(spark).sql(VALUES.format(start=start, end=end))
    frame.coalesce(1).write.format("delta").mode("append").save(str(path))
    # Spark cannot show nulls in parts that a schema calls not null; its own writes call all of them nullable.
    return frame.schema.json().replace('"nullable":false', '"nullable":true'), own(path).read()


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_spark_reads_every_type_that_we_wrote(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    schema, rows = values(spark, tmp_path / "source", 0, 6)
    path = tmp_path / "a %20 {table}"
    location, committer = locate(path), Committer(maintain=maintain_later)
    properties = {"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 0 days"}
    assert create_table(location, schema, {**properties, "delta.columnMapping.mode": mode})
    assert not create_table(location, schema, properties)
    for cycle in range(1, 8):
        assert append(committer, location, cycle, rows.slice(cycle % 3, 2))
    assert not (path / commit_path(0)).exists()
    found = require_same(spark, path)
    assert found.checkpoint_version == 6
    plain = pinned(spark).sql(f"insert into delta.`{path}` select * from delta.`{tmp_path / 'source'}`")
    assert plain.columns is not None
    assert append(committer, location, 8, rows.select(["text", "id"]))
    require_same(spark, path)


@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
def test_days_before_1582_are_the_same_in_any_session(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    days = [date(1, 1, 1), date(1582, 10, 10), date(2026, 1, 1)]
    moments = [datetime.combine(day, time(2, 30), UTC) for day in days]
    rows = pa.table({"day": days, "at": pa.array(moments, pa.timestamp("us", "UTC"))})
    path = tmp_path / "table"
    assert create_table(locate(path), schema_text([("day", "date"), ("at", "timestamp")]), {})
    assert append(Committer(), locate(path), 1, rows)
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", mode)
    texts = session.read.format("delta").load(str(path)).selectExpr("cast(day as string)", "unix_micros(at)").collect()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert sorted(map(tuple, texts)) == [
        (day.isoformat(), (at - epoch) // timedelta(microseconds=1)) for day, at in zip(days, moments, strict=True)
    ]


@pytest.mark.exhaustive
def test_sparks_commits_between_ours_lose_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = create(tmp_path / "table", **{"delta.checkpointInterval": "3", "delta.columnMapping.mode": "name"})
    table, location, committer, session = f"delta.`{path}`", locate(path), Committer(), pinned(spark)
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")

    def commit(cycle: int, rows: pa.Table | None = None) -> None:
        assert append(committer, location, cycle, rows)
        assert not append(Committer(), location, cycle, rows)
        require_same(spark, path)

    commit(1)
    commit(2)
    session.sql(f"optimize {table}")
    commit(3)
    session.sql(f"delete from {table} where id = 1")
    commit(4)
    session.sql(f"alter table {table} add columns (name string, number int)")
    commit(5, pa.table({"id": pa.array([5], pa.int64()), "name": ["five"]}))
    session.sql(f"alter table {table} rename column id to key")
    session.sql(f"alter table {table} set tblproperties ('delta.enableTypeWidening' = 'true')")
    session.sql(f"alter table {table} alter column number type bigint")
    commit(6, pa.table({"key": pa.array([6], pa.int64()), "number": pa.array([1 << 40], pa.int64())}))
    session.sql(f"optimize {table}")
    session.sql(f"vacuum {table} retain 0 hours")
    commit(7, pa.table({"key": pa.array([7], pa.int64())}))
    session.sql(f"insert into {table} (key) values (8)")
    commit(9, pa.table({"key": pa.array([9], pa.int64())}))
    assert set(own(path).read()["key"].to_pylist()) == {2, 3, 4, 5, 6, 7, 8, 9}


@pytest.mark.exhaustive
def test_spark_finds_rows_at_the_bounds_of_our_statistics(spark: SparkSession, tmp_path: Path) -> None:
    path, session = tmp_path / "table", pinned(spark)
    rows = pa.table(
        {
            "text": [LONG + "b" * 10, LONG + "\U0001f600" * 2, None],
            "moment": pa.array([-1, 1_234_567, None], pa.timestamp("us", tz="UTC")),
            "local": pa.array([-62_135_596_799_999_999, 253_402_300_799_999_999, None], pa.timestamp("us")),
            "day": pa.array([-719_162, 2_932_896, None], pa.date32()),
            "number": pa.array([-(1 << 63), (1 << 63) - 1, None], pa.int64()),
        }
    )
    schema = session.createDataFrame([], "text string, moment timestamp, local timestamp_ntz, day date, number bigint")
    create_table(locate(path), schema.schema.json(), {})
    append(Committer(), locate(path), 1, rows)
    require_same(spark, path)
    frame = session.read.format("delta").load(str(path)).cache()
    for name in rows.column_names:
        for place in (0, 1):
            shown = frame.selectExpr(f"cast({name} as string)").collect()[place][0]
            condition = f"{name} = cast('{shown}' as {frame.schema[name].dataType.simpleString()})"
            found = session.sql(f"select count(*) from delta.`{path}` where {condition}").collect()
            assert (name, found[0][0]) == (name, 1)
    nothing = session.sql(f"select * from delta.`{path}` where number between 5 and 6 and moment > '2000-01-01'")
    assert nothing.collect() == []


@pytest.mark.exhaustive
def test_our_protocol_is_the_least_that_the_columns_need(spark: SparkSession, tmp_path: Path) -> None:
    for name, columns, mode, expected in (
        ("plain", "id bigint", "none", (1, 2)),
        ("mapped", "`a, b` bigint", "name", (3, 7)),
        ("local", "m map<int, timestamp_ntz>", "none", (3, 7)),
        ("both", "s struct<`a b`: timestamp_ntz>", "name", (3, 7)),
    ):
        path = tmp_path / name
        schema = spark.createDataFrame([], columns).schema.json()
        create_table(locate(path), schema, {"delta.columnMapping.mode": mode})
        protocol = own(path).protocol
        assert (name, protocol.min_reader, protocol.min_writer) == (name, *expected)
        require_same(spark, path)
        detail = spark.sql(f"describe detail delta.`{path}`").collect()[0]
        assert (detail.minReaderVersion, detail.minWriterVersion) == expected
        assert re.fullmatch(r"[0-9a-f-]{36}", detail.id)
