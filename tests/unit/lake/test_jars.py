"""Which jars Spark is given for a lake."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from rowtide.lake.errors import SparkSettingInvalid
from rowtide.lake.jars import (
    DELTA,
    ICEBERG,
    ResolvedJars,
    azure_library,
    find_hadoop_version,
    find_lack,
    find_libraries,
    is_installed,
    jar_settings,
    s3_library,
)
from rowtide.lake.jvm import find_spark_home, list_installed, list_jars

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


LISTS = jar_settings((DELTA,), {}, (), None)
INSTALLED = ["jackson-core-2.20.1.jar", "hadoop-client-api-3.4.2.jar", "hive-shims-2.3.10.jar"]


def make_jar(folder: Path, name: str, file: str = "A.class") -> str:
    with ZipFile(folder / name, "w") as jar:
        jar.writestr(file, "")
    return (folder / name).as_uri()


def resolved_in(home: Path) -> ResolvedJars:
    found = ResolvedJars.of(LISTS, {}, {"HOME": str(home)})
    assert found is not None
    return found


@pytest.fixture
def jars(tmp_path: Path) -> list[str]:
    folder = tmp_path / "jars of Ivy"
    folder.mkdir()
    return [
        make_jar(folder, "io.delta_delta-spark_4.1_2.13-4.4.0.jar", "delta/tables.py"),
        make_jar(folder, "io.delta_delta-storage-4.4.0.jar"),
        make_jar(folder, "com.fasterxml.jackson.core_jackson-core-2.13.5.jar"),
    ]


def test_what_spark_lacks_is_recalled(tmp_path: Path, jars: list[str]) -> None:
    assert resolved_in(tmp_path).recall(INSTALLED) is None
    resolved_in(tmp_path).remember(",".join(jars))
    expected = {"spark.jars": ",".join(jars[:2]), "spark.submit.pyFiles": jars[0]}
    assert resolved_in(tmp_path).recall(INSTALLED) == expected
    assert resolved_in(tmp_path).record.stat().st_mode & 0o077 == 0


def test_other_packages_are_remembered_apart(tmp_path: Path, jars: list[str]) -> None:
    resolved_in(tmp_path).remember(",".join(jars))
    others = ResolvedJars.of(jar_settings((DELTA, ICEBERG), {}, (), None), {}, {"HOME": str(tmp_path)})
    assert others is not None
    assert others.recall(INSTALLED) is None


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '[{"url": "x"}]', "[]"])
def test_a_damaged_record_is_none(tmp_path: Path, jars: list[str], damage: str) -> None:
    resolved_in(tmp_path).remember(",".join(jars))
    resolved_in(tmp_path).record.write_text(damage)
    assert resolved_in(tmp_path).recall(INSTALLED) is None


def test_a_jar_that_is_gone_or_another_is_resolved_again(tmp_path: Path, jars: list[str]) -> None:
    resolved_in(tmp_path).remember(",".join(jars))
    jar = tmp_path / "jars of Ivy" / "io.delta_delta-storage-4.4.0.jar"
    jar.write_bytes(b"cut off")
    assert resolved_in(tmp_path).recall(INSTALLED) is None
    jar.unlink()
    assert resolved_in(tmp_path).recall(INSTALLED) is None


@pytest.mark.parametrize(
    "chosen", [{"spark.jars": "a.jar"}, {"spark.jars.packages": "g:a:1"}, {"spark.jars.ivy": "/tmp/ivy"}]
)
def test_what_the_user_says_of_jars_is_for_ivy(tmp_path: Path, chosen: dict[str, str]) -> None:
    assert ResolvedJars.of(LISTS, chosen, {"HOME": str(tmp_path)}) is None


def test_nothing_is_remembered_without_packages_or_a_home(tmp_path: Path, jars: list[str]) -> None:
    assert ResolvedJars.of({"spark.jars": "a.jar"}, {}, {"HOME": str(tmp_path)}) is None
    assert ResolvedJars.of(LISTS, {}, {}) is None
    (tmp_path / ".cache").write_text("no folder")
    resolved_in(tmp_path).remember(",".join(jars))
    assert resolved_in(tmp_path).recall(INSTALLED) is None


@pytest.mark.parametrize(
    ("resolved", "has_it"),
    [
        ("com.fasterxml.jackson.core_jackson-core-2.13.5.jar", True),
        ("org.apache.hadoop_hadoop-client-api-3.4.2.jar", True),
        ("org.apache.hadoop_hadoop-aws-3.4.2.jar", False),
        ("io.delta_delta-spark_4.1_2.13-4.4.0.jar", False),
        ("org.roaringbitmap_shims-0.9.25.jar", False),
    ],
)
def test_spark_has_a_jar_of_the_same_artifact(resolved: str, has_it: bool) -> None:  # noqa: FBT001 - a test's parameter
    assert is_installed(resolved, INSTALLED) is has_it


S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"
ABFS = "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem"


_S3, _AZURE, _DELTA = (library.package for library in (s3_library("3.4.2"), azure_library("3.4.2"), DELTA))


@pytest.mark.parametrize(
    ("text", "class_name", "package"),
    [
        ("java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", S3A, _S3),
        ("java.lang.NoClassDefFoundError: software/amazon/awssdk/core/SdkX", "software.amazon.awssdk.core.SdkX", _S3),
        ('UnsupportedFileSystemException: No FileSystem for scheme "abfss"', ABFS, _AZURE),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure", DELTA.class_name, _DELTA),
    ],
)
def test_a_missing_jar_is_named_with_its_package(text: str, class_name: str, package: str) -> None:
    said = f"RT-1014: Spark has no class {class_name}, of the package {package}. "
    assert str(find_lack(text)).startswith(said)


def test_a_missing_module_of_executors_is_named() -> None:
    text = "  File \"x.py\", line 1, in <module>\nModuleNotFoundError: No module named 'pyarrow'\n"
    assert str(find_lack(text)).startswith("RT-1015: Python of Spark's executors has no module pyarrow. ")


@pytest.mark.parametrize("text", ["java.io.IOException: No space left on device", "ClassNotFoundException: org.x.Y"])
def test_other_failures_stay_what_they_are(text: str) -> None:
    assert find_lack(text) is None
