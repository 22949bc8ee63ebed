"""Spark's data source `rowtide`: batches, and streams whose queries are ended and started again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException

import rowtide
from builders.capture.capture_instances import instance, source_table
from builders.lakes.made_lakes import MadeLake, make_rows
from rowtide.cdc.change_columns import full_mask
from rowtide.cdc.published import ENABLED
from rowtide.cdc.system_tables import InstanceEvent
from rowtide.core.lsn import CommitLsn
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.stores import locate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = [("id", "integer"), ("{name}", "text"), ("at", "timestamp with time zone"), ("day", "date"), ("f", "bytea")]
ITEM = instance("m1", table=source_table([*COLUMNS, ("price", "numeric(8,2)"), ("is_new", "boolean"), ("x", "real")]))
OTHER = instance("m2", table=source_table(name="t2", source_id=2))
NAME = ITEM.capture_instance


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    rowtide.register_source(spark)


@pytest.fixture
def made(tmp_path: Path) -> MadeLake:
    """Two instances that begin at 90, and three published transactions."""
    lake = MadeLake(tmp_path / "lake")
    lake.enable(ITEM, 90)
    lake.enable(OTHER, 90)
    publish(lake, change(100, 2, 1, at="2026-01-01T00:00:00.5Z"), change(110, 2, 2), other=120)
    return lake


def change(lsn: int, operation: int, key: int, *, at: str | None = None) -> dict[str, Any]:
    time = pa.scalar(at).cast(pa.timestamp("us", "UTC")).as_py() if at is not None else None
    position = {"__$start_lsn": lsn, "__$seqval": key, "__$operation": operation, "__$update_mask": full_mask(8)}
    values = {"id": key, "%7Bname%7D": f"tea {key}", "at": time, "f": b"\x00", "is_new": True, "x": 0.1}
    return {**position, **values, "__$exact": [(6, "12345678.90")]}


def publish(lake: MadeLake, *items: dict[str, Any], other: int) -> None:
    others = {"__$start_lsn": other, "__$seqval": 1, "__$operation": 2, "__$update_mask": full_mask(2), "id": other}
    lake.publish((ITEM, [make_rows(ITEM, items)]), (OTHER, [make_rows(OTHER, [others])]))


def read(spark: SparkSession, lake: MadeLake, **options: str) -> DataFrame:
    return spark.read.format("rowtide").options(**options).load(lake.path)


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return rows.sort_by([(name, "ascending") for name in ("__$start_lsn", "__$operation")]).to_pylist()


@pytest.mark.exhaustive
def test_batches_are_what_the_lake_returns(spark: SparkSession, made: MadeLake) -> None:
    publish(made, change(130, 3, 1), change(130, 4, 1), other=140)
    opened = rowtide.open_lake(made.path)
    old = read(spark, made, instance=NAME, rowFilterOption="all update old")
    expected = opened.get_all_changes(NAME, row_filter_option="all update old").to_arrow().read_all()
    publish(made, change(150, 2, 3), other=160)
    assert in_order(old.toArrow()) == expected.to_pylist()
    net = read(spark, made, instance=NAME, changes="net", rowFilterOption="all with mask", endingLsn="140").toArrow()
    found = opened.get_net_changes(NAME, None, CommitLsn(140), "all with mask").to_arrow().read_all()
    assert in_order(net) == in_order(found)
    both = read(spark, made, instances=f"{NAME},{OTHER.capture_instance}", startingLsn="100", endingLsn="120")
    rows = both.selectExpr("`__$capture_instance`", "from_json(`__$values`, 'id bigint').id").collect()
    assert [tuple(row) for row in rows] == [(NAME, 1), (NAME, 2), ("public_t2", 120)]


def run_stream(spark: SparkSession, lake: MadeLake, place: Path) -> None:
    """Run a query for one batch."""
    changes = spark.readStream.format("rowtide").option("instance", NAME).load(lake.path)
    # Delta takes no braces.
    writer = changes.withColumnRenamed("{name}", "name").writeStream.format("delta")
    query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True)
    for _ in range(12):
        try:
            query.start(str(place / "sink")).awaitTermination()
        except StreamingQueryException as error:
            # Spark gives a new Python process ten seconds, which it may not have on a busy machine. A query that is
            # started again goes on where it was.
            if "failed to connect back" not in str(error):
                raise
        else:
            return
    pytest.fail("the machine is too busy to start a Python process")


def test_a_query_goes_on_exactly_where_it_ended(spark: SparkSession, made: MadeLake, tmp_path: Path) -> None:
    # Nothing can be written there: the likeliest failure of a first batch.
    (tmp_path / "sink").write_text("a file")
    with pytest.raises(StreamingQueryException, match="sink"):
        run_stream(spark, made, tmp_path)
    (tmp_path / "sink").unlink()
    run_stream(spark, made, tmp_path)
    # As after a kill: the sink has the batch, and Spark does not know of it.
    for file in (tmp_path / "checkpoint" / "commits").iterdir():
        file.unlink()
    publish(made, change(130, 2, 3), change(150, 4, 3), other=160)
    # The batch that is repeated is the one batch that Spark makes then.
    for _ in range(2):
        run_stream(spark, made, tmp_path)
    sink = open_snapshot(locate(str(tmp_path / "sink")))
    assert sink is not None
    written = sink.read().rename_columns({"name": "{name}"})
    assert in_order(written) == rowtide.open_lake(made.path).get_all_changes(NAME).to_arrow().read_all().to_pylist()


@pytest.mark.exhaustive
def test_a_query_that_cleanup_overtook_says_so(spark: SparkSession, made: MadeLake, tmp_path: Path) -> None:
    run_stream(spark, made, tmp_path)
    made.record(InstanceEvent(ITEM, ENABLED, CommitLsn(170), "removed by the cleanup of now"))
    publish(made, change(180, 2, 4), other=190)
    with pytest.raises(StreamingQueryException, match="RT-4301: the query resumes at LSN 0/79, .* cleanup of now"):
        run_stream(spark, made, tmp_path)


@pytest.mark.exhaustive
def test_what_cannot_be_read_has_its_number(spark: SparkSession, made: MadeLake, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="RT-22960"):
        read(spark, made, instance="other")
    with pytest.raises(PySparkException, match="RT-4107"):
        spark.read.format("rowtide").option("instance", NAME).load(str(tmp_path))
    with pytest.raises(PySparkException, match="RT-4300"):
        read(spark, made, instance=NAME, maxTransactionsPerTrigger="1").count()
    with pytest.raises(PySparkException, match="RT-4304"):
        spark.read.format("rowtide").schema("id int").option("instance", NAME).load(made.path).count()
