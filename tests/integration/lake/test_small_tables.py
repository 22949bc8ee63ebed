"""Small tables read without a Spark job, as Spark itself shows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rowtide.delta.errors import LakeReadFailed
from rowtide.delta.writing.commits import Committer
from rowtide.lake import tables
from rowtide.lake.session import pinned
from rowtide.lake.small_tables import SmallTable, append_small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = [("cycle", "bigint"), ("at", "timestamp"), ("name", "string")]
TYPES: dict[str, pa.DataType] = {"name": pa.string(), "at": pa.timestamp("us", tz="UTC"), "cycle": pa.int64()}
SCHEMA = pa.schema(TYPES)


def make(path: Path, cycles: Sequence[int]) -> str:
    """Make a table with two rows for each cycle."""
    tables.ensure_table(str(path), COLUMNS, identity="one")
    for cycle in cycles:
        times = pa.array([1, 2], pa.int64()).cast(TYPES["at"])
        rows = pa.table({"cycle": pa.array([cycle] * 2, pa.int64()), "at": times, "name": [None, "ü"]})
        append_small(Committer(), rows, str(path), identity="one", cycle=cycle)
    return str(path)


def open_table(path: str) -> SmallTable:
    found = SmallTable.open(path)
    assert found is not None
    return found


def in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by([("cycle", "ascending"), ("at", "ascending")])


def test_rows_are_those_that_spark_shows(spark: SparkSession, tmp_path: Path) -> None:
    path = make(tmp_path / "a %20 {table}", range(1, 5))
    found = open_table(path)
    assert found.read_latest_cycle() == 4
    for from_cycle in (0, 3, 5):
        shown = tables.read_table(pinned(spark), path).where(f"cycle >= {from_cycle}").select(*SCHEMA.names)
        rows = found.read(SCHEMA, from_cycle=from_cycle)
        assert rows.schema == SCHEMA
        assert in_order(rows).equals(in_order(shown.toArrow().cast(SCHEMA)))


def test_files_of_earlier_cycles_are_not_read(tmp_path: Path) -> None:
    path = make(tmp_path / "table", (1, 2, 3))
    for file in Path(path).glob("0000000001-*.parquet"):
        file.unlink()
    assert open_table(path).read(SCHEMA, from_cycle=2)["cycle"].to_pylist() in ([2, 2, 3, 3], [3, 3, 2, 2])
    with pytest.raises(LakeReadFailed, match="RT-3104: reading .*table failed: .*0000000001-"):
        open_table(path).read(SCHEMA)


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = make(tmp_path / "table", (1,))
    for file in Path(path).glob("0000000001-*.parquet"):
        file.write_bytes(b"nothing of ours")
    with pytest.raises(LakeReadFailed, match="RT-3104"):
        open_table(path).read(SCHEMA)


def test_a_table_before_its_first_cycle_and_no_table(tmp_path: Path) -> None:
    path = make(tmp_path / "table", ())
    assert open_table(path).read_latest_cycle() == 0
    assert open_table(path).read(SCHEMA).equals(SCHEMA.empty_table())
    assert SmallTable.open(str(tmp_path / "none")) is None


def test_a_damaged_log_is_an_error(tmp_path: Path) -> None:
    path = make(tmp_path / "table", (1,))
    for file in Path(path, "_delta_log").glob("*.json"):
        file.write_text("{")
    with pytest.raises(LakeReadFailed, match="RT-3104"):
        open_table(path).read_latest_cycle()
