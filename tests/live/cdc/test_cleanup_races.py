"""Two processes that clean up one lake: the one that lost the lake's lease moves nothing; captured without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

import rowtide
from builders.capture.captured_databases import LoggedDatabase
from builders.capture.following import capture, no_spark
from rowtide.cdc.cleanup.cleanup import Cleanup
from rowtide.cdc.cleanup.retention import CleanupsTable, LowWaterMarks, RecordedCleanup
from rowtide.cdc.consumers.consumers import Consumer
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.requests import CleanupOrder
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.connect import open_engine
from rowtide.log.errors import LeaseLost
from rowtide.log.postgres.lease import AdvisoryLease

NAME = "public_item"


def test_a_cleanup_that_another_process_overtook_moves_nothing(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    logged.execute(*(f"insert into item values ({each})" for each in range(1, 4)))
    capture(logged)
    lake = rowtide.open_lake(str(logged.lake))
    _, second, third = (
        CommitLsn(row["__$start_lsn"]) for row in lake.get_all_changes(NAME).to_arrow().read_all().to_pylist()
    )
    source = logged.cdc.get_source()

    def tables() -> SystemTables:
        return SystemTables(source.lake, source.source_id, no_spark)

    with AdvisoryLease.take(open_engine(logged.url), "lake") as lease:
        late = LakeLease.take(logged.store(), lease)

        def overtake() -> Iterable[Consumer]:
            """Record a cleanup as the lake's next holder does, which is killed before it moves anything."""
            newer = LakeLease.take(logged.store(), lease)
            own = tables()
            mark = LowWaterMarks(source.lake).at(third)
            recorded = RecordedCleanup(1, own.read().cycle, None, mark, datetime.now(UTC))
            CleanupsTable(own).record(recorded, newer.token)
            return ()

        with pytest.raises(LeaseLost):
            Cleanup(tables(), late, overtake).begin(CleanupOrder(NAME, second))
        Cleanup(tables(), LakeLease.take(logged.store(), lease)).begin(CleanupOrder(NAME))
    assert lake.get_min_lsn(NAME) == third
