"""Which setting of an application wins, of the user's, Spark's own and rowtide's."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from rowtide.lake.errors import SparkSettingInvalid
from rowtide.lake.jvm import read_asked, read_given
from rowtide.lake.spark_settings import (
    PINNED_SETTINGS,
    SparkRequest,
    count_cores,
    is_local,
    parse_properties,
    parse_setting,
    parse_settings,
    parse_submit_arguments,
    settle,
    with_settings,
)


def test_without_any_setting_spark_runs_here() -> None:
    settled = settle({}, {}, {"spark.jars.packages": "io.delta:delta"})
    assert settled["spark.master"] == "local[*]"
    assert settled["spark.driver.host"] == settled["spark.driver.bindAddress"] == "127.0.0.1"
    assert settled["spark.sql.shuffle.partitions"] == "2"
    assert settled["spark.jars.packages"] == "io.delta:delta"


def test_asked_beats_given_and_both_beat_defaults() -> None:
    asked = {"spark.sql.shuffle.partitions": "7", "spark.x": "asked"}
    given = {"spark.sql.shuffle.partitions": "8", "spark.x": "given", "spark.driver.memory": "9g", "spark.y": "z"}
    settled = settle(asked, given, {})
    assert (settled["spark.sql.shuffle.partitions"], settled["spark.x"]) == ("7", "asked")
    # Spark has what it was given; our default may not replace it.
    assert {"spark.driver.memory", "spark.y"}.isdisjoint(settled)


def test_what_results_depend_on_stays() -> None:
    others = dict.fromkeys(PINNED_SETTINGS, "other")
    assert PINNED_SETTINGS.items() <= settle(others, others, {}).items()


@pytest.mark.parametrize("given", [{"spark.master": "spark://h:7077"}, {}])
def test_a_driver_of_a_cluster_may_be_reached(given: dict[str, str]) -> None:
    asked = {} if given else {"spark.master": "yarn"}
    assert {"spark.driver.host", "spark.driver.bindAddress"}.isdisjoint(settle(asked, given, {}))


def test_lists_of_the_user_are_kept_and_ours_added() -> None:
    given = {
        "spark.jars.packages": "g:a:1, g:b:2",
        "spark.sql.extensions": "org.x.Extension",
        "spark.driver.extraJavaOptions": "-Dx=y",
        "spark.sql.catalog.spark_catalog": "org.x.Catalog",
    }
    settled = settle({"spark.jars.packages": "g:c:3"}, given, {"spark.jars.packages": "io.delta:d:4"})
    assert settled["spark.jars.packages"] == "g:c:3,io.delta:d:4"
    assert settled["spark.sql.extensions"] == "org.x.Extension,io.delta.sql.DeltaSparkSessionExtension"
    assert settled["spark.driver.extraJavaOptions"] == "-XX:+ExitOnOutOfMemoryError -Dx=y"
    assert "spark.sql.catalog.spark_catalog" not in settled


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[*, 4]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://localhost:7077", False),
        ("yarn", False),
        ("k8s://https://h", False),
    ],
)
def test_masters_are_local_or_not(master: str, local: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert is_local(master) is local


def test_options_beat_the_variable() -> None:
    variables = {"ROWTIDE_SPARK_CONF": "spark.x=1 spark.y=2 spark.master=yarn", "ROWTIDE_SHARED_STORAGE": "1"}
    request = SparkRequest("spark://h:7077", {"spark.x": "3", "spark.master": "local"})
    assert {**read_asked(variables), **request.settings()} == {
        "spark.x": "3",
        "spark.y": "2",
        "spark.master": "spark://h:7077",
        "spark.rowtide.sharedStorage": "true",
    }


def test_spark_is_given_arguments_then_its_file_then_variables(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.x file\nspark.y file\nspark.driver.memory 4g\n")
    variables = {
        "SPARK_CONF_DIR": str(tmp_path),
        "PYSPARK_SUBMIT_ARGS": "--conf spark.x=arguments pyspark-shell",
        "MASTER": "spark://h:7077",
        "SPARK_DRIVER_MEMORY": "5g",
    }
    given = {"spark.x": "arguments", "spark.y": "file", "spark.driver.memory": "4g", "spark.master": "spark://h:7077"}
    assert read_given(variables, tmp_path) == given
    named = variables | {"PYSPARK_SUBMIT_ARGS": f"--properties-file {tmp_path / 'named.conf'}"}
    (tmp_path / "named.conf").write_text("spark.z=named")
    assert read_given(named, tmp_path)["spark.z"] == "named"
    assert "spark.y" not in read_given(named, tmp_path)


def test_settings_in_spark_home_are_found_and_broken_ones_named(tmp_path: Path) -> None:
    assert read_given({}, tmp_path) == {}
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "spark-defaults.conf"
    file.write_text("spark.x home")
    assert read_given({}, tmp_path) == {"spark.x": "home"}
    file.write_bytes(b"spark.x \xff")
    with pytest.raises(SparkSettingInvalid, match=f"RT-1012: {file} cannot be read"):
        read_given({}, tmp_path)


def test_how_storage_is_reached_is_a_default() -> None:
    storage = {"fs.s3a.endpoint": "http://ours", "fs.s3a.path.style.access": "true"}
    settled = settle({"spark.hadoop.fs.s3a.endpoint": "http://theirs"}, {}, {}, storage)
    assert settled["spark.hadoop.fs.s3a.endpoint"] == "http://theirs"
    assert settled["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert "spark.hadoop.fs.s3a.endpoint" not in settle({}, {"spark.hadoop.fs.s3a.endpoint": "x"}, {}, storage)


MASTER, SIZE = "spark.master", "spark.default.parallelism"


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({MASTER: "local"}, 1),
        ({MASTER: "local[3]"}, 3),
        ({MASTER: "local[3, 2]"}, 3),
        ({MASTER: "local[*]"}, os.cpu_count()),
        ({MASTER: "local[*,4]"}, os.cpu_count()),
        ({MASTER: "local[3]", SIZE: "7"}, 7),
        ({MASTER: "yarn", "spark.executor.instances": "5", "spark.executor.cores": "4"}, 20),
        ({MASTER: "spark://host:7077", "spark.dynamicAllocation.maxExecutors": "6"}, 6),
        # What a setting does not say as a number says nothing.
        ({MASTER: "k8s://https://host", "spark.dynamicAllocation.maxExecutors": "infinity"}, 50),
        ({}, 50),
    ],
)
def test_cores_are_those_of_the_settings(settings: dict[str, str], cores: int) -> None:
    assert count_cores(settings.get) == cores


def test_a_value_may_have_any_character() -> None:
    value = "-Da=b 'c' \"d\",e\nf\\g"
    assert parse_setting(f"spark.x={value}") == ("spark.x", value)
    assert parse_settings(f"spark.a=1\n {shlex.quote(f'spark.x={value}')}") == {"spark.a": "1", "spark.x": value}
    assert parse_settings("  ") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("spark.x", "no equals sign"),
        ("spark.a=1,spark.b=2 fs.s3a.endpoint=x", 'does not begin with "spark."'),
        ("spark.x='1", "a quotation mark is not closed"),
    ],
)
def test_settings_in_another_form_are_refused(text: str, reason: str) -> None:
    with pytest.raises(SparkSettingInvalid, match=f"RT-1012: .*{reason}"):
        parse_settings(text)


def test_submit_arguments_become_settings_and_options_win() -> None:
    arguments = (
        "--verbose --master spark://h:7077 --conf spark.master=yarn -c 'spark.x=a b' --conf=spark.y=c=d "
        "--packages g:a:1,g:b:2 --driver-memory=3g --properties-file /etc/x.conf --unknown z pyspark-shell --name no"
    )
    assert parse_submit_arguments(arguments) == {
        "spark.master": "spark://h:7077",
        "spark.x": "a b",
        "spark.y": "c=d",
        "spark.jars.packages": "g:a:1,g:b:2",
        "spark.driver.memory": "3g",
        "--properties-file": "/etc/x.conf",
    }


@pytest.mark.parametrize("given", ["", "pyspark-shell", "--master yarn --conf spark.x=0 pyspark-shell a b"])
def test_added_settings_beat_the_arguments(given: str) -> None:
    settings = {"spark.master": "local[2]", "spark.x": "a 'b'", "spark.driver.memory": "2g"}
    arguments = with_settings(given, settings)
    assert parse_submit_arguments(arguments) == settings
    assert "pyspark-shell" in shlex.split(arguments)


def test_spark_defaults_are_java_properties() -> None:
    text = """
# a comment
! another
spark.master           spark://h:7077
spark.a=1
spark.b : two words\t
spark.c   -Dkey\\=value -XX:+Use \\
          more
  spark.d\\ e=\\u0041\\n
spark.path  s3a://bucket/x
spark.empty
"""
    assert parse_properties(text) == {
        "spark.master": "spark://h:7077",
        "spark.a": "1",
        "spark.b": "two words",
        "spark.c": "-Dkey=value -XX:+Use more",
        "spark.d e": "A",
        "spark.path": "s3a://bucket/x",
        "spark.empty": "",
    }
