"""Net changes of windows whose rows lack values, and of others: by statistics, what no row has is not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import rowtide
from builders.capture.capture_instances import instance, source_table
from builders.lakes.made_lakes import MadeLake, make_rows
from rowtide.cdc.change_columns import full_mask, pack_mask
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages
from rowtide.lake.session import for_reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ITEM = instance(
    table=source_table([("id", "integer"), ("name", "text"), ("at", "date")]), before_images=BeforeImages.KEY
)
NAME = ITEM.capture_instance


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three cycles: whole rows; a truncate and rows that lack values; whole rows again."""
    made = MadeLake(tmp_path_factory.mktemp("lakes") / "lake")
    made.enable(ITEM, 90)
    lacking = {"name": None, "__$absent_mask": pack_mask([2], 3)}
    for rows in (
        [change(100, 2, 1), change(100, 2, 2), change(101, 4, 1), change(101, 2, 5) | {"__$seqval": 9}],
        [
            change(110, 6, None) | {"id": None, "name": None},
            change(111, 2, 1),
            change(112, 4, 1) | lacking,
            change(112, 4, 2) | lacking | {"__$exact": [(3, "infinity")]},
        ],
        [change(120, 4, 1), change(121, 1, 1), change(121, 2, 3)],
    ):
        made.publish((ITEM, [make_rows(ITEM, rows)]))
    return made.path


def change(lsn: int, operation: int, key: int | None) -> dict[str, Any]:
    return {
        "__$start_lsn": lsn,
        "__$seqval": (key or 0) + 1,
        "__$operation": operation,
        "__$update_mask": full_mask(3) if operation < 3 else pack_mask([3], 3),
        "id": key,
        "name": f"{key} at {lsn}",
    }


def net(spark: SparkSession, lake: str, low: int, high: int, option: str = "all") -> DataFrame:
    changes = Changes(for_reading(spark), lake)
    return changes.get_net_changes(NAME, CommitLsn(low), CommitLsn(high), option, is_ordered=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("option", ["all", "all with mask", "all with merge"])
@pytest.mark.parametrize(("low", "high"), [(90, 101), (90, 121), (111, 112), (111, 121), (120, 121)])
def test_each_window_is_as_without_spark(spark: SparkSession, lake: str, low: int, high: int, option: str) -> None:
    expected = rowtide.open_lake(lake).get_net_changes(NAME, CommitLsn(low), CommitLsn(high), option).to_arrow()
    assert in_order(net(spark, lake, low, high, option).toArrow()) == in_order(expected.read_all())


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return rows.sort_by([(name, "ascending") for name in ("__$start_lsn", "__$operation", "id")]).to_pylist()


@pytest.mark.parametrize(("low", "high", "are_read"), [(90, 101, False), (90, 121, True), (120, 121, False)])
def test_columns_without_a_value_are_not_read(
    spark: SparkSession, lake: str, capsys: pytest.CaptureFixture[str], low: int, high: int, *, are_read: bool
) -> None:
    net(spark, lake, low, high).explain()
    (schema,) = {line for line in capsys.readouterr().out.splitlines() if "ReadSchema" in line and "name:" in line}
    assert ("__$absent_mask" in schema.partition("ReadSchema")[2]) is are_read
