"""Tables that Spark and Delta wrote are read as Spark reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builders.lakes.delta_tables import own
from builders.lakes.delta_values import VALUES, require_same
from rowtide.delta.data_files import Between
from rowtide.delta.errors import TableUnreadable
from rowtide.lake.session import pinned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def append(spark: SparkSession, path: Path, start: int, end: int, **options: str) -> None:
    rows = pinned(spark).sql(VALUES.format(start=start, end=end))
    rows.coalesce(1).write.format("delta").mode("append").options(**options).save(str(path))


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_every_type_is_read_as_spark_reads_it(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    path = tmp_path / "a %20 {table}"
    table = f"delta.`{path}`"
    rows = pinned(spark).sql(VALUES.format(start=0, end=5))
    rows.limit(0).write.format("delta").option("delta.columnMapping.mode", mode).save(str(path))
    append(spark, path, 0, 5)
    append(spark, path, 5, 9)
    spark.sql(f"alter table {table} add columns (later string, nested.more int)")
    require_same(spark, path)
    if mode != "none":
        spark.sql(f"alter table {table} rename column text to `a, b.c`")
        spark.sql(f"alter table {table} rename column nested.a to z")
        spark.sql(f"alter table {table} drop column flag")
        spark.sql(f"alter table {table} add columns (flag int)")
        spark.sql(f"insert into {table} (id, `a, b.c`, flag) values (100, 'new', 1)")
    found = require_same(spark, path)
    assert found.protocol.min_reader == 3
    assert {row["id"] for row in found.read(["id"], [Between("id", 5, 6)]).to_pylist()} == {5, 6, 7, 8}


@pytest.mark.exhaustive
def test_older_files_of_widened_columns_are_widened(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    table = f"delta.`{path}`"
    spark.sql(f"""
        create table {table} (a tinyint, b smallint, c int, d float, e date, f decimal(5, 2), g int, h int,
            i struct<x: int>, j array<smallint>, k map<int, smallint>)
        using delta tblproperties ('delta.enableTypeWidening' = 'true')""")
    old = "1, 2, -3, 0.5, date'2024-02-29', 1.25, 7, 8, named_struct('x', 9), array(1, null), map(1, 2)"
    spark.sql(f"insert into {table} values ({old})")
    types = {"a": "int", "b": "bigint", "c": "bigint", "d": "double", "e": "timestamp_ntz", "f": "decimal(12, 4)"}
    types |= {"g": "double", "h": "decimal(12, 1)", "i.x": "bigint", "j.element": "bigint"}
    types |= {"k.key": "bigint", "k.value": "int"}
    spark.sql(f"alter table {table} set tblproperties ('delta.feature.timestampNtz' = 'supported')")
    for name, wide in types.items():
        spark.sql(f"alter table {table} alter column {name} type {wide}")
    require_same(spark, path)
    spark.sql(f"insert into {table} (a, c) values (100000, {1 << 40})")
    require_same(spark, path)


def test_int96_timestamps_are_read(spark: SparkSession, tmp_path: Path) -> None:
    session = pinned(spark)
    session.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    rows = session.sql("select timestamp'1066-10-14 09:00:00.000001' as t, array(timestamp'9999-12-31 23:59:59') as u")
    rows.write.format("delta").save(str(tmp_path / "table"))
    require_same(spark, tmp_path / "table")


@pytest.mark.exhaustive
def test_checkpoints_in_parts_and_a_log_without_its_beginning(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, session = tmp_path / "table", pinned(spark)
    log = path / "_delta_log"
    session.conf.set("spark.databricks.delta.checkpoint.partSize", "2")
    session.range(1).write.format("delta").option("delta.checkpointInterval", "4").save(str(path))
    for number in range(1, 9):
        session.range(number * 10, number * 10 + 2).coalesce(1).write.format("delta").mode("append").save(str(path))
    session.sql(f"delete from delta.`{path}` where id = 10")
    assert len(list(log.glob(f"{8:020d}.checkpoint.*.parquet"))) > 1
    found = require_same(spark, path)
    assert (found.version, found.checkpoint_version) == (9, 8)
    for file in log.iterdir():
        if file.name[0] == "0" and int(file.name.split(".")[0]) < 8:
            file.unlink()
    assert require_same(spark, path).checkpoint_version == 8
    (log / "_last_checkpoint").write_text('{"version": 4, "size": 1}')
    assert require_same(spark, path).checkpoint_version == 8
    (log / "_last_checkpoint").unlink()
    assert require_same(spark, path).checkpoint_version == 8


@pytest.mark.exhaustive
def test_rows_stay_after_delete_optimize_and_vacuum(spark: SparkSession, tmp_path: Path) -> None:
    path, session = tmp_path / "table", pinned(spark)
    table = f"delta.`{path}`"
    for number in range(4):
        session.range(number * 10, number * 10 + 5).write.format("delta").mode("append").save(str(path))
    session.sql(f"delete from {table} where id in (11, 22)")
    require_same(spark, path)
    session.sql(f"optimize {table}")
    require_same(spark, path)
    session.sql(f"alter table {table} set tblproperties ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    before = len(list(path.glob("*.parquet")))
    session.sql(f"vacuum {table} retain 0 hours")
    assert len(list(path.glob("*.parquet"))) < before
    require_same(spark, path)


@pytest.mark.exhaustive
def test_what_is_not_read_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    session = pinned(spark)

    def make(name: str, properties: str, more: str = "") -> Path:
        path = tmp_path / name
        session.sql(f"create table delta.`{path}` (id bigint, p int) using delta {more} tblproperties ({properties})")
        session.sql(f"insert into delta.`{path}` select id, 1 from range(10)")
        return path

    vectors = make("vectors", "'delta.enableDeletionVectors' = 'true'")
    require_same(spark, vectors)
    session.sql(f"delete from delta.`{vectors}` where id = 3")
    checkpoints = make("checkpoints", "'delta.checkpointPolicy' = 'v2'")
    partitioned = make("partitioned", "'a' = 'b'", "partitioned by (p)")
    require_same(spark, partitioned)
    times = tmp_path / "times"
    session.sql(f"create table delta.`{times}` (id bigint, at timestamp) using delta partitioned by (at)")
    for path, said in (
        (vectors, "deletion vectors"),
        (checkpoints, "v2Checkpoint"),
        (times, "a partition column of type timestamp"),
    ):
        with pytest.raises(TableUnreadable, match=f"RT-3106: .*{path.name} has .*{said}"):
            own(path).read()
