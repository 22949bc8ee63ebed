"""Sessions of one application, each with its settings; and Spark's end, distinguished from Spark's errors."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError

from rowtide.lake import tables
from rowtide.lake.errors import JarMissing, SparkRunning
from rowtide.lake.session import build_session, for_reading, pinned, spark_watched

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize("error", [Py4JError("of a call"), FileNotFoundError("of a file")])
def test_an_error_of_a_spark_that_lives_stays_what_it_is(spark: SparkSession, error: Exception) -> None:
    with pytest.raises(type(error), match="of a"), spark_watched():
        raise error


_USES_A_LAKE_WHOSE_JVM_IS_KILLED = """
import os, signal, sys
from rowtide.lake import tables
from rowtide.lake.errors import SparkLost
from rowtide.lake.session import build_session

spark = build_session()
path = sys.argv[1]
tables.ensure_table(path, [("id", "int")], identity="one")
jvm = spark.sparkContext._gateway.proc
jvm.send_signal(signal.SIGKILL)
jvm.wait()
for _ in range(2):
    try:
        tables.read_identified(spark, path, identity="one")
    except SparkLost as error:
        print(error)
os._exit(0)
"""


@pytest.mark.exhaustive
def test_a_lake_whose_jvm_was_killed_is_not_tried_again(tmp_path: Path) -> None:
    script = [sys.executable, "-c", _USES_A_LAKE_WHOSE_JVM_IS_KILLED, str(tmp_path / "table")]
    ran = subprocess.run(script, capture_output=True, text=True, check=False)
    assert [line[:9] for line in ran.stdout.splitlines()] == ["RT-3105: "] * 2, ran.stdout + ran.stderr


def test_users_values_stay_but_for_what_results_depend_on(spark: SparkSession) -> None:
    given = spark.newSession()
    own = {"spark.sql.files.maxPartitionBytes": "123456", "fs.AbstractFileSystem.file.impl": "org.x.Files"}
    for name, value in {**own, "spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"}.items():
        given.conf.set(name, value)
    session = pinned(given)
    assert {name: session.conf.get(name) for name in own} == own
    assert session.conf.get("spark.sql.ansi.enabled") == "true"
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"
    assert given.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"


def test_another_master_than_the_running_one_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SparkRunning, match=r"RT-1013: .*on local\[\*\], and spark://h:7077 was asked for"):
        build_session(master="spark://h:7077")
    assert build_session(master="local[*]").sparkContext is spark.sparkContext


def test_uploads_to_buckets_can_be_kept_on_the_disk(spark: SparkSession) -> None:
    """As an executor does, which has no local file system yet."""
    reached: Any = spark
    files = reached._jvm.org.apache.hadoop.fs.FileSystem
    assert files.newInstanceLocal(reached._jsc.hadoopConfiguration()).getUri().getScheme() == "file"


def test_spark_writes_no_checksums_beside_its_files(spark: SparkSession, tmp_path: Path) -> None:
    for form in ("delta", "parquet"):
        place = tmp_path / form
        spark.range(3).write.format(form).save(str(place))
        file = next(place.glob("part-*"))
        # One of another program, which is wrong after a file was written anew.
        (place / f".{file.name}.crc").write_bytes(b"crc\0\0\0\2\0wrong")
        assert spark.read.format(form).load(str(place)).count() == 3
        assert {path.name for path in place.rglob(".*.crc")} == {f".{file.name}.crc"}


def test_a_missing_jar_is_named_and_not_tried_again(spark: SparkSession) -> None:
    with pytest.raises(JarMissing, match="RT-1014: .*S3AFileSystem, of the package org.apache.hadoop:hadoop-aws"):
        tables.read_table(spark, "s3://bucket/table")


def test_how_a_lake_is_reached_is_set_unless_the_user_has(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://ours:1")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    given = spark.newSession()
    given.conf.set("fs.s3a.endpoint.region", "theirs")
    session = for_reading(given, "s3://bucket/lake")
    assert session.conf.get("fs.s3a.endpoint") == "http://ours:1"
    assert session.conf.get("fs.s3a.endpoint.region", None) is None
    assert given.conf.get("fs.s3a.endpoint", None) is None


def test_reading_session_uses_all_cores_and_the_user_minimum(spark: SparkSession) -> None:
    def partitions(session: SparkSession) -> int:
        return int(str(session.conf.get("spark.sql.shuffle.partitions")))

    given, cores = spark.newSession(), spark.sparkContext.defaultParallelism
    for wanted in (1, 4 * cores, 1000):
        given.conf.set("spark.sql.shuffle.partitions", str(wanted))
        assert (partitions(for_reading(given)), partitions(pinned(given))) == (max(wanted, 4 * cores), wanted)
        assert partitions(given) == wanted
