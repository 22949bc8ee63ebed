"""The thread beside capture: its errors stop nothing but their work, a lost lease ends it, and it ends with its run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builders.capture.captured_databases import wait_until
from builders.faults.watched_stores import WatchedStore
from builders.lakes.delta_tables import append, create, locate, own
from builders.log.log_stores import open_manifest
from rowtide.cdc import lake_lease
from rowtide.cdc.lake_lease import LAKE, LakeLease
from rowtide.cdc.running.threads import LakeUpkeep
from rowtide.delta.snapshot import Location
from rowtide.delta.writing import commit_race
from rowtide.delta.writing.commits import Committer
from rowtide.lake import tables
from rowtide.lake.tables import Compacted
from rowtide.log.errors import LeaseLost
from rowtide.log.store.location import LocalStore, open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import ManifestState


class Held(LakeLease):
    """A lease without a database: `verify` alone decides."""

    def require(self, state: ManifestState | None = None) -> None:
        self.verify()


def hold(folder: Path, verify: Callable[[], None] = lambda: None) -> LakeUpkeep:
    return LakeUpkeep(Held(Manifest(open_store(str(folder / "log"))), 1, verify))


def fill(path: Path, **properties: str) -> Path:
    create(path, **properties)
    committer = Committer()
    for cycle in (1, 2):
        append(committer, locate(path), cycle)
    return path


@pytest.fixture(autouse=True)
def two_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "COMPACTION_INTERVAL", 4)


def count_files(path: Path) -> int:
    return len(own(path).files)


def test_what_fails_is_logged_and_the_rest_is_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = fill(tmp_path / "table")
    with caplog.at_level(logging.WARNING), hold(tmp_path).running() as upkeep:
        upkeep.compact(Compacted(str(tmp_path / "none"), "id"))
        upkeep.compact(Compacted(str(path), "id"))
        upkeep.vacuum(str(path))
        wait_until(lambda: count_files(path) == 1, what="the compaction")
    assert f"upkeep_failed job=upkeep kind=compaction path={tmp_path / 'none'} number=" in caplog.text


def test_a_lost_lease_ends_upkeep_before_its_next_commit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def verify() -> None:
        calls.append(1)
        if len(calls) > 1:
            raise LeaseLost("lake", "another")

    path, other = fill(tmp_path / "table"), fill(tmp_path / "other")
    with caplog.at_level(logging.WARNING), hold(tmp_path, verify).running() as upkeep:
        upkeep.compact(Compacted(str(path), "id"))
        wait_until(lambda: "upkeep_ended" in caplog.text, what="the end of upkeep")
        upkeep.compact(Compacted(str(other), "id"))
    assert (count_files(path), count_files(other), len(calls)) == (2, 2, 2)


def test_checkpoints_are_written_beside_commits(tmp_path: Path) -> None:
    path = create(tmp_path / "table", **{"delta.checkpointInterval": "2"})
    with hold(tmp_path).running() as upkeep:
        committer = Committer(maintain=upkeep.maintain_log)
        for cycle in range(1, 6):
            append(committer, locate(path), cycle)
        wait_until(lambda: own(path).checkpoint_version == 4, what="the checkpoint")
    assert own(path).read().num_rows == 5


def test_the_end_of_a_run_ends_a_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, upkeep = fill(tmp_path / "table"), hold(tmp_path)
    began = threading.Event()

    def locate_late(found: str) -> Location:
        began.set()
        with upkeep._changed:
            assert upkeep._changed.wait_for(lambda: upkeep._is_over, 60)
        return locate(Path(found))

    monkeypatch.setattr(tables, "locate", locate_late)
    with upkeep.running():
        upkeep.compact(Compacted(str(path), "id"))
        assert began.wait(60)
    assert count_files(path) == 2
    assert not any(thread.name.startswith("rowtide-upkeep") for thread in threading.enumerate())


def test_what_nobody_expects_is_raised_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = threading.Event()

    def fail(_name: str) -> None:
        reached.set()
        raise ZeroDivisionError

    path = fill(tmp_path / "table")
    monkeypatch.setattr(commit_race, "failpoint", fail)

    def run() -> None:
        with hold(tmp_path).running() as upkeep:
            upkeep.compact(Compacted(str(path), "id"))
            assert reached.wait(60)

    with pytest.raises(ZeroDivisionError):
        run()


def test_a_lost_lease_is_known_by_what_capture_has_read(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    open_manifest(store)
    of_capture = Manifest.open(store)
    held = LakeLease(of_capture, of_capture.take_lease(LAKE, "this process"), lambda: None)
    watched = WatchedStore(store)
    beside = replace(held.for_thread(lambda: None), manifest=Manifest.open(watched))
    watched.take_calls()
    beside.require()
    Manifest.open(store).take_lease(LAKE, "another one")
    beside.require()
    of_capture.refresh()
    with pytest.raises(LeaseLost):
        beside.require()
    assert watched.take_calls() == []


def test_a_lost_lease_is_read_where_capture_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(str(tmp_path))
    open_manifest(store)
    of_capture = Manifest.open(store)
    held = LakeLease(of_capture, of_capture.take_lease(LAKE, "this process"), lambda: None)
    beside = held.for_thread(lambda: None)
    Manifest.open(store).take_lease(LAKE, "another one")
    beside.require()
    monkeypatch.setattr(lake_lease, "KNOWN_FOR_S", 0.0)
    with pytest.raises(LeaseLost):
        beside.require()
