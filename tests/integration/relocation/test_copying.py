"""A lake and its log store are copied, resumed, brought up to date, and refused where the target is another."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import rowtide
from builders.commands.command_lines import rowtide as run
from builders.faults.failpoints import COPY_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.lakes.relocated_lakes import NAME, FilledLake, describe, read_ids, read_position
from rowtide.delta.writing.changes import vacuum
from rowtide.delta.writing.compaction import compact
from rowtide.lake.stores import locate, open_folder
from rowtide.log.store.maintenance import merge_segments
from rowtide.relocation.copying import Copied, CopyProgress
from rowtide.relocation.errors import CopyDiverged, CopyOvertaken, NothingToCopy
from rowtide.relocation.portions import CopyStep
from rowtide.relocation.transfer import FOLDER
from rowtide.storage.store import Missing

COPY = "import sys, rowtide; rowtide.copy_lake(*sys.argv[1:])"


@pytest.fixture
def filled(tmp_path: Path) -> FilledLake:
    return FilledLake(tmp_path / "lake").fill(3)


def copy(filled: FilledLake, target: Path) -> Copied:
    return rowtide.copy_lake(filled.path, str(target))


def require_same(filled: FilledLake, target: Path) -> None:
    """Require that a copy has every table's state, and the log store's."""
    assert describe(str(target)) == describe(filled.path)
    assert read_ids(str(target)) == read_ids(filled.path) == list(range(1, filled.rows + 1))
    assert read_position(f"{target}/log") == filled.manifest.state.position


def test_a_copy_has_every_state(filled: FilledLake, tmp_path: Path) -> None:
    copied = copy(filled, tmp_path / "copy")
    require_same(filled, tmp_path / "copy")
    assert (copied.tables, copied.has_log_store) == (4, True)
    assert copied.copied_files == copied.files


def test_a_repeat_copies_nothing(filled: FilledLake, tmp_path: Path) -> None:
    copy(filled, tmp_path / "copy")
    assert copy(filled, tmp_path / "copy").copied_files == 0


def test_a_repeat_copies_what_was_added(filled: FilledLake, tmp_path: Path) -> None:
    before = copy(filled, tmp_path / "copy")
    filled.fill(2)
    after = copy(filled, tmp_path / "copy")
    require_same(filled, tmp_path / "copy")
    assert after.copied_files == after.files - before.files > 0


def test_what_was_copied_by_other_means_is_only_compared(filled: FilledLake, tmp_path: Path) -> None:
    copy(filled, tmp_path / "copy")
    for record in (tmp_path / "copy" / FOLDER).iterdir():
        record.unlink()
    assert copy(filled, tmp_path / "copy").copied_files == 0


def test_a_damaged_data_file_is_copied_again(filled: FilledLake, tmp_path: Path) -> None:
    copy(filled, tmp_path / "copy")
    (damaged, *_) = (tmp_path / "copy" / "cdc" / f"{NAME}_CT").glob("*.parquet")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert copy(filled, tmp_path / "copy").copied_files == 1
    require_same(filled, tmp_path / "copy")


@pytest.mark.parametrize("is_overtaken", [False, True])
def test_a_copy_from_before_checkpoints_is_completed(filled: FilledLake, tmp_path: Path, *, is_overtaken: bool) -> None:
    """Also where the source has no longer the entries that follow the copy's."""
    filled.checkpoint_often()
    copy(filled, tmp_path / "copy")
    filled.fill(12)
    filled.take_leases(230 if is_overtaken else 80)
    if is_overtaken:
        filled.forget_versions()
    copy(filled, tmp_path / "copy")
    require_same(filled, tmp_path / "copy")
    filled.fill(1)
    copy(filled, tmp_path / "copy")
    require_same(filled, tmp_path / "copy")


def test_a_copy_begins_at_the_last_checkpoint(filled: FilledLake, tmp_path: Path) -> None:
    filled.checkpoint_often()
    filled.fill(20)
    filled.take_leases(250)
    copy(filled, tmp_path / "copy")
    require_same(filled, tmp_path / "copy")
    assert len(list((tmp_path / "copy" / "cdc" / f"{NAME}_CT" / "_delta_log").glob("*.json"))) < 10
    assert len(list((tmp_path / "copy" / "log" / "manifest").iterdir())) <= 100


@pytest.mark.parametrize("hit", [1, 2, 9, 14, 17])
@pytest.mark.parametrize("failpoint", COPY_FAILPOINTS)
def test_a_killed_copy_goes_on(filled: FilledLake, tmp_path: Path, failpoint: str, hit: int) -> None:
    target = tmp_path / "copy"
    ended = run_program(COPY, filled.path, str(target), failpoint=f"{failpoint}@{hit}")
    assert ended == KILLED
    filled.fill(1)
    copied = copy(filled, target)
    require_same(filled, target)
    assert copied.copied_files < copied.files or hit < 3


def test_nothing_is_read_of_an_unfinished_copy(filled: FilledLake, tmp_path: Path) -> None:
    run_program(COPY, filled.path, str(tmp_path / "copy"), failpoint="lake_copy.before@17")
    with pytest.raises(rowtide.RowtideError, match="nothing was captured to the lake"):
        rowtide.open_lake(str(tmp_path / "copy"))


def test_a_table_is_compacted_meanwhile(filled: FilledLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compacted, and its old files removed, each time something is copied: until nothing is left to compact."""
    from rowtide.relocation import transfer

    send = transfer.FileTransfer._send
    rounds = iter(range(3))

    def send_later(self: transfer.FileTransfer, way: transfer.Way, step: CopyStep) -> transfer.Content:
        if step.portion.endswith("_CT") and next(rounds, None) is not None:
            filled.fill(2)
            location = locate(filled.change_table)
            compact(location, "__$start_lsn")
            vacuum(location, open_folder(filled.change_table), datetime.now(UTC) + timedelta(days=3))
        return send(self, way, step)

    monkeypatch.setattr(transfer, "AT_ONCE", 1)
    monkeypatch.setattr(transfer.FileTransfer, "_send", send_later)
    copy(filled, tmp_path / "copy")
    require_same(filled, tmp_path / "copy")
    assert filled.rows == 9


def test_segments_that_vanish_again_and_again_end_the_copy(
    filled: FilledLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rowtide.relocation import transfer

    def vanish(_self: object, _way: object, step: CopyStep) -> transfer.Content:
        raise Missing(step.path)

    monkeypatch.setattr(transfer.FileTransfer, "_send", vanish)
    with pytest.raises(CopyOvertaken, match="10 times in a row"):
        copy(filled, tmp_path / "copy")


def test_merged_segments_replace_those_that_were_copied(filled: FilledLake, tmp_path: Path) -> None:
    copy(filled, tmp_path / "copy")
    state = filled.manifest.state
    merge_segments(filled.store, filled.manifest, filled.token, state.segments, datetime.now(UTC))
    for segment in state.segments:
        filled.store.delete(segment.path)
    copy(filled, tmp_path / "copy")
    require_same(filled, tmp_path / "copy")


def test_files_that_are_being_written_are_not_copied(filled: FilledLake, tmp_path: Path) -> None:
    for left in (f"{filled.path}/log/pending/x.parquet", f"{filled.change_table}/orphan.parquet"):
        Path(left).parent.mkdir(exist_ok=True)
        Path(left).write_bytes(b"begun")
    (Path(filled.change_table) / ".tmp" / "begun").write_bytes(b"begun")
    copy(filled, tmp_path / "copy")
    there = [path.name for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    assert not {"x.parquet", "orphan.parquet", "begun"} & set(there)


def test_no_file_of_a_lake_names_its_place(filled: FilledLake, tmp_path: Path) -> None:
    copy(filled, tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("*"):
        if path.is_file():
            assert filled.path.encode() not in path.read_bytes(), path


def test_a_log_store_elsewhere_is_copied_to_where_it_shall_be(filled: FilledLake, tmp_path: Path) -> None:
    (tmp_path / "lake" / "log").rename(tmp_path / "logs")
    copied = rowtide.copy_lake(
        filled.path,
        str(tmp_path / "copy"),
        source_log_store=str(tmp_path / "logs"),
        target_log_store=str(tmp_path / "other logs"),
    )
    assert copied.has_log_store
    assert read_position(str(tmp_path / "other logs")) == read_position(str(tmp_path / "logs"))
    assert not (tmp_path / "copy" / "log").exists()


def test_a_lake_without_a_log_store_is_copied(filled: FilledLake, tmp_path: Path) -> None:
    (tmp_path / "lake" / "log").rename(tmp_path / "logs")
    assert not copy(filled, tmp_path / "copy").has_log_store
    assert read_ids(str(tmp_path / "copy")) == [1, 2, 3]


def test_another_lake_at_the_target_is_refused(filled: FilledLake, tmp_path: Path) -> None:
    FilledLake(tmp_path / "other").fill(3)
    with pytest.raises(CopyDiverged):
        copy(filled, tmp_path / "other")
    assert read_ids(str(tmp_path / "other")) == [1, 2, 3]


def test_a_copy_that_was_written_to_is_refused(filled: FilledLake, tmp_path: Path) -> None:
    copy(filled, tmp_path / "copy")
    filled.fill(1)
    with pytest.raises(CopyDiverged, match="at version"):
        rowtide.copy_lake(str(tmp_path / "copy"), filled.path)


def test_a_log_store_with_another_last_entry_is_refused(filled: FilledLake, tmp_path: Path) -> None:
    copy(filled, tmp_path / "copy")
    filled.take_leases(1)
    number = filled.manifest.state.version
    taken = tmp_path / "copy" / "log" / "manifest" / f"{number:020}.json"
    taken.write_bytes(Path(f"{filled.path}/log/manifest/{number:020}.json").read_bytes().replace(b"some", b"else"))
    filled.fill(1)
    with pytest.raises(CopyDiverged, match=f"manifest/{number:020}.json has another content"):
        copy(filled, tmp_path / "copy")
    assert read_ids(str(tmp_path / "copy")) == [1, 2, 3]


def test_a_place_without_a_lake_is_not_copied(tmp_path: Path) -> None:
    with pytest.raises(NothingToCopy, match="RT-3121"):
        rowtide.copy_lake(str(tmp_path / "none"), str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("for_group", "mode"), [(False, 0o700), (True, 0o2750)])
def test_a_copy_is_private_unless_it_is_for_a_group(
    filled: FilledLake, tmp_path: Path, mode: int, *, for_group: bool
) -> None:
    target = tmp_path / "copy"
    rowtide.copy_lake(filled.path, str(target), for_group=for_group)
    assert stat.S_IMODE(target.stat().st_mode) == mode
    files = [path for path in target.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o640 if for_group else 0o600}


def test_progress_ends_at_the_totals(filled: FilledLake, tmp_path: Path) -> None:
    reports: list[CopyProgress] = []
    copied = rowtide.copy_lake(filled.path, str(tmp_path / "copy"), on_progress=reports.append)
    assert (reports[-1].files, reports[-1].total_files) == (copied.copied_files, copied.files)
    assert reports[-1].bytes == copied.copied_bytes == reports[-1].total_bytes


def test_the_command_says_what_it_copied(filled: FilledLake, tmp_path: Path) -> None:
    planned = run("lake", "copy", filled.path, str(tmp_path / "copy"), "--dry-run")
    assert (planned.code, planned.output) == (0, "")
    assert "Nothing was copied." in planned.errors
    assert not (tmp_path / "copy").exists()
    ended = run("lake", "copy", filled.path, str(tmp_path / "copy"))
    assert ended.code == 0, ended.errors
    assert "the copy has 4 tables and the log store" in ended.errors
    require_same(filled, tmp_path / "copy")
    refused = run("lake", "copy", filled.path, f"{filled.path}/copy")
    assert "is inside" in refused.require_error(3124)


def test_a_target_that_cannot_be_written_is_named(filled: FilledLake) -> None:
    run("lake", "copy", filled.path, "/proc/copy").require_error(3101)
