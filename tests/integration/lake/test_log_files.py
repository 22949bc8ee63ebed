"""A table's log does not grow by what nobody reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rowtide.lake import kernel, tables
from rowtide.lake.appends import append_once
from rowtide.lake.commits import Committer
from rowtide.lake.compaction import compact
from rowtide.lake.kernel import KernelTable
from rowtide.lake.session import pinned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_checksums_of_early_versions_go_with_a_compaction(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "_KEPT_CHECKSUMS", 2)
    path = tmp_path / "a %20 {table}"
    tables.ensure_table(spark, str(path), [("cycle", "bigint")], identity="one")
    for cycle in range(1, 7):
        rows = pinned(spark).range(1).selectExpr(f"{cycle}L as cycle")
        append_once(Committer(spark), rows, str(path), identity="one", cycle=cycle, ranged=("cycle",))
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
