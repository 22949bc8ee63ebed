"""The ledger's publication: cut anywhere, its repeat ends with the state that was meant."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builders.publications import transactions
from rowtide.cdc import ledger as ledger_module
from rowtide.cdc.ledger import LakeState, Ledger, RecordedCycle
from rowtide.core.lsn import Position
from rowtide.lake.session import pinned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CYCLE = RecordedCycle(1, Position(10), Position(20))


class Cut(Exception):
    """Capture ended here."""


@pytest.fixture
def ledger(spark: SparkSession, lake: Path) -> Ledger:
    """A new lake's ledger, with one cycle recorded."""
    opened = Ledger(pinned(spark), str(lake), "a source")
    opened.ensure()
    opened.record(CYCLE, token=1)
    return opened


def cut_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(passed: str) -> None:
        if passed == name:
            raise Cut

    monkeypatch.setattr(ledger_module, "failpoint", fail)


@pytest.mark.parametrize(("lsns", "last_time"), [((12, 15), datetime.fromtimestamp(15, UTC)), ((), None)])
@pytest.mark.parametrize("place", ["publication.before", "publication.after"])
def test_a_publication_that_was_cut_is_finished_by_its_repeat(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, place: str, lsns: tuple[int, ...], last_time: datetime | None
) -> None:
    before = ledger.read()
    assert before.open_cycle == CYCLE
    with monkeypatch.context() as patched:
        cut_at(place, patched)
        with pytest.raises(Cut):
            ledger.publish(before, CYCLE, transactions(*lsns), [])
    after = ledger.publish(before, CYCLE, transactions(*lsns), [])
    assert after == ledger.read() == LakeState(1, CYCLE.to_position, last_time, None, {})
    rows = ledger.spark.read.format("delta").load(f"{ledger.lake}/cdc/lsn_time_mapping").collect()
    assert sorted(row["start_lsn"] or 0 for row in rows) == list(lsns or (0,))
