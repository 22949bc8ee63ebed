"""A table's log does not grow by what nobody reads."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rowtide.delta.writing.commits import Committer
from rowtide.lake import tables
from rowtide.lake.small_tables import SmallTable, append_small
from rowtide.lake.tables import Compacted, compact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def append_cycles(path: Path, cycles: range) -> None:
    tables.ensure_table(str(path), [("cycle", "bigint")], identity="one")
    for cycle in cycles:
        rows = pa.table({"cycle": pa.array([cycle], pa.int64())})
        append_small(Committer(), rows, str(path), identity="one", cycle=cycle)


def age_versions(log: Path, below: int, age: timedelta) -> None:
    """Let versions below one be older."""
    for file in log.glob("*.json"):
        age_s = age.total_seconds() if int(file.stem) < below else 60
        time_ms = int((time.time() - age_s) * 1000)
        file.write_text(re.sub(r'"timestamp":\d+', f'"timestamp":{time_ms}', file.read_text()))


@pytest.mark.parametrize(("most", "oldest"), [(100, 0), (5, 6)])
def test_a_log_of_many_files_is_kept_for_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, oldest: int
) -> None:
    monkeypatch.setitem(tables._PROPERTIES, "delta.checkpointInterval", "3")
    monkeypatch.setattr(tables, "MOST_LOG_FILES", most)
    path = tmp_path / "table"
    append_cycles(path, range(1, 11))
    log = path / "_delta_log"
    age_versions(log, 8, tables.BUSY_VERSIONS * 2)

    compact(Compacted(str(path), "cycle"))
    assert min(int(file.stem) for file in log.glob("*.json")) == oldest


@pytest.mark.exhaustive
def test_versions_before_an_old_checkpoint_go_and_reads_continue(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tables._PROPERTIES, "delta.checkpointInterval", "3")
    path = tmp_path / "table"
    append_cycles(path, range(1, 3))
    assert tables.read_table(spark, str(path)).count() == 2, "Spark remembers version 2 from now on"
    append_cycles(path, range(3, 11))
    log, table = path / "_delta_log", Compacted(str(path), "cycle", timedelta(hours=1))

    compact(table)
    assert min(log.glob("*.json")).stem == f"{0:020d}", "all of them are younger"
    age_versions(log, 8, timedelta(hours=2))
    compact(table)
    left = {file.name for file in log.iterdir() if file.name[0] == "0"}
    assert min(left) == f"{6:020d}.checkpoint.parquet"
    assert f"{6:020d}.json" in left

    assert tables.read_table(spark, str(path)).count() == 10
    append_cycles(path, range(11, 12))
    rows = SmallTable.open(str(path))
    assert rows is not None
    assert rows.read_latest_cycle() == 11
    assert sorted(row.cycle for row in tables.read_table(spark, str(path)).collect()) == list(range(1, 12))
