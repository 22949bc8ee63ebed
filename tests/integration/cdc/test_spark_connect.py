"""A lake read over Spark Connect: by SQL functions, and as DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import rowtide
from builders.capture.capture_instances import instance, source_table
from builders.lakes.made_lakes import MadeLake, make_rows
from rowtide.cdc.change_columns import full_mask, pack_mask
from rowtide.cdc.errors.querying import InstanceUnknown, LsnOutOfRange, UnknownRowFilter
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages
from rowtide.lake.session import for_reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = [("id", "integer"), ("{name}", "text"), ("at", "date")]
ITEM = instance(table=source_table(COLUMNS), before_images=BeforeImages.KEY)
NAME = ITEM.capture_instance
ORDER = ["__$start_lsn", "__$operation", "id"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An insert and a truncate; then inserts, an update that lacks a value, and a delete."""
    made = MadeLake(tmp_path_factory.mktemp("lakes") / "lake")
    made.enable(ITEM, 90)
    made.publish((ITEM, [make_rows(ITEM, [change(100, 2, 7, "rum"), {**change(101, 6, None, None), "id": None}])]))
    later = [
        *(change(110, 2, key, f"tea {key}") for key in range(5)),
        change(120, 4, 1, None) | {"__$absent_mask": pack_mask([2], 3), "__$exact": [(3, "infinity")]},
        change(130, 1, 2, "tea 2"),
        change(130, 1, 9, "old"),
    ]
    made.publish((ITEM, [make_rows(ITEM, later)]))
    return made.path


def change(lsn: int, operation: int, key: int | None, name: str | None) -> dict[str, Any]:
    return {
        "__$start_lsn": lsn,
        "__$seqval": (key or 0) + 1,
        "__$operation": operation,
        "__$update_mask": full_mask(3) if operation < 3 else pack_mask([3], 3),
        "id": key,
        "{name}": name,
    }


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return rows.sort_by([(name, "ascending") for name in ORDER]).to_pylist()


@pytest.mark.exhaustive
def test_dataframes_are_those_of_the_lake(connected: SparkSession, lake: str) -> None:
    changes, opened = Changes(for_reading(connected), lake), rowtide.open_lake(lake)
    found = changes.get_all_changes(NAME).toArrow()
    assert found.to_pylist() == opened.get_all_changes(NAME).to_arrow().read_all().to_pylist()
    for low in (None, CommitLsn(110)):
        net = changes.get_net_changes(NAME, low, None, "all with mask", is_ordered=True).toArrow()
        expected = opened.get_net_changes(NAME, low, None, "all with mask").to_arrow().read_all()
        assert in_order(net) == in_order(expected), low


@pytest.mark.exhaustive
def test_changes_of_a_table_are_read_too(connected: SparkSession, lake: str) -> None:
    rows, united = Changes(for_reading(connected), lake).get_table_changes([NAME])
    assert united.columns == ITEM.for_readers().columns
    assert rows.count() == 10


@pytest.mark.exhaustive
def test_what_may_not_be_asked_of_dataframes_has_its_number(connected: SparkSession, lake: str) -> None:
    changes = Changes(for_reading(connected), lake)
    with pytest.raises(LsnOutOfRange):
        changes.get_all_changes(NAME, CommitLsn(1))
    with pytest.raises(InstanceUnknown):
        changes.get_all_changes("other")
    with pytest.raises(UnknownRowFilter):
        changes.get_net_changes(NAME, row_filter_option="all of it")


@pytest.mark.exhaustive
def test_functions_return_what_dataframes_return(connected: SparkSession, lake: str) -> None:
    names = rowtide.register(connected, lake)
    assert f"fn_cdc_get_net_changes_{NAME}" in names
    assert connected.sql(f"select fn_cdc_get_min_lsn('{NAME}'), fn_cdc_get_max_lsn()").collect() == [(90, 130)]
    opened = rowtide.open_lake(lake)
    for kind, ask in (("all", opened.get_all_changes), ("net", opened.get_net_changes)):
        found = connected.sql(f"select * from fn_cdc_get_{kind}_changes_{NAME}(90, 130, 'all')").toArrow()
        assert in_order(found) == in_order(ask(NAME).to_arrow().read_all()), kind


@pytest.mark.exhaustive
@pytest.mark.parametrize("arguments", ["1, 130, 'all'", "90, 131, 'all'", "90, 130, 'all of it'"])
def test_what_may_not_be_asked_of_functions_raises(connected: SparkSession, lake: str, arguments: str) -> None:
    rowtide.register(connected, lake)
    with pytest.raises(PySparkException, match="RT-313"):
        connected.sql(f"select count(*) from fn_cdc_get_net_changes_{NAME}({arguments})").collect()


@pytest.mark.exhaustive
def test_the_source_is_read_as_batch_and_stream(connected: SparkSession, lake: str, tmp_path: Path) -> None:
    rowtide.register_source(connected)
    expected = in_order(rowtide.open_lake(lake).get_all_changes(NAME).to_arrow().read_all())
    batch = connected.read.format("rowtide").option("instance", NAME).load(lake)
    assert in_order(batch.toArrow()) == expected
    stream = connected.readStream.format("rowtide").option("instance", NAME).load(lake)
    writer = stream.withColumnRenamed("{name}", "name").writeStream.format("delta")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query.start(str(tmp_path / "sink")).awaitTermination()
    written = connected.read.format("delta").load(str(tmp_path / "sink")).withColumnRenamed("name", "{name}")
    assert in_order(written.toArrow()) == expected


def test_the_given_session_keeps_its_settings(connected: SparkSession) -> None:
    name = "spark.sql.session.timeZone"
    connected.conf.set(name, "Asia/Tokyo")
    assert for_reading(connected).conf.get(name) == "UTC"
    assert connected.conf.get(name) == "Asia/Tokyo"
    connected.conf.unset(name)
