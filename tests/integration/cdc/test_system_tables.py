"""The system_tables's publication: cut anywhere, its repeat ends with the state that was meant."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builders.capture.publications import transactions
from builders.faults.cuts import Cut, cut_at
from rowtide.cdc import system_tables as system_tables_module
from rowtide.cdc.system_tables import LakeState, RecordedCycle, SystemTables
from rowtide.core.lsn import Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CYCLE = RecordedCycle(1, Position(10), Position(20))


@pytest.fixture
def system_tables(spark: SparkSession, lake: Path) -> SystemTables:
    """A new lake's system_tables, with one cycle recorded."""
    opened = SystemTables(str(lake), "a source", lambda: spark)
    opened.ensure()
    opened.record(CYCLE, token=1)
    return opened


@pytest.mark.parametrize(("lsns", "last_time"), [((12, 15), datetime.fromtimestamp(15, UTC)), ((), None)])
@pytest.mark.parametrize("place", ["publication.before", "publication.after"])
def test_a_publication_that_was_cut_is_finished_by_its_repeat(
    system_tables: SystemTables,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    lsns: tuple[int, ...],
    last_time: datetime | None,
) -> None:
    before = system_tables.read()
    assert before.open_cycle == CYCLE
    with monkeypatch.context() as patched:
        patched.setattr(system_tables_module, "failpoint", cut_at(place))
        with pytest.raises(Cut):
            system_tables.publish(before, CYCLE, transactions(*lsns), [])
    after = system_tables.publish(before, CYCLE, transactions(*lsns), [])
    assert after == system_tables.read() == LakeState(1, CYCLE.to_position, last_time, None, {})
    rows = system_tables.spark.read.format("delta").load(f"{system_tables.lake}/cdc/lsn_time_mapping").collect()
    assert sorted(row["start_lsn"] or 0 for row in rows) == list(lsns or (0,))
