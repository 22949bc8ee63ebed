"""Lakes that builds of each format wrote: each reader finds in them what it found then."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import rowtide
from builders.lakes.delta_values import require_same
from builders.recordings import Recording, as_plain, read_change_rows
from rowtide.cdc.spark_changes import Changes
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.operations import Operation
from rowtide.lake.session import pinned
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import read_segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTANCES = (
    "odd",
    "orders_part",
    "public_again",
    "public_bare",
    "public_moments",
    "public_notes",
    "public_orders",
    "public_readings",
    "public_ticks",
)
ALL = (
    "select * from fn_cdc_get_all_changes_{name}("
    "(select fn_cdc_get_min_lsn('{name}')), (select fn_cdc_get_max_lsn()), 'all update old') "
    "order by `__$start_lsn`, `__$seqval`, `__$operation`"
)


@pytest.mark.parametrize("name", INSTANCES)
def test_the_changes_of_an_instance_are_those_recorded(
    spark: SparkSession, shared_recording: Recording, name: str
) -> None:
    found = read_change_rows(spark, str(shared_recording.folder / "lake"), name)
    assert found == shared_recording.contents["lake"][name]
    assert found["rows"]


def test_no_other_instance_is_there(spark: SparkSession, shared_recording: Recording) -> None:
    instances = Changes(pinned(spark), str(shared_recording.folder / "lake")).list_recorded_instances()
    assert [recorded.instance.capture_instance for recorded in instances] == list(INSTANCES)


def test_what_a_lake_publishes_is_read_without_pyspark(shared_recording: Recording) -> None:
    program = """
import sys
sys.modules["pyspark"] = sys.modules["py4j"] = None
from rowtide.cdc import PublishedLake
from rowtide.cdc.queries.lsn_times import LsnTimes
lake = PublishedLake(sys.argv[1])
for recorded in lake.list_recorded_instances():
    print(recorded.instance.capture_instance, LsnTimes(lake.lake).find_time(lake.get_max_lsn()) is not None)
"""
    place = str(shared_recording.folder / "lake")
    printed = subprocess.run([sys.executable, "-c", program, place], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [f"{name} True" for name in INSTANCES]


@pytest.mark.exhaustive
def test_our_own_reading_of_every_table_is_sparks(spark: SparkSession, shared_recording: Recording) -> None:
    tables = sorted(path.parent for path in shared_recording.folder.glob("*/cdc/*/_delta_log"))
    assert len(tables) > 15
    for path in tables:
        require_same(spark, path)


@pytest.mark.exhaustive
def test_the_sql_functions_return_the_changes_recorded(spark: SparkSession, shared_recording: Recording) -> None:
    session = pinned(spark)
    rowtide.register(session, str(shared_recording.folder / "lake"))
    for name in ("odd", "public_ticks"):
        rows = session.sql(ALL.format(name=name)).collect()
        recorded = shared_recording.contents["lake"][name]
        assert [[as_plain(value) for value in row] for row in rows] == recorded["rows"]


def test_an_open_cycle_is_known_and_not_shown(spark: SparkSession, shared_recording: Recording) -> None:
    lake = str(shared_recording.folder / "interrupted")
    found = read_change_rows(spark, lake, "public_item")
    assert found == shared_recording.contents["interrupted lake"]["public_item"]
    assert [row[4:6] for row in found["rows"]] == [[1, "published"]]
    state = SystemTables(lake, "").read()
    assert state.open_cycle is not None
    assert state.open_cycle.cycle == state.cycle + 1


def test_a_log_store_with_half_a_transaction_is_read(shared_recording: Recording) -> None:
    store = open_store(str(shared_recording.folder / "interrupted" / "log"))
    state = Manifest.open(store).state
    assert len(store.list("pending/")) == 2
    rows = [row for segment in state.segments for row in read_segment(store, segment.path).to_pylist()]
    inserted = [row["after"] for row in rows if row["operation"] == Operation.INSERT]
    assert sorted(inserted) == [["1"], ["1", "published"], ["2", "open"]]
