"""Minutes of random kills, restarts and membership changes under load: every instance ends up with its own history."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from builders.capture.captured_databases import CapturedDatabase
from builders.capture.storms import INSTANCES, Storm
from builders.lakes.change_histories import read_transactions
from builders.workloads import History, Workload, make_tables, read_histories
from fixtures.captured import open_captured
from rowtide.cdc.published import change_table_path, system_table_path
from rowtide.databases.postgres.embedded import EmbeddedServer, ServerVersion
from rowtide.lake import tables

pytestmark = [pytest.mark.live, pytest.mark.timeout(3600)]


@contextmanager
def storm_over(version: ServerVersion, spark: SparkSession, place: Path) -> Iterator[tuple[Storm, Workload]]:
    """Capture a workload on a server of its own, which may be killed."""
    seed = int(os.environ.get("ROWTIDE_SOAK_SEED") or random.randrange(1_000_000))
    with (
        EmbeddedServer.start(place / "server", version=version) as server,
        open_captured(server, place / "lake", spark) as captured,
    ):
        make_tables(captured.session)
        captured.enable("public.account")
        storm = Storm(server, captured, place, seed)
        with storm.told(), Workload(captured.url) as workload:
            storm.process.wait_published(captured)
            yield storm, workload


@pytest.mark.parametrize(
    ("version", "seconds"),
    [
        (18, 40),
        pytest.param(18, 900, marks=pytest.mark.soak),
        pytest.param(16, 600, marks=pytest.mark.soak),
    ],
)
@pytest.mark.exhaustive
def test_each_instance_has_exactly_its_history_after_any_storm(
    version: ServerVersion, seconds: float, spark: SparkSession, tmp_path: Path
) -> None:
    with storm_over(version, spark, tmp_path) as (storm, workload):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            storm.strike()
            storm.read()
        workload.stop()
        storm.process.wait_published(storm.captured)
        require_equal_histories(storm, storm.read())
        require_transactions_once_in_order(storm.captured)
        require_only_enabled_left(storm.captured)


def require_equal_histories(storm: Storm, captured: dict[str, History]) -> None:
    """Compare each instance's rows, all and those of each read before, with what the triggers remember."""
    histories = read_histories(storm.captured.session)
    assert captured == {member: histories.get(member, {}) for member in captured}
    lsns = {xid: lsn for lsn, xid in read_transactions(storm.captured).items()}
    for high, seen in storm.seen:
        for member, xids in seen.items():
            # A transaction without LSN was published without rows: together with the end of its instances.
            assert xids == {xid for xid in histories.get(member, {}) if xid in lsns and lsns[xid] <= high.value}


def require_transactions_once_in_order(captured: CapturedDatabase) -> None:
    """Each transaction is published once, and never behind a later one."""
    mapping = tables.read_table(captured.spark, system_table_path(str(captured.lake), "lsn_time_mapping"))
    rows = mapping.where("start_lsn is not null").orderBy("start_lsn").collect()
    assert len({row["start_lsn"] for row in rows}) == len({row["tran_id"] for row in rows}) == len(rows)
    for column in ("cycle", "tran_end_time"):
        assert [row[column] for row in rows] == sorted(row[column] for row in rows)


def require_only_enabled_left(captured: CapturedDatabase) -> None:
    """What is enabled is known, and the rows of what was disabled are gone."""
    enabled = {listed.capture_instance for listed in captured.cdc.list_instances()}
    known = captured.cdc.list_recorded_instances()
    assert {recorded.instance.capture_instance for recorded in known} == enabled
    for name in INSTANCES.keys() - enabled:
        place = change_table_path(str(captured.lake), name)
        assert not tables.is_table(place) or not tables.read_table(captured.spark, place).count()
