"""Captured tables that nobody writes: the maximum LSN and the times of LSNs move on all the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from builders.capture.captured_databases import CapturedDatabase
from rowtide.cdc.capture import planning
from rowtide.cdc.published import system_table_path
from rowtide.core.lsn import CommitLsn
from rowtide.lake import tables
from rowtide.log.errors import LeaseLost


@pytest.fixture
def idle(captured: CapturedDatabase) -> CapturedDatabase:
    """A database with a captured table, one row of which is published."""
    captured.execute("create table item (id int)")
    captured.enable("item")
    captured.execute("insert into item values (1)")
    captured.capture()
    return captured


def write_heartbeat(idle: CapturedDatabase) -> None:
    idle.execute("insert into rowtide.control (kind, content) values ('heartbeat', '')")


def published(idle: CapturedDatabase) -> list[dict[str, Any]]:
    """Return the rows of `lsn_time_mapping`, in order."""
    rows = tables.read_table(idle.spark, system_table_path(str(idle.lake), "lsn_time_mapping"))
    found: list[dict[str, Any]] = rows.orderBy("cycle", "start_lsn").toArrow().to_pylist()
    return found


def max_lsn(idle: CapturedDatabase) -> CommitLsn:
    lsn = idle.cdc.get_max_lsn()
    assert lsn is not None
    return lsn


@pytest.mark.exhaustive
def test_a_heartbeat_is_published_when_it_is_due_and_only_then(
    idle: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = published(idle)
    write_heartbeat(idle)
    idle.capture()
    assert published(idle) == before
    monkeypatch.setattr(planning, "LONGEST_SILENCE", timedelta(0))
    low, earlier = idle.cdc.get_min_lsn("public_item"), max_lsn(idle)
    write_heartbeat(idle)
    idle.capture()
    last = published(idle)[-1]
    assert last["tran_id"] == 0
    assert last["tran_end_time"] == last["tran_commit_time"] > before[-1]["tran_end_time"]
    assert CommitLsn(last["start_lsn"]) == max_lsn(idle) > earlier
    assert idle.cdc.get_min_lsn("public_item") == low
    assert idle.values("public_item", "id") == [(2, 1)]


@pytest.fixture
def always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "LONGEST_SILENCE", timedelta(0))


@pytest.mark.exhaustive
@pytest.mark.usefixtures("always_due")
def test_heartbeat_interrupted_in_publication_is_published_once(idle: CapturedDatabase) -> None:
    before = published(idle)
    write_heartbeat(idle)
    idle.read_log()
    record_without_publishing(idle)
    assert published(idle) == before
    write_heartbeat(idle)
    idle.read_log()
    idle.capture_log()
    added = published(idle)[len(before) :]
    assert [row["tran_id"] for row in added] == [0, 0]
    assert added[0]["start_lsn"] < added[1]["start_lsn"]
    assert [row["cycle"] for row in added] == [before[-1]["cycle"] + 1, before[-1]["cycle"] + 2]


def record_without_publishing(idle: CapturedDatabase) -> None:
    """Run one cycle that loses its lease between the recorded range and the publication."""
    with idle.open_capture(verifications=1) as capture, pytest.raises(LeaseLost):
        capture.step()
