"""The jars that are remembered of packages, and when they are not what Spark is given."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from rowtide.lake.spark.jars import DELTA, ICEBERG, jar_settings
from rowtide.lake.spark.resolved_jars import ResolvedJars, is_installed

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
