from __future__ import annotations

import multiprocessing
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from builders.log.log_stores import append_records, append_records_in_child, open_manifest, range_to, records
from rowtide.core.lsn import Position
from rowtide.log.errors import LeaseLost
from rowtide.log.store.entries import ReaderAdvanced
from rowtide.log.store.location import LocalStore
from rowtide.log.store.maintenance import (
    DELETE_GRACE,
    MANY_FILES,
    MERGE_AGE,
    MIN_MERGED_FILES,
    advance_placeholder,
    delete_orphans,
    ensure_placeholder,
    is_overdue,
    is_placeholder_behind,
    maintain,
    merge_segments,
    plan_merge,
    remove_placeholder,
    truncate,
)
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import read_segment, write_segment

NOW = datetime.now(UTC) + timedelta(hours=12)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def fill(store: LocalStore, manifest: Manifest, segments: int) -> list[str]:
    """Append segments of two interleaved tables, three transactions each; return their paths."""
    paths = []
    for _ in range(segments):
        here = manifest.state.position.value
        changes = [(table, here + commit, seqval) for table in (1, 2) for commit in range(3) for seqval in (1, 2)]
        paths.append(append_records(store, manifest, changes).path)
    return paths


def everything(store: LocalStore, manifest: Manifest) -> pa.Table:
    """Return the live records in the order of the log."""
    tables = [read_segment(store, segment.path) for segment in manifest.state.segments]
    return pa.concat_tables(tables).sort_by(
        [("commit_lsn", "ascending"), ("seqval", "ascending"), ("table_id", "ascending")]
    )


def test_a_merge_keeps_every_record(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    fill(store, manifest, 10)
    before = everything(store, manifest)
    merge_segments(store, manifest, token, plan_merge(manifest.state, NOW), NOW)

    assert len(manifest.state.segments) == 1
    assert everything(store, manifest).equals(before)


def test_a_merged_segment_is_ordered_like_any_other(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    fill(store, manifest, 8)
    state = merge_segments(store, manifest, token, plan_merge(manifest.state, NOW), NOW)
    merged = read_segment(store, state.segments[0].path)

    assert merged.equals(merged.sort_by([(name, "ascending") for name in ("table_id", "commit_lsn", "seqval")]))


def test_replaced_files_outlive_their_grace_and_no_longer(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    replaced = fill(store, manifest, 8)
    [merged] = merge_segments(store, manifest, token, plan_merge(manifest.state, NOW), NOW).segments

    truncate(store, manifest, token, NOW + DELETE_GRACE - timedelta(seconds=1))
    assert store.list("segments/") == sorted([*replaced, merged.path])
    state = truncate(store, manifest, token, NOW + DELETE_GRACE)
    assert store.list("segments/") == [merged.path]
    assert state.pending_deletions == ()


def test_truncation_follows_the_slowest_reader(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    paths = fill(store, manifest, 3)
    starts = [Position(segment.first.value) for segment in manifest.state.segments]
    manifest.append(ReaderAdvanced("cdc", manifest.state.position))
    manifest.append(ReaderAdvanced("queue", starts[1]))

    state = truncate(store, manifest, token, NOW)
    assert [segment.path for segment in state.segments] == paths[1:]
    manifest.append(ReaderAdvanced("queue", manifest.state.position))
    assert truncate(store, manifest, token, NOW).segments == ()


def test_without_a_reader_nothing_is_truncated(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    fill(store, manifest, 3)
    version = manifest.state.version

    assert truncate(store, manifest, token, NOW).version == version


def test_maintenance_with_nothing_to_do_writes_nothing(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    fill(store, manifest, 3)
    manifest.append(ReaderAdvanced("cdc", manifest.state.position))
    version = maintain(store, manifest, token).version

    assert maintain(store, manifest, token).version == version


def test_maintenance_truncates_and_merges_what_is_left(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    old = datetime.now(UTC) - MERGE_AGE
    for number in range(2 * MIN_MERGED_FILES):
        written = replace(write_segment(store, records([(1, 200 + number, 1)])), created_at=old)
        manifest.append(range_to(manifest.state, written.last.value + 1, [written]))
    manifest.append(ReaderAdvanced("cdc", Position(200 + MIN_MERGED_FILES)))

    [merged] = maintain(store, manifest, token).segments
    assert (merged.first.value, merged.last.value) == (200 + MIN_MERGED_FILES, 200 + 2 * MIN_MERGED_FILES - 1)
    assert read_segment(store, merged.path).num_rows == MIN_MERGED_FILES


def test_a_deletion_that_was_cut_short_is_repeated(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    [path] = fill(store, manifest, 1)
    manifest.append(ReaderAdvanced("cdc", manifest.state.position))
    truncate(store, manifest, token, NOW)
    store.delete(path)  # and killed before the entry

    assert truncate(store, manifest, token, NOW + DELETE_GRACE).pending_deletions == ()


def test_holder_that_lost_its_lease_deletes_no_live_segment(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    fill(store, manifest, 8)
    run = plan_merge(manifest.state, NOW)
    manifest.take_lease("log", "another")
    live = {segment.path for segment in manifest.state.segments}

    with pytest.raises(LeaseLost):
        merge_segments(store, manifest, token, run, NOW)
    assert live < set(store.list("segments/"))
    with pytest.raises(LeaseLost):
        delete_orphans(store, manifest, token)
    assert live < set(store.list("segments/"))
    assert len(delete_orphans(store, manifest, manifest.state.leases["log"].token)) == 1
    assert live == set(store.list("segments/"))


def test_many_files_are_overdue_live_or_replaced(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    fill(store, manifest, MANY_FILES - 1)
    assert not is_overdue(manifest.state)
    fill(store, manifest, 1)
    assert is_overdue(manifest.state)

    merge_segments(store, manifest, token, plan_merge(manifest.state, NOW), NOW)
    assert len(manifest.state.segments) < MANY_FILES
    assert is_overdue(manifest.state)


def test_the_placeholder_stands_where_no_reader_does(store: LocalStore) -> None:
    manifest, _ = open_manifest(store)
    assert not is_placeholder_behind(manifest)
    ensure_placeholder(manifest)
    assert not is_placeholder_behind(manifest)
    fill(store, manifest, 1)
    assert is_placeholder_behind(manifest)

    advance_placeholder(manifest)
    assert [reader.position for reader in manifest.state.readers.values()] == [manifest.state.position]
    remove_placeholder(manifest)
    assert not manifest.refresh().readers
    assert not is_placeholder_behind(manifest)


def test_orphans_are_what_no_entry_names(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    large = [write_segment(store, records([(1, 100, seqval)]), pending=True) for seqval in (1, 2)]
    manifest.append(range_to(manifest.state, 200, large))
    [kept] = fill(store, manifest, 1)
    manifest.append(ReaderAdvanced("cdc", Position(200)))
    truncate(store, manifest, token, NOW)
    fill(store, manifest, 1)
    named = [*store.list("pending/"), *store.list("segments/")]
    unnamed = [write_segment(store, records([(1, 900, 1)]), pending=pending).path for pending in (False, True)]

    assert set(delete_orphans(store, manifest, manifest.state.leases["log"].token)) == set(unnamed)
    assert [*store.list("pending/"), *store.list("segments/")] == named
    assert kept in named


@pytest.mark.parametrize(
    ("failpoint", "written", "visible"),
    [
        ("segment_sync.before", 0, 0),
        ("segment_sync.after", 1, 0),
        ("manifest_entry.before", 1, 0),
        ("manifest_entry.after", 1, 1),
    ],
)
def test_a_kill_loses_no_range_and_leaves_at_most_an_orphan(
    store: LocalStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failpoint: str,
    written: int,
    visible: int,
) -> None:
    open_manifest(store)
    monkeypatch.setenv("ROWTIDE_FAILPOINT", failpoint)
    child = multiprocessing.get_context("spawn").Process(target=append_records_in_child, args=(str(tmp_path),))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL

    manifest = Manifest.open(store)
    state = manifest.state
    assert (len(store.list("segments/")), len(state.segments)) == (written, visible)
    delete_orphans(store, manifest, state.leases["log"].token)
    assert store.list("segments/") == [segment.path for segment in state.segments]
