"""The last publication, found in the newest files or, behind many gaps, in all of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builders.capture.publications import transactions
from rowtide.cdc import published
from rowtide.cdc.published import LakePublication, read_publication, read_visible_publication
from rowtide.cdc.system_tables import RecordedCycle, SystemTables
from rowtide.core.lsn import CommitLsn, Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def system_tables(spark: SparkSession, lake: Path) -> SystemTables:
    """A new lake's system_tables."""
    opened = SystemTables(str(lake), "a source", lambda: spark)
    opened.ensure()
    return opened


def publish(system_tables: SystemTables, cycle: int, *lsns: int) -> None:
    recorded = RecordedCycle(cycle, Position(cycle * 10), Position(cycle * 10 + 10))
    system_tables.record(recorded, token=1)
    system_tables.publish(system_tables.read(), recorded, transactions(*lsns), [])


def test_a_lake_without_publications_and_no_lake(system_tables: SystemTables, tmp_path: Path) -> None:
    assert read_publication(system_tables.lake) == LakePublication(0, None, None)
    assert read_visible_publication(str(tmp_path / "none")) is None


def test_last_lsn_is_found_behind_cycles_without_transactions(
    system_tables: SystemTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "NEWEST_CYCLES", 2)
    publish(system_tables, 1, 12, 15)
    for cycle in range(2, 6):
        publish(system_tables, cycle)
    last = LakePublication(5, CommitLsn(15), datetime.fromtimestamp(15, UTC))
    assert read_publication(system_tables.lake) == last
    assert read_visible_publication(system_tables.lake) == last
    publish(system_tables, 6, 121, 122)
    assert system_tables.read().last_time == datetime.fromtimestamp(122, UTC)
    assert read_visible_publication(system_tables.lake) == LakePublication(
        6, CommitLsn(122), datetime.fromtimestamp(122, UTC)
    )
