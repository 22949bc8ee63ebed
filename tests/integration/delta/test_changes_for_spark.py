"""Spark reads, and continues with, the tables that our changes leave: compacted, cut, widened, rewritten, renewed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from builders.lakes.delta_tables import append, create, locate, own
from builders.lakes.delta_values import VALUES, require_same
from rowtide.delta.snapshot import Snapshot
from rowtide.delta.writing.alteration import (
    empty_table,
    renew_table,
    retire_table,
    rewrite,
    set_properties,
    widen_columns,
)
from rowtide.delta.writing.changes import Below, delete_below
from rowtide.delta.writing.commits import Committer, create_table
from rowtide.delta.writing.compaction import compact
from rowtide.delta.writing.widening_removal import is_marked, mend
from rowtide.lake.session import pinned
from rowtide.lake.sql_text import column_types, schema_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = ("none", "name", "id")


def write_by_spark(spark: SparkSession, path: Path, *ids: int) -> None:
    rows = ", ".join(f"({number})" for number in ids)
    pinned(spark).sql(f"insert into delta.`{path}` (id) values {rows}")


def ids(snapshot: Snapshot) -> list[Any]:
    found: list[Any] = snapshot.read()["id"].to_pylist()
    return sorted(found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", MODES)
def test_spark_goes_on_with_compacted_and_cut_tables(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    properties = {"delta.checkpointInterval": "4", "delta.columnMapping.mode": mode}
    path = create(tmp_path / "a %20 {table}", **properties)
    location, committer = locate(path), Committer()
    for cycle in range(1, 6):
        append(committer, location, cycle)
    assert compact(location, "id") == 5
    require_same(spark, path)
    write_by_spark(spark, path, 6, 7)
    assert delete_below(location, Below("id", 3)) == 2
    assert ids(require_same(spark, path)) == [3, 4, 5, 6, 7]
    write_by_spark(spark, path, 8)
    append(committer, location, 9)
    files = len(own(path).files)
    assert compact(location, "id") == files
    pinned(spark).sql(f"delete from delta.`{path}` where id = 5")
    assert delete_below(location, Below("id", 100)) == 6
    assert ids(require_same(spark, path)) == []
    write_by_spark(spark, path, 10)
    assert ids(require_same(spark, path)) == [10]
    assert not append(Committer(), location, 9)


@pytest.mark.parametrize("mode", MODES)
def test_every_type_survives_a_compaction(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    path, session = tmp_path / "table", pinned(spark)
    for start in (0, 3, 6):
        frame = session.sql(VALUES.format(start=start, end=start + 3))
        option = "delta.columnMapping.mode"
        session.conf.set(f"spark.databricks.delta.properties.defaults.{option.removeprefix('delta.')}", mode)
        frame.coalesce(1).write.format("delta").mode("append").save(str(path))
    before = own(path).read().sort_by("id")
    assert compact(locate(path), "id") == 3
    found = require_same(spark, path)
    assert (found.metadata.is_mapped, len(found.files)) == (mode != "none", 1)
    assert _rows(found) == sorted(map(repr, before.to_pylist()))
    for condition in ("day < date'0001-01-04'", "early >= timestamp_micros(-62135596799999995)", "text = 'ü4'"):
        shown = session.read.format("delta").load(str(path)).where(condition).count()
        assert shown == session.createDataFrame(before).where(condition).count()


WIDENED = {
    "small": ("smallint", "bigint"),
    "number": ("int", "double"),
    "day": ("date", "timestamp_ntz"),
    "money": ("decimal(5,2)", "decimal(12,4)"),
    "whole": ("int", "decimal(12,1)"),
    "rough": ("float", "double"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_mended", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_columns_that_we_widened_are_read_and_written_there(
    spark: SparkSession, tmp_path: Path, mode: str, *, is_mended: bool
) -> None:
    path, session = tmp_path / "table", pinned(spark)
    columns = [("id", "bigint"), *((name, old) for name, (old, _) in WIDENED.items())]
    location = locate(path)
    create_table(location, schema_text(columns), {"delta.columnMapping.mode": mode, "delta.checkpointInterval": "3"})
    values = "({}, 2, 3, date'2026-01-02', 1.25, 4, 0.5)"
    session.sql(f"insert into delta.`{path}` values {values.format(1)}")
    assert widen_columns(location, _in_delta({name: new for name, (_, new) in WIDENED.items()}))
    found = require_same(spark, path)
    assert {"typeWidening", "timestampNtz"} <= found.protocol.reader_features
    assert ("columnMapping" in found.protocol.reader_features) == (mode != "none")
    types = {name: new for name, (_, new) in WIDENED.items()}
    assert column_types(found.metadata.schema_text) == {"id": "bigint", **types}
    wide = "({}, 5000000000, 0.5, timestamp_ntz'2026-01-02 03:04:05', 12345678.1234, 12345678901.5, 1e300)"
    session.sql(f"insert into delta.`{path}` values {wide.format(2)}")
    require_same(spark, path)
    if is_mended:
        assert mend(location).files == 1
        assert not is_marked(require_same(spark, path))
    assert compact(location, "id") == 2
    require_same(spark, path)
    assert delete_below(location, Below("id", 2)) == 1
    session.sql(f"alter table delta.`{path}` set tblproperties ('a' = 'b')")
    session.sql(f"insert into delta.`{path}` values {wide.format(3)}")
    assert ids(require_same(spark, path)) == [2, 3]


@pytest.mark.exhaustive
def test_a_stream_of_deltas_own_goes_over_mending(spark: SparkSession, tmp_path: Path) -> None:
    path, session, location = tmp_path / "table", pinned(spark), locate(tmp_path / "table")
    create_table(location, schema_text([("id", "int")]), {"delta.checkpointInterval": "3"})
    append(Committer(), location, 1, pa.table({"id": pa.array([1], pa.int32())}))
    widen_columns(location, _in_delta({"id": "bigint"}))
    append(Committer(), location, 2)

    def follow() -> list[int]:
        changes = session.readStream.format("delta").load(str(path))
        query = changes.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "progress"))
        query.trigger(availableNow=True).start(str(tmp_path / "copy")).awaitTermination()
        return sorted(row["id"] for row in session.read.format("delta").load(str(tmp_path / "copy")).collect())

    assert follow() == [1, 2]
    append(Committer(), location, 3)
    mend(location)
    append(Committer(), location, 4)
    assert not is_marked(own(path))
    assert follow() == [1, 2, 3, 4]


def _in_delta(types: dict[str, str]) -> dict[str, str]:
    fields = json.loads(schema_text(list(types.items())))["fields"]
    return {field["name"]: field["type"] for field in fields}


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", MODES)
def test_a_rewritten_table_is_read_and_written_by_spark(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    path = create(tmp_path / "table", **{"delta.columnMapping.mode": mode})
    location = locate(path)
    for cycle in (1, 2):
        append(Committer(), location, cycle)

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([batch["id"].cast(pa.timestamp("us"))], names=["id"])

    rewrite(location, schema_text([("id", "timestamp_ntz")]), convert)
    require_same(spark, path)
    pinned(spark).sql(f"insert into delta.`{path}` values (timestamp_ntz'2026-01-02 00:00:00')")
    assert len(require_same(spark, path).read()) == 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", MODES)
def test_a_renewed_table_is_read_and_written_by_spark(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    path = create(tmp_path / "table", who="one", **{"delta.columnMapping.mode": mode})
    location = locate(path)
    write_by_spark(spark, path, 1)
    mapped = {"delta.columnMapping.mode": "name" if mode == "none" else mode}
    renew_table(location, schema_text([("a, b", "timestamp_ntz"), ("id", "int")]), {"who": "two", **mapped})
    require_same(spark, path)
    session = pinned(spark)
    session.sql(f"insert into delta.`{path}` values (timestamp_ntz'2026-01-02 00:00:00', 2)")
    assert require_same(spark, path).properties["who"] == "two"
    set_properties(location, {"delta.checkpointInterval": "2"})
    retire_table(location, "who", "two", "")
    write_by_spark(spark, path, 3)
    assert ids(require_same(spark, path)) == [3]
    empty_table(location)
    session.sql(f"alter table delta.`{path}` add columns (name string)")
    write_by_spark(spark, path, 4)
    assert ids(require_same(spark, path)) == [4]
    history = session.sql(f"describe history delta.`{path}`").select("operation").collect()
    assert {row["operation"] for row in history} >= {"REPLACE TABLE", "DELETE", "SET TBLPROPERTIES", "WRITE"}


def _rows(snapshot: Snapshot) -> list[str]:
    return sorted(map(repr, snapshot.read().to_pylist()))
