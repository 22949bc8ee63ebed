"""Small files become few, and nobody sees a difference but in their number."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import CapturedDatabase
from rowtide.lake import tables

CYCLES = 8


def count_files(captured: CapturedDatabase, name: str) -> int:
    return len(tables.read_table(captured.spark, f"{captured.lake}/cdc/{name}").inputFiles())


@pytest.mark.exhaustive
def test_tables_are_compacted_in_turn_beside_cycles_and_readers(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "COMPACTION_INTERVAL", 4)
    captured.execute('create table item (id int primary key, "a, b" text)')
    captured.enable("item")
    captured.capture()
    asked = captured.cdc.get_all_changes("public_item", spark=captured.spark)
    with captured.open_capture() as capture:
        for number in range(1, CYCLES + 1):
            captured.execute(f"insert into item values ({number}, 'x')")
            captured.read_log()
            while capture.step():
                pass
    for name in ("public_item_CT", "cycles", "lsn_time_mapping"):
        assert count_files(captured, name) <= CYCLES / 2
    assert captured.values("public_item", "id", "a, b") == [(2, number, "x") for number in range(1, CYCLES + 1)]
    assert asked.count() == 0
    captured.execute("update item set id = -id")
    captured.capture()
    assert len(captured.values("public_item")) == 3 * CYCLES
    mapping = tables.read_table(captured.spark, f"{captured.lake}/cdc/lsn_time_mapping")
    assert mapping.select("cycle").distinct().count() == captured.manifest().state.readers["cdc"].cycle
