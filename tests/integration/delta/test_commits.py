"""A cycle is committed once, whoever commits beside it, wherever its writer is killed, and however late it comes."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from builders.faults.failpoints import DELTA_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.faults.watched_stores import WatchedStore
from builders.lakes.delta_tables import (
    ERRORS,
    PROTOCOL,
    SCHEMA,
    append,
    append_asleep,
    append_cycles_in_child,
    create,
    locate,
    maintain_later,
    metadata,
    own,
    write_commit,
)
from rowtide.delta import checkpoints
from rowtide.delta.checkpoints import forget_versions, maintain_log, write_checkpoint
from rowtide.delta.errors import AppendNotFound, LakeWriteFailed, TableMissing, TableUnwritable
from rowtide.delta.replay import LAST_CHECKPOINT, checkpoint_path, commit_path
from rowtide.delta.snapshot import Location, Tail, open_snapshot
from rowtide.delta.writing.alteration import set_properties
from rowtide.delta.writing.appends import write_rows
from rowtide.delta.writing.commits import Committer, create_table
from rowtide.delta.writing.compaction import compact
from rowtide.storage.local import LocalFolder

SPAWN = multiprocessing.get_context("spawn")


def ids(path: Path) -> list[Any]:
    return sorted(own(path).read()["id"].to_pylist())


def race(path: Path, tmp_path: Path, claims: Sequence[tuple[str, Sequence[int]]]) -> list[list[bool]]:
    """Append cycles from a process for each identity; return which appends were new."""
    barrier = SPAWN.Barrier(len(claims))
    results = [str(tmp_path / f"result-{number}") for number in range(len(claims))]
    children = [
        SPAWN.Process(target=append_cycles_in_child, args=(str(path), identity, cycles, barrier, result))
        for (identity, cycles), result in zip(claims, results, strict=True)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    return [json.loads(Path(result).read_text()) for result in results]


def test_appends_of_several_processes_are_all_there_once(tmp_path: Path) -> None:
    path = create(tmp_path / "table", **{"delta.checkpointInterval": "7"})
    cycles = list(range(1, 31))
    done = race(path, tmp_path, [(name, cycles) for name in ("a", "b", "c")])
    assert done == [[True] * 30] * 3
    assert ids(path) == sorted(cycles * 3)
    found = own(path)
    assert found.version == 90
    assert found.checkpoint_version == 84
    assert [found.get_transaction(name) for name in ("a", "b", "c")] == [30, 30, 30]


def test_of_several_processes_one_commits_a_cycle(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    done = race(path, tmp_path, [("one", [1])] * 3)
    assert sorted(done) == [[False], [False], [True]]
    assert ids(path) == [1]


def test_a_repeat_is_refused_by_who_remembers_another_version(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    first, second, location = Committer(), Committer(), locate(path)
    assert append(first, location, 1)
    assert append(second, location, 2)
    assert not append(first, location, 2)
    assert append(first, location, 3)
    assert not append(second, location, 3)
    with pytest.raises(AppendNotFound, match="RT-3102: .*cycle 2"):
        append(first, location, 2)
    assert ids(path) == [1, 2, 3]


def test_commits_of_other_identities_are_passed(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    one, other, location = Committer(), Committer(), locate(path)
    append(one, location, 1)
    for cycle in range(1, 6):
        append(other, location, cycle, identity="two")
    assert append(one, location, 2)
    assert own(path).version == 7


def test_a_commit_is_known_by_its_id_where_the_reply_was_lost(tmp_path: Path) -> None:
    class LosingFolder(LocalFolder):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            super().put_if_absent(path, data)
            return False

    path = create(tmp_path / "table")
    assert append(Committer(), Location(str(path), LosingFolder(str(path), ERRORS)), 1)
    assert ids(path) == [1]


def test_changed_columns_are_taken_into_account(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    committer, location = Committer(), locate(path)
    append(committer, location, 1)
    renamed = json.dumps(SCHEMA).replace('"id"', '"key"')
    write_commit(path, 2, {"metaData": {**metadata()["metaData"], "schemaString": renamed}})
    with pytest.raises(LakeWriteFailed, match="RT-3103: .*no column id of type int64"):
        append(committer, location, 2)
    assert append(committer, location, 2, pa.table({"key": pa.array([7], pa.int64())}))
    assert own(path).read()["key"].to_pylist() == [None, 7]
    write_commit(path, 4, metadata())
    assert append(committer, location, 3), "what it remembers has no such column; the table has"


@pytest.mark.parametrize("failpoint", DELTA_FAILPOINTS)
def test_a_writer_that_is_killed_repeats_its_cycle(tmp_path: Path, failpoint: str) -> None:
    path = tmp_path / "table"
    program = """
import sys
from pathlib import Path
from builders.lakes.delta_tables import append, create, locate
from rowtide.delta.writing.commits import Committer
path = create(Path(sys.argv[1]), **{"delta.checkpointInterval": "2"})
committer = Committer()
for cycle in (1, 2, 3):
    append(committer, locate(path), cycle) or print("again")
"""
    assert run_program(program, str(path), failpoint=failpoint) == KILLED
    create(path, **{"delta.checkpointInterval": "2"})
    committer, location = Committer(), locate(path)
    last = own(path).get_transaction("one") or 0
    assert append(committer, location, last) is False if last else True
    for cycle in range(last + 1, 4):
        assert append(committer, location, cycle)
    assert ids(path) == [1, 2, 3]
    assert own(path).version == 3
    assert [file for file in (path / ".tmp").iterdir() if file.stat().st_mtime < time.time() - 3600] == []


def test_a_cycle_is_known_after_checkpoints_and_cleanup(tmp_path: Path) -> None:
    path = create(
        tmp_path / "table", **{"delta.checkpointInterval": "3", "delta.logRetentionDuration": "interval 0 days"}
    )
    committer, location = Committer(maintain=maintain_later), locate(path)
    append(committer, location, 1, identity="rare")
    for cycle in range(1, 12):
        append(committer, location, cycle)
        time.sleep(0.002)
    assert own(path).checkpoint_version == 12
    assert not (path / commit_path(8)).exists()
    assert not append(Committer(), location, 11)
    assert not append(Committer(), location, 1, identity="rare")
    assert ids(path) == sorted([1, *range(1, 12)])


@pytest.mark.parametrize("cleanup", ["true", "false"])
def test_a_table_keeps_its_log_where_its_properties_say_so(tmp_path: Path, cleanup: str) -> None:
    short = {"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 0 days"}
    path = create(tmp_path / "table", **short, **{"delta.enableExpiredLogCleanup": cleanup})
    committer, location = Committer(maintain=maintain_later), locate(path)
    for cycle in range(1, 7):
        append(committer, location, cycle)
        time.sleep(0.002)
    assert (path / commit_path(0)).exists() is (cleanup == "false")
    assert ids(path) == list(range(1, 7))


def test_a_log_of_minutes_ago_stays_whatever_the_table_says(tmp_path: Path) -> None:
    short = {"delta.checkpointInterval": "2", "delta.logRetentionDuration": "interval 0 days"}
    path = create(tmp_path / "table", **short)
    committer, location = Committer(), locate(path)
    for cycle in range(1, 7):
        append(committer, location, cycle)
    now = datetime.now(UTC)
    for minutes, is_there in ((9, True), (11, False)):
        maintain_log(location, 6, short, now=now + timedelta(minutes=minutes))
        assert (path / commit_path(0)).exists() is is_there
    assert ids(path) == list(range(1, 7))


def test_a_cycle_is_a_data_file_and_a_commit(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    now, watched = [0.0], WatchedStore(LocalFolder(str(path), ERRORS))
    committer, location = Committer(clock=lambda: now[0]), Location(str(path), watched)
    append(committer, location, 1)
    watched.take_calls()
    for cycle in range(2, 6):
        now[0] += 60
        append(committer, location, cycle)
    assert watched.take_calls() == ["write_durable", "put_if_absent"] * 4


def test_a_holder_of_the_lease_reads_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as a bucket has checkpoints, with almost an hour between two commits."""
    monkeypatch.setattr(checkpoints, "is_object_url", lambda _place: True)
    path = create(tmp_path / "table", **{"delta.checkpointInterval": "100"})
    now, watched = [0.0], WatchedStore(LocalFolder(str(path), ERRORS))
    committer, location = Committer(clock=lambda: now[0], holds_lease=True), Location(str(path), watched)
    append(committer, location, 1)
    watched.take_calls()
    for cycle in range(2, 102):
        now[0] += 3600
        append(committer, location, cycle)
    calls = watched.take_calls()
    assert calls[:4] == ["write_durable", "put_if_absent"] * 2
    assert sum(call in ("get", "open", "list") for call in calls) <= 20
    assert sum(call in ("write_durable", "put_if_absent", "put_durable") for call in calls) <= 220
    assert (ids(path), own(path).checkpoint_version) == (list(range(1, 102)), 100)


def test_a_holder_looks_where_the_log_is_kept_for_minutes(tmp_path: Path) -> None:
    path = create(tmp_path / "table", **{"delta.logRetentionDuration": "interval 8 minutes"})
    now, watched = [0.0], WatchedStore(LocalFolder(str(path), ERRORS))
    committer, location = Committer(clock=lambda: now[0], holds_lease=True), Location(str(path), watched)
    append(committer, location, 1)
    for pause_s, expected in ((120, []), (121, ["list"])):
        watched.take_calls()
        now[0] += pause_s
        append(committer, location, round(now[0]))
        assert watched.take_calls() == [*expected, "write_durable", "put_if_absent"]


def test_only_what_others_committed_is_read_later(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    now, watched, other = [0.0], WatchedStore(LocalFolder(str(path), ERRORS)), Committer()
    committer, location = Committer(clock=lambda: now[0]), Location(str(path), watched)
    for cycle in range(1, 21):
        append(committer, location, cycle)
    for cycle in range(1, 4):
        append(other, locate(path), cycle, identity="two")
    compact(locate(path), "id")
    watched.calls.clear()
    now[0] += 61
    assert append(committer, location, 21)
    read = [path for name, path in watched.calls if name in ("get", "open")]
    assert read == [commit_path(version) for version in range(21, 25)]
    assert [name for name, _ in watched.calls].count("list") == 1
    assert ids(path) == sorted([*range(1, 22), 1, 2, 3])
    assert not append(other, locate(path), 21), "passed by on its way"


@pytest.mark.parametrize("holds_lease", [True, False])
def test_a_table_that_others_altered_is_read_again(tmp_path: Path, *, holds_lease: bool) -> None:
    """Columns, properties, or all of it: whether they are found by a look or by the race."""
    path = create(tmp_path / "table")
    now, location = [0.0], locate(path)
    committer = Committer(clock=lambda: now[0], holds_lease=holds_lease)
    append(committer, location, 1)
    now[0] += 61
    set_properties(location, {"delta.checkpointInterval": "3"})
    append(committer, location, 2)
    assert own(path).checkpoint_version == 3
    now[0] += 61
    renamed = json.dumps(SCHEMA).replace('"id"', '"key"')
    write_commit(path, 4, {"metaData": {**metadata()["metaData"], "schemaString": renamed}})
    assert append(committer, location, 3, pa.table({"key": pa.array([7], pa.int64())}))
    assert own(path).read()["key"].to_pylist().count(7) == 1
    now[0] += 3601
    shutil.rmtree(path / "_delta_log")
    with pytest.raises(TableMissing, match="there is no table"):
        append(committer, location, 4)


def test_a_checkpoint_follows_one_that_could_not_be_written(tmp_path: Path) -> None:
    path = create(tmp_path / "table", **{"delta.checkpointInterval": "3"})
    written: list[int] = []

    def maintain(location: Location, version: int, properties: Mapping[str, str], tail: Tail) -> None:
        if version != 3:
            maintain_log(location, version, properties, tail)
        written.append(version)

    committer, location = Committer(maintain=maintain, holds_lease=True), locate(path)
    for cycle in range(1, 7):
        append(committer, location, cycle)
    assert written == list(range(1, 7))
    assert not (path / checkpoint_path(3)).exists()
    for version in range(6):
        (path / commit_path(version)).unlink()
    assert (own(path).checkpoint_version, ids(path)) == (6, list(range(1, 7)))


def test_the_log_keeps_what_is_younger_than_its_retention(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    committer, location = Committer(), locate(path)
    for cycle in range(1, 6):
        append(committer, location, cycle)
    for version in (2, 4):
        write_checkpoint(own(path, version), datetime.now(UTC))
    day = timedelta(days=1)
    forget_versions(location, day, datetime.now(UTC) + timedelta(hours=23))
    assert (path / commit_path(0)).exists()
    (path / commit_path(4)).write_bytes(
        (path / commit_path(4)).read_bytes().replace(b'"timestamp":1', b'"timestamp":9')
    )
    forget_versions(location, day, datetime.now(UTC) + timedelta(days=2))
    assert not (path / commit_path(1)).exists()
    assert (path / commit_path(2)).exists(), "version 4 is younger, by its own time"
    assert [own(path, version).version for version in (2, 3, 5)] == [2, 3, 5]


def test_a_checkpoint_forgets_files_removed_long_ago(tmp_path: Path) -> None:
    path = create(tmp_path / "table", **{"delta.deletedFileRetentionDuration": "interval 1 hour"})
    now = datetime.now(UTC)
    removals = {"old": now - timedelta(hours=2), "young": now - timedelta(minutes=30)}
    for version, (name, time_of) in enumerate(removals.items(), 1):
        millis = int(time_of.timestamp() * 1000)
        write_commit(path, version, {"remove": {"path": name, "deletionTimestamp": millis, "dataChange": True}})
    write_checkpoint(own(path), now)
    (path / commit_path(0)).unlink()
    found = own(path)
    assert found.checkpoint_version == 2
    assert list(found.state.removed) == ["young"]


@pytest.fixture
def left_behind(tmp_path: Path) -> tuple[Committer, Path, Callable[[], None]]:
    """A writer, its table, and its sleep: others continue, one writes a checkpoint, and cleanup removes the numbers
    that the writer takes for free.
    """
    path = create(tmp_path / "table")
    now, other, location = [0.0], Committer(), locate(path)
    sleeper = Committer(clock=lambda: now[0])

    def sleep() -> None:
        now[0] += 61
        for cycle in range(1, 6):
            append(other, location, cycle, identity="two")
        write_checkpoint(own(path), datetime.now(UTC))
        for version in range(6):
            (path / commit_path(version)).unlink()

    append(sleeper, location, 1)
    return sleeper, path, sleep


def test_a_commit_in_a_hole_of_the_log_is_made_again(
    left_behind: tuple[Committer, Path, Callable[[], None]],
) -> None:
    sleeper, path, sleep = left_behind
    assert append_asleep(sleeper, locate(path), 2, sleep)
    assert own(path).version == 7
    assert ids(path) == [1, 1, 2, 2, 3, 4, 5]


def test_a_hole_is_found_without_the_file_that_names_checkpoints(
    left_behind: tuple[Committer, Path, Callable[[], None]],
) -> None:
    sleeper, path, sleep = left_behind

    def sleep_and_lose() -> None:
        sleep()
        (path / LAST_CHECKPOINT).unlink()

    assert append_asleep(sleeper, locate(path), 2, sleep_and_lose)
    assert ids(path) == [1, 1, 2, 2, 3, 4, 5]


def test_a_hole_is_found_though_an_early_checkpoint_is_named(tmp_path: Path) -> None:
    """It stood still with its checkpoint written; a later one was named meanwhile, and the log below was removed."""
    path = create(tmp_path / "table")
    now, other, location = [0.0], Committer(), locate(path)
    sleeper = Committer(clock=lambda: now[0])

    class LateFolder(LocalFolder):
        def put_durable(self, path_: str, data: bytes) -> None:
            write_checkpoint(own(path), datetime.now(UTC))
            for version in range(6):
                (path / commit_path(version)).unlink()
            super().put_durable(path_, data)

    def sleep() -> None:
        now[0] += 61
        for cycle in range(1, 6):
            append(other, location, cycle, identity="two")
        assert early is not None
        write_checkpoint(early, datetime.now(UTC))

    append(sleeper, location, 1)
    early = open_snapshot(Location(str(path), LateFolder(str(path), ERRORS)))
    assert append_asleep(sleeper, location, 2, sleep)
    assert ids(path) == [1, 1, 2, 2, 3, 4, 5]
    assert own(path).checkpoint_version == 6


def test_what_was_last_seen_a_minute_ago_is_looked_up(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    now, location = [0.0], locate(path)
    committer = Committer(clock=lambda: now[0])
    append(committer, location, 1)
    stolen = path / "elsewhere"
    (path / commit_path(1)).rename(stolen)
    now[0] = 59.0
    append(committer, location, 2)
    assert (path / commit_path(2)).exists(), "still built on what it remembers"
    (path / commit_path(2)).unlink()
    now[0] = 59.0 + 61.0
    append(committer, location, 3)
    assert (path / commit_path(1)).exists()


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ([metadata(**{"delta.enableInCommitTimestamps": "true"})], "in-commit timestamps"),
        ([metadata(**{"delta.enableRowTracking": "true"})], "row tracking"),
        ([metadata(**{"delta.enableDeletionVectors": "true"})], "deletion vectors"),
        ([metadata(**{"delta.enableChangeDataFeed": "true"})], "a change data feed"),
        ([metadata(**{"delta.setTransactionRetentionDuration": "interval 1 days"})], "transaction identifiers"),
        ([metadata(**{"delta.constraints.positive": "id > 0"})], "the check constraint positive"),
        ([{"domainMetadata": {"domain": "delta.clustering", "configuration": "{}", "removed": False}}], "clustering"),
        ([{"protocol": {**PROTOCOL, "minWriterVersion": 8}}], "writer version 8"),
        *(
            (
                [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [name]}}],
                f"feature {name}",
            )
            for name in ("clustering", "inCommitTimestamp", "rowTracking", "checkpointProtection", "icebergCompatV2")
        ),
    ],
)
def test_what_an_append_would_not_honour_is_refused(
    tmp_path: Path, actions: Sequence[dict[str, Any]], said: str
) -> None:
    path = create(tmp_path / "table")
    committer, location = Committer(), locate(path)
    append(committer, location, 1)
    write_commit(path, 2, *actions)
    for who in (committer, Committer()):
        with pytest.raises(TableUnwritable, match=f"RT-3107: .* has .*{said}"):
            append(who, location, 2)
    assert ids(path) == [1]


def test_no_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LakeWriteFailed, match="RT-3103: .*no table"):
        append(Committer(), locate(tmp_path / "none"), 1)


def test_a_checkpoint_that_fails_is_no_failed_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: object) -> None:
        raise LakeWriteFailed("a checkpoint", "no space")

    path = create(tmp_path / "table", **{"delta.checkpointInterval": "1"})
    monkeypatch.setattr(checkpoints, "write_checkpoint", fail)
    assert append(Committer(), locate(path), 1)
    assert ids(path) == [1]
    assert not (path / checkpoint_path(1)).exists()


def test_rows_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "table"
    strict = json.dumps(SCHEMA).replace('"nullable": true', '"nullable": false')
    create_table(locate(path), strict, {})
    state = own(path)

    def write(rows: pa.Table) -> None:
        write_rows(locate(path), state.columns, state.metadata, rows, "a")

    for rows, said in (
        (pa.table({"id": pa.array([1], pa.int32())}), "no column id of type int32"),
        (pa.table({"other": pa.array([1], pa.int64())}), "no column other"),
        (pa.table({"id": pa.array([None], pa.int64())}), "id takes no null"),
        (pa.table({}), "id takes no null"),
    ):
        with pytest.raises(LakeWriteFailed, match=said):
            write(rows)
