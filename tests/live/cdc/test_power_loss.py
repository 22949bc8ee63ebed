"""Power is cut while the log is read and captured: what was not synced is gone, and no change is missing or doubled."""

from __future__ import annotations

import random

import pytest

import rowtide
from builders.capture.captured_databases import CapturedDatabase
from builders.faults.forgetful_disk import ForgetfulDisk


def lose_power(captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, syncs: int) -> bool:
    """Read the log and capture, cut the power after so many syncs, and return whether it was cut before the end."""
    disk = ForgetfulDisk(captured.lake)
    with disk.losing_power(monkeypatch, syncs):
        captured.capture()
    return disk.was_cut


@pytest.mark.parametrize("cuts", [12, pytest.param(400, marks=pytest.mark.soak)])
def test_nothing_is_lost_where_power_is_cut(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, cuts: int
) -> None:
    chosen = random.Random(31)
    captured.execute("create table item (id int primary key)", "create table other (id int primary key)")
    captured.enable("item", "other")
    captured.capture()
    were_cut = 0
    for number in range(cuts):
        captured.execute(f"insert into item values ({number})", f"insert into other values ({number})")
        were_cut += lose_power(captured, monkeypatch, chosen.randrange(60))
    assert were_cut > cuts // 4
    captured.capture()
    lake = rowtide.open_lake(str(captured.lake))
    for table in ("item", "other"):
        found = lake.get_all_changes(f"public_{table}").to_arrow().read_all()
        assert found["id"].to_pylist() == list(range(cuts))


def test_a_disk_forgets_what_is_not_synced(captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without syncs of its own, capture would lose what it published."""
    captured.execute("create table item (id int primary key)")
    captured.enable("item")
    captured.capture()
    before = rowtide.open_lake(str(captured.lake)).get_max_lsn()
    captured.execute("insert into item values (1)")
    assert lose_power(captured, monkeypatch, 0)
    assert rowtide.open_lake(str(captured.lake)).get_max_lsn() == before
