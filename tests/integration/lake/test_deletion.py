"""Rows that go, and the files that go with them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rowtide.delta.writing.changes import Below
from rowtide.lake import tables
from rowtide.lake.session import pinned
from rowtide.lake.tables import delete_rows, vacuum

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TWO_DAYS_S = 2 * 24 * 3600


@pytest.fixture
def table(spark: SparkSession, lake: Path) -> Table:
    """Three files of ten numbers each."""
    session, path = pinned(spark), str(lake / "numbers")
    tables.ensure_table(path, [("number", "bigint")], identity="a test")
    for first in (0, 10, 20):
        session.range(first, first + 10).toDF("number").coalesce(1).write.format("delta").mode("append").save(path)
    return Table(session, path)


@pytest.mark.exhaustive
def test_a_file_is_dropped_written_again_or_left(table: Table) -> None:
    first, second, third = sorted(table.files(), key=table.lowest)
    assert delete_rows(table.path, Below("number", 15)) == 15
    assert third in table.files()
    assert not {first, second} & table.files()
    assert len(table.files()) == 2
    assert sorted(row["number"] for row in tables.read_table(table.spark, table.path).collect()) == list(range(15, 30))


@pytest.mark.exhaustive
def test_vacuum_deletes_old_orphans_and_keeps_files_readers_need(table: Table) -> None:
    """All files here are two days old, but some were removed from the table just now."""
    needed = table.files()
    delete_rows(table.path, Below("number", 15))
    needed |= table.files()
    orphan = Path(table.path) / "0000000007-abandoned" / "part.parquet"
    orphan.parent.mkdir()
    orphan.write_bytes(b"half a file")
    vacuum(table.path)
    assert orphan.exists()
    for file in Path(table.path).glob("**/*.parquet"):
        os.utime(file, times=(time.time() - TWO_DAYS_S,) * 2)
    vacuum(table.path)
    left = {file.name for file in Path(table.path).glob("**/*.parquet")}
    assert left == {Path(file).name for file in needed}


@dataclass(frozen=True)
class Table:
    spark: SparkSession
    path: str

    def files(self) -> set[str]:
        return set(tables.read_table(self.spark, self.path).inputFiles())

    def lowest(self, file: str) -> int:
        found = self.spark.read.parquet(file).selectExpr("min(number)").first()
        return int(found[0]) if found is not None else 0
