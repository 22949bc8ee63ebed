"""A table's log does not grow by what nobody reads."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rowtide.lake import kernel, tables
from rowtide.lake.appends import append_once
from rowtide.lake.commits import Committer
from rowtide.lake.compaction import compact
from rowtide.lake.kernel import KernelTable
from rowtide.lake.session import pinned
from rowtide.lake.small_tables import SmallTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def append_cycles(spark: SparkSession, path: Path, cycles: range) -> None:
    tables.ensure_table(str(path), [("cycle", "bigint")], identity="one")
    for cycle in cycles:
        rows = pinned(spark).range(1).selectExpr(f"{cycle}L as cycle")
        append_once(Committer(spark), rows, str(path), identity="one", cycle=cycle, ranged=("cycle",))


@pytest.mark.exhaustive
def test_checksums_of_early_versions_go_with_a_compaction(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "_KEPT_CHECKSUMS", 2)
    path = tmp_path / "a %20 {table}"
    append_cycles(spark, path, range(1, 7))
    checksums = path / "_delta_log"
    assert len(list(checksums.glob("*.crc"))) > 3

    compact(spark, str(path))
    latest = KernelTable(spark, str(path)).read_snapshot()
    assert latest is not None
    assert {int(file.stem) for file in checksums.glob("*.crc")} == {
        latest.version - 2,
        latest.version - 1,
        latest.version,
    }
    assert tables.read_table(spark, str(path)).count() == 6


@pytest.mark.exhaustive
def test_versions_before_an_old_checkpoint_go_and_reads_continue(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tables._PROPERTIES, "delta.checkpointInterval", "3")
    path = tmp_path / "table"
    append_cycles(spark, path, range(1, 3))
    assert tables.read_table(spark, str(path)).count() == 2, "Spark remembers version 2 from now on"
    append_cycles(spark, path, range(3, 11))
    log = path / "_delta_log"

    compact(spark, str(path), versions=timedelta(hours=1))
    assert min(log.glob("*.json")).stem == f"{0:020d}", "all of them are younger"
    for file in log.iterdir():
        is_young = int(file.name.split(".")[0]) >= 8 if file.name[0] == "0" else True
        os.utime(file, times=(time.time() - (60 if is_young else 7200),) * 2)
    compact(spark, str(path), versions=timedelta(hours=1))
    left = {file.name for file in log.iterdir() if file.name[0] == "0"}
    assert min(left) == f"{6:020d}.checkpoint.parquet"
    assert f"{6:020d}.json" in left

    assert tables.read_table(spark, str(path)).count() == 10
    append_cycles(spark, path, range(11, 12))
    rows = SmallTable.open(str(path))
    assert rows is not None
    assert rows.read_latest_cycle() == 11
    assert sorted(row.cycle for row in tables.read_table(spark, str(path)).collect()) == list(range(1, 12))
