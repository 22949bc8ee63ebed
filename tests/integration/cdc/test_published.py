"""The last publication, found in the newest files or, behind many gaps, in all of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builders.publications import transactions
from rowtide.cdc import published
from rowtide.cdc.ledger import Ledger, RecordedCycle
from rowtide.cdc.published import Publication, read_publication, read_visible_publication
from rowtide.core.lsn import CommitLsn, Position
from rowtide.lake.session import pinned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def ledger(spark: SparkSession, lake: Path) -> Ledger:
    """A new lake's ledger."""
    opened = Ledger(pinned(spark), str(lake), "a source")
    opened.ensure()
    return opened


def publish(ledger: Ledger, cycle: int, *lsns: int) -> None:
    recorded = RecordedCycle(cycle, Position(cycle * 10), Position(cycle * 10 + 10))
    ledger.record(recorded, token=1)
    ledger.publish(ledger.read(), recorded, transactions(*lsns), [])


def test_a_lake_without_publications_and_no_lake(ledger: Ledger, tmp_path: Path) -> None:
    assert read_publication(ledger.spark, ledger.lake) == Publication(0, None, None)
    assert read_visible_publication(ledger.spark, str(tmp_path / "none")) is None


def test_last_lsn_is_found_behind_cycles_without_transactions(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "NEWEST_CYCLES", 2)
    publish(ledger, 1, 12, 15)
    for cycle in range(2, 6):
        publish(ledger, cycle)
    last = Publication(5, CommitLsn(15), datetime.fromtimestamp(15, UTC))
    assert read_publication(ledger.spark, ledger.lake) == last
    assert read_visible_publication(ledger.spark, ledger.lake) == last
    publish(ledger, 6, 121, 122)
    assert ledger.read().last_time == datetime.fromtimestamp(122, UTC)
    assert read_visible_publication(ledger.spark, ledger.lake) == Publication(
        6, CommitLsn(122), datetime.fromtimestamp(122, UTC)
    )
