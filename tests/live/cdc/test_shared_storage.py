"""A local lake on a cluster whose workers may have other disks."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide_process

MASTER = "spark://nowhere.invalid:7077"


@pytest.mark.parametrize("asked", [["--master", MASTER], ["--spark-conf", f"spark.master={MASTER}"], []])
def test_a_local_lake_is_refused_on_a_cluster(logged: LoggedDatabase, asked: list[str]) -> None:
    logged.enable()
    given = {"ROWTIDE_SPARK_CONF": "" if asked else f"spark.master={MASTER}"}
    ended = rowtide_process("cdc", "run", "--once", "--db", logged.url, *asked, environment=given)
    assert f"{logged.lake} is on a local disk, and Spark's master {MASTER} runs tasks" in ended.require_error(3111)


@pytest.mark.exhaustive
def test_a_lake_that_is_declared_shared_is_captured(logged: LoggedDatabase) -> None:
    logged.enable()
    declared = {"ROWTIDE_SHARED_STORAGE": "1"}
    ended = rowtide_process("cdc", "run", "--once", "--master", MASTER, "--db", logged.url, environment=declared)
    assert ended.code == 0, ended.errors
