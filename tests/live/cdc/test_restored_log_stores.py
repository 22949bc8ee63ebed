"""A log store that was restored to an earlier state than the lake that was captured from it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from builders.capture.captured_databases import CapturedDatabase
from rowtide.cdc.errors.capturing import LakeOfAnotherHistory


@pytest.fixture
def restored(copied: CapturedDatabase, tmp_path: Path) -> CapturedDatabase:
    """The lake knows epoch 1 of the log, the log store is back in epoch 0."""
    copied.execute("create table t (id int primary key)")
    copied.enable("t")
    copied.execute("insert into t values (1)")
    copied.capture()
    shutil.copytree(copied.lake / "log", tmp_path / "kept")
    copied.drop_slot()
    copied.cdc.reinitialize("the slot was dropped")
    copied.execute("insert into t values (2)")
    copied.capture()
    assert copied.manifest().state.epoch == 1
    shutil.rmtree(copied.lake / "log")
    shutil.copytree(tmp_path / "kept", copied.lake / "log")
    return copied


@pytest.mark.exhaustive
def test_an_epoch_that_the_lake_knows_is_not_opened_again(restored: CapturedDatabase) -> None:
    restored.cdc.reinitialize("the log store was restored")
    restored.execute("insert into t values (3)")
    restored.capture()
    assert restored.manifest().state.epoch == 2
    # Ranges over the gap are refused: the instance begins again.
    assert restored.values("public_t", "id") == [(2, 3)]


def test_nothing_is_captured_from_an_earlier_epoch(restored: CapturedDatabase) -> None:
    with pytest.raises(LakeOfAnotherHistory, match=r"RT-1181: .* an epoch before"):
        restored.capture_log()
