"""Which jars Spark is given for a lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.lake.errors import SparkSettingInvalid
from rowtide.lake.spark.jars import DELTA, find_hadoop_version, find_libraries, jar_settings
from rowtide.lake.spark.surroundings import find_spark_home, list_installed, list_jars

_PACKAGES, _EXCLUDES = "spark.jars.packages", "spark.jars.excludes"


def test_a_local_lake_needs_delta_alone() -> None:
    assert find_libraries(["/data/lake", "file:/data/lake"], "3.4.2") == (DELTA,)
    assert jar_settings((DELTA,), {}, (), None) == {_PACKAGES: DELTA.package}


@pytest.mark.parametrize(
    ("place", "package"),
    [
        ("s3://bucket/lake", "org.apache.hadoop:hadoop-aws:3.4.9"),
        ("s3a://bucket/lake", "org.apache.hadoop:hadoop-aws:3.4.9"),
        ("gs://bucket/lake", "com.google.cloud.bigdataoss:gcs-connector:"),
        ("abfss://files@account.dfs.core.windows.net/lake", "org.apache.hadoop:hadoop-azure:3.4.9"),
        ("AZ://container/lake", "org.apache.hadoop:hadoop-azure:3.4.9"),
    ],
)
def test_an_object_store_needs_the_library_of_its_scheme(place: str, package: str) -> None:
    delta, library = find_libraries([place, "/lake"], "3.4.9")
    assert delta == DELTA
    assert library.package.startswith(package)
    assert library.package in jar_settings((library,), {}, (), None)[_PACKAGES].split(",")


def test_the_bundle_of_all_services_is_left_out_unless_asked_for() -> None:
    libraries = find_libraries(["s3://b"], "3.4.2")
    usual = jar_settings(libraries, {}, (), None)
    assert usual[_EXCLUDES] == "software.amazon.awssdk:bundle"
    assert any(package.startswith("software.amazon.awssdk:s3:") for package in usual[_PACKAGES].split(","))
    whole = jar_settings(libraries, {_PACKAGES: "software.amazon.awssdk:bundle:2.29.52"}, (), None)
    assert _EXCLUDES not in whole


@pytest.mark.parametrize(
    ("chosen", "installed"),
    [
        ({_PACKAGES: "io.delta:delta-spark_2.13:4.3.0,org.apache.hadoop:hadoop-aws:3.4.1"}, []),
        ({"spark.jars": "/x/delta-spark_4.1_2.13-4.4.0.jar,hdfs://h/hadoop-aws-3.4.1.jar"}, []),
        ({}, ["delta-spark_4.1_2.13-4.4.0.jar", "hadoop-aws-3.4.1.jar"]),
    ],
)
def test_a_library_that_is_there_is_not_resolved(chosen: dict[str, str], installed: list[str]) -> None:
    assert jar_settings(find_libraries(["s3://b"], "3.4.2"), chosen, installed, None) == {}


def test_hadoop_is_that_of_the_installed_spark() -> None:
    installed = list_installed(find_spark_home({}))
    assert find_hadoop_version(installed) == "3.4.2"
    assert find_hadoop_version(["hadoop-client-api-3.3.6-amzn-1.jar"]) == "3.3.6"


def test_a_folder_of_jars_replaces_resolving(tmp_path: Path) -> None:
    with pytest.raises(SparkSettingInvalid, match=f"RT-1012: ROWTIDE_JARS={tmp_path} .*no jar"):
        list_jars({"ROWTIDE_JARS": str(tmp_path)})
    (tmp_path / "a.jar").touch()
    (tmp_path / "notes.txt").touch()
    folder = list_jars({"ROWTIDE_JARS": str(tmp_path)})
    assert jar_settings((DELTA,), {_PACKAGES: "g:a:1"}, (), folder) == {"spark.jars": f"{tmp_path}/a.jar"}
    assert list_jars({}) is None


def test_nothing_is_resolved_where_all_jars_are_installed() -> None:
    libraries = find_libraries(["s3://b"], "3.4.2")
    assert jar_settings(libraries, {}, (), list_jars({"ROWTIDE_JARS": "installed"})) == {}
