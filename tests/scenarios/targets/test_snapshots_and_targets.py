"""Snapshots, changes, cleanups, gaps and kills in any order: each table as of each LSN is what the source had then."""

from __future__ import annotations

import random

import pytest

from builders.capture.captured_databases import CapturedDatabase
from builders.capture.snapshot_machines import SnapshotMachine, opened
from builders.capture.target_machines import TargetMachine
from rowtide.cdc.cleanup import cleanup as cleanup_module
from rowtide.lake import tables
from rowtide.targets import TargetFormat


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cleanup does not wait for readers here, and does not vacuum, which takes seconds."""
    monkeypatch.setattr(cleanup_module, "READER_GRACE_S", 0.0)
    monkeypatch.setattr(tables, "vacuum_files", lambda _location, _files: None)


SHORT, MIDDLE, LONG = 12, 60, 100
RUNS = [
    pytest.param(1, SHORT),
    *(pytest.param(seed, MIDDLE, marks=pytest.mark.exhaustive) for seed in range(2, 6)),
    *(pytest.param(seed, LONG, marks=pytest.mark.soak) for seed in range(100, 200)),
]


@pytest.mark.parametrize(("seed", "steps"), RUNS)
def test_tables_as_of_each_lsn_are_what_the_source_had(
    copied: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, seed: int, steps: int
) -> None:
    chosen = random.Random(seed)
    with opened(SnapshotMachine(copied, chosen, monkeypatch.setattr)) as machine:
        for number in range(steps):
            machine.step()
            if number % 6 == 5:
                machine.check()
        machine.settle()
        machine.check(8)
        assert machine.compared > 0, machine.log


@pytest.mark.soak
@pytest.mark.parametrize(("seed", "form"), list(enumerate([*TargetFormat] * 20)))
def test_targets_are_what_the_source_had(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, seed: int, form: TargetFormat
) -> None:
    chosen = random.Random(seed)
    with opened(TargetMachine(captured, chosen, monkeypatch.setattr, form=form)) as machine:
        for number in range(MIDDLE):
            machine.step()
            if number % 20 == 19:
                machine.check_targets()
        machine.check_columns()
        machine.check(2)
        machine.check_targets()
        assert machine.compared > 0, machine.log
